package main

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb/lmbtest"
)

// faultListing is a listing for the ivshmem device. In each of its sequences, lmrun checks at
// another place in its code whether the device is still present. Window 0 is configuration space,
// so commands without a window have the index of a window that is not mapped memory.
var faultListing = `lightmetal 1
target ivshmem 1af4:1110 subsystem 1af4:1100 bar2 1MiB
window cfg config size 256
window ram bar2 offset 0x0 size 1MiB
tensor got output uint8[8]
main:
  delay 5us
  call one
one:
  fence
change:
  write.4 ram+0x0 0xffffffff
  write.4 ram+0x0 0x1 mask 0xff
taken:
  write.8 ram+0x0 0xffffffffffffffff
  copy.4 got[:] <- ram+0x0
  write.8 ram+0x0 0xff00000000000000
  copy.8 got[:] <- ram+0x0
look:
  write.4 ram+0x0 0xffffffff
  expect.4 ram+0x0 == 0xffffffff
wait:
  write.4 ram+0x0 0xffffffff
  poll.4 ram+0x0 == 0x1 within 1s every 1us
unequal:
  write.4 ram+0x0 0x1
  expect.4 ram+0x0 == 0x2
ignored:
  write.4 ram+0x0 0x1
  expect.4 ram+0x0 == 0x2 else ignore
nested:
  call unequal
config:
  expect.2 cfg+0x0 == 0x1af4
ones:
  expect.2 cfg+0x2c == 0xffff
many:
` + strings.Repeat("  write.4 ram+0x0 0x1\n", 600) + `config-wait:
  poll.2 cfg+0x0 == 0x77 within 10s every 1us
off:
  write.4 ram+0x0 0x1
  expect.2 cfg+0x0 == 0x1af4
  expect.4 ram+0x0 == 0x1
payload:
  expect.2 cfg+0x0 == 0x1af4
  copy.8 ram+0x0 <- pattern 0x5 size 65536
safe:
  expect.4 ram+0x40 == 0x5afe
`

// deviceCheck matches the system call with which lmrun checks a device: a read of 8 bytes of its
// configuration space.
const deviceCheck = "pread64 /config 2=8 3=0"

// Changes to the frame of a bus error (inside/answer.go): the code of the signal, and the
// address of the access that faulted.
const (
	sigbusObjErr   = "SIGBUS @8:03000000"                     // BUS_OBJERR
	unknownAddress = " @304:0000000000000000"                 // no address was reported
	otherAddress   = " @304:0000000000100000"                 // address outside windows and files
	nilPointer     = "SIGBUS @8:02000000 @304:10000000000000" // BUS_ADRERR, a field of nil
)

// runCase is a run of lmrun in which the results of some system calls are replaced.
type runCase struct {
	code    hal.Code // expected result
	text    string   // expected text in the message
	answers string   // replaced results, in the syntax of inside/answer.go
	flags   string   // flags of lmrun, and optionally the path of an image
}

// fileFailureCases are runs in which reading the image fails, or the file is truncated, at each
// place that reads the file.
var fileFailureCases = []runCase{
	{hal.BadImage, "is not a regular file", "fstat /looks.lmb =-5", "/looks.lmb"},
	{hal.IO, "", "mmap /looks.lmb =-12", "/looks.lmb"},
	{hal.IO, "/looks.lmb", "pread64 /looks.lmb #1 =-5", "/looks.lmb"},
	{hal.IO, "cut short while it was read", "pread64 /looks.lmb #1 =0", "/looks.lmb"},
	{hal.IO, "/right.lmb", "mmap 3=0x32 1=ALL =-12", "/right.lmb"},
	{hal.IO, "/many", "mmap 3=0x32 1=BEHIND =-12", "-check /many"},
	{hal.IO, "/many", "pread64 /many #2 =-5", "-check /many"},
	{hal.IO, "cut short while it was read", "mmap /cut/many !truncate /cut/many 5000",
		"-check /cut/many"},
	{hal.IO, "cut short while it was read", "mprotect 2=1 #1 !truncate /cut/small.lmb 4096",
		"-check /cut/small.lmb"},
	// A memory fault outside the file is a bug in lmrun.
	{hal.Internal, "panic: ", "mprotect 2=1 #1 !truncate /cut/second.lmb 4096; " + sigbusObjErr +
		otherAddress, "-check /cut/second.lmb"},
	{hal.Internal, "panic: ", "mprotect 2=1 #1 !truncate /cut/third.lmb 4096; " + nilPointer,
		"-check /cut/third.lmb"},
	{hal.BadImage, "too little memory: ",
		fmt.Sprintf("read /proc/meminfo #1 =19 @0:%x; read /proc/meminfo =0",
			"MemAvailable: 1 kB\n"), "-check /many"},
	{hal.OK, "", "openat /proc/meminfo =-2", "-check /many"},
	{hal.IO, "", "write /tmp/said =0", "-check /many"}, // standard output accepts no bytes
	{hal.OK, "", "read /proc/meminfo #1 =-5", "-check /many"},
}

// shmCases are runs of faultListing on the ivshmem device.
var shmCases = []runCase{
	{hal.ExpectFailed, "", "", "-sequence safe"},
	{hal.ExpectFailed, "", "", "-sequence unequal"},
	{hal.OK, "", "", ""},
	{hal.OK, "", "", "-sequence ignored -deadline 10s"},
	{hal.OK, "", "", "-sequence change"},
	{hal.OK, "", "", "-sequence taken"},
	{hal.ExpectFailed, "", "", "-sequence nested"},
	{hal.BadImage, "are available", "mmap 1=64 =-12", ""},
	{hal.DeviceGone, "device gone", deviceCheck + " @0:ffff", "-sequence change"},
	{hal.DeviceGone, "device gone", deviceCheck + " @4:04", "-sequence taken"},
	{hal.DeviceGone, "device gone", deviceCheck + " =-5", "-sequence look"},
	{hal.DeviceGone, "device gone", deviceCheck + " =4", "-sequence look"},
	{hal.DeviceGone, "device gone", deviceCheck + " #2 @0:ffff", "-sequence wait"},
	{hal.DeviceGone, "device gone", deviceCheck + " @0:ffff", "-sequence unequal"},
	{hal.DeviceGone, "device gone", deviceCheck + " @0:ffff", "-sequence ignored"},
	{hal.DeviceGone, "device gone", "pread64 /config 2=2 3=0 =-19", "-sequence config"},
	{hal.Denied, "not permitted", "pread64 /config 2=2 3=0 =-1", "-sequence config"},
	{hal.IO, "input/output", "pread64 /config 2=2 3=0 =-5", "-sequence config"},
	{hal.Denied, "not permitted", "pread64 /config 2=2 3=0 =1", "-sequence config"},
	{hal.DeviceGone, "device gone", "pread64 /config 2=2 3=0 #3 =-19", "-sequence config-wait"},
	{hal.FrameLate, "", "", "-sequence config-wait -deadline 5ms"},
	{hal.FrameLate, "", "", "-sequence many -deadline 1us"},
	{hal.DeviceGone, "device gone",
		"pread64 /config 2=2 3=0 !write /sys/bus/pci/devices/0000:00:03.0/config 4 0000",
		"-sequence off"},
	{hal.IO, "cut short while it was read", "pread64 /config 2=2 3=0 !truncate /cut/too.lmb 4096",
		"-sequence payload /cut/too.lmb"},
	{hal.OK, "", "pread64 /config 2=2 3=0 !signal 15", "-sequence config -loop forever"},
	{hal.OK, "", "pread64 /config 2=2 3=0 #2 !signal 15; pread64 /config 2=2 3=0 #4 @0:7700",
		"-sequence config-wait"},
	{hal.BusFault, "", "pread64 /config 2=2 3=0 !fault; " + sigbusObjErr + unknownAddress,
		"-sequence config"},
	{hal.BusFault, "", "pread64 /config 2=2 3=0 !fault; " + sigbusObjErr + otherAddress,
		"-sequence config"},
	{hal.Internal, "", deviceCheck + " !fault; " + sigbusObjErr + otherAddress, "-sequence look"},
	{hal.Internal, "", deviceCheck + " !fault; " + nilPointer, "-sequence look"},
	{hal.NoDevice, "a replay already uses the device", "", "-device pci:1af4:1110 /same.lmb"},
	{hal.Denied, "cannot lock", "mlock =-12", ""},
	{hal.Denied, "cannot seal the process", "seccomp =-1", "-seal"},
	{hal.Denied, "cannot seal the process", "seccomp =7", "-seal"},
}

// noDecoding replaces the command register, so that memory decoding appears to be off and to stay
// off.
const noDecoding = "pread64 /config 2=2 3=4 @0:0000"

// noIOMMU hides the IOMMU from lmrun, so that lmrun lets the ivshmem device be a bus master.
const noIOMMU = "openat of_node/iommu-map =-2"

// commandRegisterCases are runs that store to the command register of the ivshmem device.
var commandRegisterCases = []runCase{
	{hal.NoDevice, "memory decoding stays off", noDecoding, ""},
	{hal.Denied, "command register", noDecoding + "; pwrite64 /config =-1", ""},
	{hal.IO, "command register", noDecoding + "; pwrite64 /config =-5", ""},
	{hal.DeviceGone, "command register", noDecoding + "; pwrite64 /config =-19", ""},
	{hal.Denied, "command register", noDecoding + "; pwrite64 /config =0", ""},
	// A register that cannot be read counts as one with the unwanted value.
	{hal.OK, "", "pread64 /config 2=2 3=4 #2 =-5", ""},
	{hal.NoDevice, "memory decoding stays off",
		"pread64 /config 2=2 3=4 #2 =-5; pread64 /config 2=2 3=4 #3 =-5", ""},
	{hal.Denied, "run as root", "openat /config #1 =-13; " + noIOMMU, "/wide.lmb"},
	{hal.OK, "", noIOMMU, "/wide.lmb"},
	{hal.ExpectFailed, "", noIOMMU, "-sequence unequal /wide.lmb"},
	{hal.Denied, "command register", "pwrite64 /config 3=4 =-1; " + noIOMMU, "/wide.lmb"},
	{hal.WrongDevice, "does not fit the register", noIOMMU, "/narrow.lmb"},
	{hal.WrongDevice, "it is for", "", "/other.lmb"},
	{hal.OK, "", "", "/right.lmb"},
	{hal.Usage, "no sequence", "", "-sequence none"},
	{hal.Usage, "the image has no input", "", "-input none=/eight"},
	{hal.BadImage, "may take", "", "-check -longest 1us /named.lmb"},
	{hal.DeviceGone, "device gone", "pread64 /config 2=2 3=44 @0:ffff; " + deviceCheck + " @0:ffff",
		"-sequence ones"},
	{hal.OK, "", "pread64 /config 2=2 3=44 @0:ffff", "-sequence ones"},
}

const vfioConfigAt = "0x70000000000" // offset of configuration space in a function's VFIO file

// busMasterCases are runs on a device that is a bus master.
var busMasterCases = []runCase{
	{hal.OK, "", "", ""},
	{hal.OK, "", "", "-seal"},
	{hal.DMAFault, "DMA fault", "pread64 2=8 3=" + vfioConfigAt + " @6:0020", "-sequence unequal"},
	{hal.MasterOff, "bus mastering is off", "pread64 2=8 3=" + vfioConfigAt + " @4:02",
		"-sequence unequal"},
	{hal.DeviceGone, "device gone", "pread64 2=8 3=" + vfioConfigAt + " @0:ffff",
		"-sequence unequal"},
	{hal.DeviceGone, "device gone", "pread64 2=8 3=" + vfioConfigAt + " #2 @0:ffff",
		"-sequence unequal"},
	{hal.MasterOff, "bus mastering stays off", "pwrite64 2=2 3=0x70000000004 #2 =2", ""},
	{hal.IO, "command register", "pwrite64 2=2 3=0x70000000004 #2 =-5", ""},
	{hal.Internal, "bus mastering stays on", "pwrite64 2=2 3=0x70000000004 #3 =2", ""},
	{hal.IO, "command register", "pwrite64 2=2 3=0x70000000004 #3 =-5", ""},
	{hal.IO, "command register", "pwrite64 2=2 3=0x70000000004 #3 =-5", "-seal"},
	{hal.NoDevice, "VFIO_SET_IOMMU", "ioctl 1=0x3b66 =-12", ""},
}

// busMasterListing is a listing that makes edu a bus master.
const busMasterListing = `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 1MiB
window from host size 4KiB
main:
  write.8 regs+0x80 bus(from)
unequal:
  expect.4 regs+0x0 == 0x1
`

// ttAnswers replaces system calls by the results of Tenstorrent's driver (hal/tt_ioctl_linux.go)
// for a Wormhole. Its configuration space is that of the ivshmem device, and a file of zeros
// contains its windows and registers.
var ttAnswers = deviceCheck +
	" @0:521e1e400600 ?; ioctl 1=0xfa05 =0 @8:02000000 @12:02040000 ?; ioctl 1=0xfa00 =0 " +
	"@8:521e1e40 @16:1800 @20:0000; ioctl 1=0xfa02 =0" +
	" @8:" + encodeMapping(1, 512<<20) + " @32:" + encodeMapping(3, 1<<20) +
	" @56:" + encodeMapping(5, 32<<20) +
	" ?; read 0000:00:03.0/modalias @9:31653532 @18:34303165" + // 1e52, 401e
	" ?; ioctl 1=0xfa08 =0 @12:01 ?; ioctl 1=0xfa0f =0 ?; ioctl 1=0xfa0b =0 ?; ioctl 1=0xfa0d =0 " +
	"?; ioctl 1=0xfa0e =0 ?; ioctl 1=0xfa07 =0 @32:0000000010000000 ?"

// encodeMapping returns an entry of the result of QUERY_MAPPINGS, as hex digits.
func encodeMapping(id byte, size uint32) string {
	return fmt.Sprintf("%02x000000000000000000000000000000%02x%02x%02x%02x00000000", id, byte(size),
		byte(size>>8), byte(size>>16), byte(size>>24))
}

// ttCases are runs with the driver of ttAnswers.
var ttCases = []runCase{
	{hal.OK, "", "", ""},
	{hal.OK, "", "", "-seal"},
	{hal.Refused, "rejected", "ioctl 1=0xfa0d =-22; ", ""},
	{hal.DeviceGone, "device gone", "ioctl 1=0xfa0d #2 =-19; ", ""},
	{hal.DeviceGone, "device gone", "ioctl 1=0xfa0d #2 =-19; ", "-seal"},
	{hal.NoDevice, "", "ioctl 1=0xfa0e =-5; ", "-sequence go"},
	{hal.OK, "go on running", "ioctl 1=0xfa05 =0 @8:02000000 @12:0201; ", ""},
	{hal.NoDevice, "has no bus address", "", "/tt-bar.lmb"},
	{hal.Refused, "TLB windows cannot point to these tiles", "", "/tt-vc.lmb"},
	// Wormhole's TLB windows can encode virtual channel 0, but the driver sets no channel.
	{hal.Refused, "TLB windows cannot point to these tiles", "", "/tt-on.lmb"},
	{hal.Refused, "TLB windows cannot point to these tiles", "", "/tt-far.lmb"},
	{hal.Refused, "TLB windows cannot point to these tiles", "", "/tt-tile.lmb"},
	{hal.NoDevice, "no TLB window", "ioctl 1=0xfa0b =-12; ", ""},
	{hal.WrongDevice, "does not fit the register", "ioctl 1=0xfa07 =0 @32:ffffffffffffffff; ", ""},
	{hal.BusFault, "", "ioctl 1=0xfa0d #2 =0 !fault; " + sigbusObjErr + otherAddress + "; ", ""},
}

// shmListing returns a listing for the ivshmem device. The parameters are inserted into the line of
// the device, after the window, and into the sequence main.
func shmListing(subsystem, windows, commands string) string {
	return "lightmetal 1\ntarget ivshmem 1af4:1110" + subsystem +
		" bar2 1MiB\nwindow ram bar2 offset 0x0 size 64KiB\n" + windows +
		"main:\n  " + commands + "\n"
}

// tileListing returns a listing for the Wormhole of ttAnswers. The parameters are the operands of
// its second Point command, and further commands at the end of main.
func tileListing(point, moreCommands string) string {
	return `lightmetal 1
target wormhole 1e52:401e bar0 512MiB
window l1 tlb size 1MiB
window csm bar0 offset 0x1fe80000 size 4KiB
window ram host size 4KiB
main:
  point l1 tile 1,1 address 0x0
  write.4 l1+0x10 0x5
  expect.4 l1+0x10 == 0x5
  point l1 ` + point + `
  write.8 l1+0x20 bus(ram)+0x8
  write.4 l1+0x10 0x6 mask 0x7
  copy.4 l1+0x40 <- hex 00112233
` + moreCommands + `
go:
  point l1 tile 1,1 address 0xffb00000 ordering strict
  write.4 l1+0x121b0 0x47800
  write.4 l1+0x121b0 0x47000
  write.4 l1+0x121b0 0x47000
`
}

// sampleCases returns the cases to run. `./build.sh object-coverage` runs all of them. Otherwise
// only the first case of each code and a sixth of the others run, because each takes a second, and
// the tests of package hal simulate the same failures without a guest.
func sampleCases(list []runCase) (some []runCase) {
	if coverageDir != "" {
		return list
	}
	seen := map[hal.Code]bool{}
	for i, c := range list {
		if !seen[c.code] || i%6 == 0 {
			some = append(some, c)
		}
		seen[c.code] = true
	}
	return some
}

// addCases adds runs of cases on a device. The image is used for cases that name none. moreAnswers
// are added to the answers of each case.
func (r *runSteps) addCases(list []runCase, device, image, moreAnswers string) {
	for _, c := range sampleCases(list) {
		args := append([]string{"-device", device}, strings.Fields(c.flags)...)
		if n := len(args); n == 0 || args[n-1][0] != '/' {
			args = append(args, image)
		}
		r.addAnsweredRun(c.code, c.text, c.answers+moreAnswers, args...)
	}
}

// TestShippedProgramHandlesFailedSystemCalls makes system calls of lmrun fail, removes devices and
// truncates files, each at one place in a run. It checks the code and the text of the message.
func TestShippedProgramHandlesFailedSystemCalls(t *testing.T) {
	t.Parallel()
	_, console := runInside(t, func(m *machine) {
		m.machineType, m.processors = iommuMachine, 2 // PID 1 and lmrun run in parallel
		m.addModules(t, "LM_GUEST_MODULES")
		for path, text := range map[string]string{
			"/looks.lmb": faultListing, "/mastered.lmb": busMasterListing,
			"/many":       shmListing("", "", strings.Repeat("write.4 ram+0x0 0x1\n  ", 66000)),
			"/narrow.lmb": shmListing("", "", "write.4 ram+0x0 bus(ram)"),
			"/wide.lmb": shmListing(" subsystem 1af4:1100",
				"window a bar2 offset 0x0 size 4KiB\nwindow b bar2 offset 0x0 size 4KiB\n"+
					"window c bar2 offset 0x0 size 4KiB\nwindow d bar2 offset 0x0 size 4KiB\n",
				"write.8 ram+0x0 bus(ram)\nunequal:\n  expect.4 ram+0x8 == 0x77"),
			"/other.lmb": "lightmetal 1\ntarget other 1af4:1041 bar2 1MiB\n" +
				"rule a bar2 offset 0x0 size 4KiB widths 4\n" +
				"rule b bar2 offset 0x1000 size 4KiB widths 4\n" +
				"rule c bar2 offset 0x2000 size 4KiB widths 4\n" +
				"rule d bar2 offset 0x3000 size 4KiB widths 4\n" +
				"window ram bar2 offset 0x0 size 4KiB\nmain:\n  write.4 ram+0x0 0x1\n",
			"/right.lmb": shmListing(" subsystem 1af4:1100", "", "write.4 ram+0x0 0x1"),
			"/both.lmb": "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n" +
				"target wormhole 1e52:401e bar0 512MiB\nwindow regs bar0 offset 0x0 size 1MiB\n" +
				"window from host size 4KiB\nwindow l1 tlb size 1MiB target 1\n" +
				"window ram host size 4KiB target 1\nmain:\n  write.8 regs+0x80 bus(from)\n" +
				"  point l1 tile 1,1 address 0x0\n  write.8 l1+0x20 bus(ram)\n" +
				"  point l1 tile 1,1 address 0xffb00000 ordering strict\n" +
				"  write.4 l1+0x121b0 0x47000\n",
			"/fixed.lmb": "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n" +
				"window regs bar0 offset 0x0 size 1MiB\nwindow free host size 4KiB\n" +
				"window from host size 4KiB bus 0x10000000\nmain:\n" +
				"  write.8 regs+0x80 bus(from)\n  write.8 regs+0x88 bus(free)\n",
			"/two.lmb": "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n" +
				"target ivshmem 1af4:1110 bar2 1MiB\nwindow regs bar0 offset 0x0 size 1MiB\n" +
				"window ram bar2 offset 0x0 size 1MiB target 1\nmain:\n" +
				"  write.8 regs+0x80 bus(ram)\n",
			"/same.lmb": "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
				"target ivshmem 1af4:1110 bar2 1MiB\nwindow ram bar2 offset 0x0 size 4KiB\n" +
				"window same bar2 offset 0x0 size 4KiB target 1\n" +
				"main:\n  write.4 ram+0x0 0x1\n  write.4 same+0x4 0x1\n",
			"/tt.lmb":      tileListing("tiles 1,1 to 2,2 address 0x100000 noc 1", ""),
			"/tt-bar.lmb":  tileListing("tile 1,1 address 0x0", "  write.8 l1+0x28 bus(csm)"),
			"/tt-vc.lmb":   tileListing("tile 1,1 address 0x0 vc 3", ""),
			"/tt-on.lmb":   tileListing("tile 1,1 address 0x0 vc 0", ""),
			"/tt-far.lmb":  tileListing("tile 1,1 address 0x1000000000000", ""),
			"/tt-tile.lmb": tileListing("tile 100,1 address 0x0", ""),
		} {
			m.files[path] = lmbtest.File(t, text)
		}
		m.files["/cut/many"], m.files["/cut/too.lmb"] = m.files["/many"], m.files["/looks.lmb"]
		m.files["/cut/small.lmb"] = lmbtest.File(t,
			shmListing("", "", "copy.8 ram+0x0 <- pattern 0x5 size 16384"))
		m.files["/cut/second.lmb"], m.files["/cut/third.lmb"] = m.files["/cut/small.lmb"],
			m.files["/cut/small.lmb"]
		m.files["/named.lmb"] = imageWithLongSequence(t)
		m.files["/tt"] = make([]byte, 64<<10)
		m.files["/cut/tt"] = m.files["/tt"]
		var r runSteps
		// lmrun maps memory for an image: ALL bytes of a small image, or those after the first page
		// of a large image.
		sizes := strings.NewReplacer("BEHIND", fmt.Sprint(len(m.files["/many"])-4096), "ALL",
			fmt.Sprint(len(m.files["/right.lmb"])))
		for _, c := range sampleCases(fileFailureCases) {
			r.addAnsweredRun(c.code, c.text, sizes.Replace(c.answers), strings.Fields(c.flags)...)
		}
		r.addCases(shmCases, "pci:1af4:1110", "/looks.lmb", "")
		r.addCases(commandRegisterCases, "pci:1af4:1110", "/looks.lmb", "")
		r.addCases(busMasterCases, "vfio:1234:11e8", "/mastered.lmb", "")
		r.addCases(ttCases, "tt:/tt", "/tt.lmb", ttAnswers)
		// The file of the device is truncated, so that accesses to its windows fault.
		r.addAnsweredRun(hal.BusFault, "", "ioctl 1=0xfa0d #2 =0 !truncate /cut/tt 0; "+ttAnswers,
			"-device", "tt:/cut/tt", "/tt.lmb")
		r.addAnsweredRun(hal.IO, "command register",
			"pwrite64 2=2 3=0x70000000004 #2 =-5; "+ttAnswers,
			"-device", "vfio:1234:11e8", "-device", "tt:/tt", "/both.lmb")
		r.addRun(hal.OK, "", "-device", "vfio:1234:11e8", "/fixed.lmb")
		r.addAnsweredRun(hal.NoDevice, "in use by another", "ioctl 1=0x3b71 #1 =-17", "-device",
			"vfio:1234:11e8", "/fixed.lmb")
		r.addRun(hal.Usage, "open both as `pci:`", "-device", "vfio:1234:11e8", "-device",
			"pci:1af4:1110", "/two.lmb")
		m.addSteps(r.steps.String())
	}, "vfio", "hugepages 8\nready edu\n")
	t.Log(console)
}

// imageWithLongSequence returns an image with a sequence that takes 1 ms. The name of the sequence
// has a quote.
func imageWithLongSequence(t *testing.T) []byte {
	t.Helper()
	text := shmListing("", "", "fence\nslow:\n  delay 1ms")
	image, err := listing.Parse("named.lms", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	image.Sequences[1].Name = "\"slow"
	return lmbtest.Encode(t, image)
}
