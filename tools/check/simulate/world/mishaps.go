//go:build world

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// The steps of the runner's, in their order: what goes wrong first decides how it
// ends.
const (
	atWords byte = iota
	atImage
	atKey
	atVerify
	atPlan
	atOpen
	atLoad
	atMaster
	atInput
	atOutput
	atWatchdog
	atFreeze
	atRuns
	atFinish
	atRest
)

// mishap is something that goes wrong before or after the runs, and what is then
// to come of it.
type mishap struct {
	at   byte
	exit int
	say  string // in what is reported
	make func(e *errand) bool
}

// spoilt is a mishap where something is wrong in any case.
func spoilt(at byte, exit int, say string, change func(e *errand)) mishap {
	return mishap{at, exit, say, func(e *errand) bool { change(e); return true }}
}

// word is a mistake in the command line.
func word(say string, words ...string) mishap {
	return spoilt(atWords, 64, say, func(e *errand) { e.mistakes = words })
}

// opening is a path that cannot be opened.
func opening(at byte, exit int, errno unix.Errno, path func(e *errand) string) mishap {
	return mishap{at, exit, "", func(e *errand) bool {
		p := path(e)
		if p != "" {
			e.machine.errors[p] = errno
		}
		return p != ""
	}}
}

// asking is an ioctl that fails, in one lane.
func asking(at byte, exit int, lane string, request uintptr, errno unix.Errno) mishap {
	return mishap{at, exit, "", func(e *errand) bool {
		e.machine.requests[request] = errno
		return e.machine.lane == lane
	}}
}

func (e *errand) inLane(lanes string, path string) string {
	if strings.Contains(lanes, e.machine.lane) {
		return e.first().folder() + path
	}
	return ""
}

func (e *errand) first() *pciFunction { return e.machine.functions[0] }

// masters tells whether function 0 is to master the bus.
func (e *errand) masters() bool {
	for _, w := range e.w.view.Windows {
		if w.Kind == gen.WindowKindHost && w.Device == 0 {
			return e.machine.lane != "tt"
		}
	}
	return false
}

func (e *errand) only(lane string, do func()) bool {
	if e.machine.lane == lane {
		do()
	}
	return e.machine.lane == lane
}

var mishaps = []mishap{
	word("unknown flag -fly", "-fly", "high"),
	word("two images given", "another.lmb"),
	word("-loop takes", "-loop", "0"),
	word("-deadline takes", "-deadline", "20"),
	word("-deadline must be at most 1h", "-deadline", "3601s"),
	word("-window takes", "-window", "65536"),
	word("-input takes", "-input", "in"),
	word("has no value", "-sequence="),
	spoilt(atImage, 66, "image", func(e *errand) { os.Remove(e.w.file("image")) }),
	spoilt(atImage, 65, "empty", func(e *errand) { _ = os.Truncate(e.w.file("image"), 0) }),
	spoilt(atImage, 65, "is not a regular file",
		func(e *errand) { os.Remove(e.w.file("image")); _ = os.Mkdir(e.w.file("image"), 0o700) }),
	opening(atImage, 77, unix.EACCES, func(e *errand) string { return e.w.file("image") }),
	spoilt(atKey, 66, "keys",
		func(e *errand) { e.w.options.KeyFile = e.w.file("keys"); os.Remove(e.w.file("keys")) }),
	spoilt(atKey, 77, "no public key", func(e *errand) { e.keys("# none\n") }),
	spoilt(atKey, 77, "64 hex digits",
		func(e *errand) { e.keys(strings.Repeat("0123456789abcdeg", 4) + "\n") }),
	spoilt(atKey, 77, "not in the list of public keys", func(e *errand) { e.keys(e.otherKey()) }),
	spoilt(atKey, 77, "anybody can forge",
		func(e *errand) { e.keys("01" + strings.Repeat("00", 31) + "\n") }),
	spoilt(atKey, 77, "not signed",
		func(e *errand) {
			e.keys("")
			e.patch(
				func(image []byte) []byte { return image[:len(image)-128] })
		}),
	spoilt(atKey, 77, "", func(e *errand) { e.keys(""); e.flip(-1 - e.random().IntN(128)) }),
	spoilt(atKey, 77, "invalid signature", func(e *errand) { e.keys(""); e.forge() }),
	spoilt(atVerify, 65, "",
		func(e *errand) {
			e.flip(e.random().IntN(len(e.w.image) - 128))
			e.w.options.KeyFile = ""
		}),
	spoilt(atVerify, 65, "", func(e *errand) {
		e.w.options.KeyFile = ""
		e.patch(func(image []byte) []byte { return image[:e.random().IntN(len(image)-129)+1] })
	}),
	spoilt(atPlan, 64, "no sequence", func(e *errand) { e.w.options.Sequence = "nothing" }),
	// no terminal obeys
	spoilt(atPlan, 64, `\u001b[31m`, func(e *errand) { e.w.options.Sequence = "red\x1b[31m" }),
	spoilt(atPlan, 64, "no sequence", func(e *errand) { e.w.options.After = "nothing" }),
	spoilt(atPlan, 64, "the image has no input",
		func(e *errand) {
			e.w.options.Inputs = []args.Binding{{Name: "out",
				Path: e.w.file("in")}}
		}),
	spoilt(atPlan, 64, "the image has no output",
		func(e *errand) {
			e.w.options.Outputs = []args.Binding{{Name: "in",
				Path: e.w.file("out")}}
		}),
	spoilt(atPlan, 64, "given twice", func(e *errand) {
		e.w.options.Inputs = []args.Binding{{Name: "in", Path: e.w.file("in")},
			{Name: "in", Path: e.w.file("in")}}
	}),
	spoilt(atPlan, 64, "is the same file as input",
		func(e *errand) {
			e.w.options.Outputs = []args.Binding{{Name: "out",
				Path: e.w.file("image")}}
		}),
	spoilt(atPlan, 64, "is the same file as output", func(e *errand) {
		os.Remove(e.w.file("out"))
		e.w.options.Outputs = []args.Binding{{Name: "out", Path: e.w.file("out")},
			{Name: "out", Path: e.w.dir + "/./out"}}
	}),
	spoilt(atPlan, 64, "-watchdog takes",
		func(e *errand) { e.w.options.Watchdog = e.w.file("watchdog") + "=0" }),
	spoilt(atPlan, 64, "use `pci:", func(e *errand) { e.w.options.Devices[0] = "usb:1" }),
	spoilt(atPlan, 64, "unknown device",
		func(e *errand) { e.w.options.Devices[0] = "pci:0000:01:00" }),
	spoilt(atPlan, 65, "may take", func(e *errand) { e.w.options.Longest = 1000 }),
	spoilt(atOpen, 69, "no such device",
		func(e *errand) { e.w.options.Devices[0] = e.machine.name("0000:77:00.0") }),
	{atOpen, 64, "name one by its address",
		func(e *errand) bool { e.twins(); return e.machine.lane != "tt" }},
	{atOpen, 69, "driver nvme",
		func(e *errand) bool { return e.only("pci", func() { e.owner("nvme") }) }},
	{atOpen, 69, "owns the device",
		func(e *errand) bool { return e.only("vfio", func() { e.owner("nvme") }) }},
	{atOpen, 69, "no IOMMU is on", func(e *errand) bool {
		return e.only("vfio",
			func() { os.Remove(e.w.file("machine" + e.first().folder() + "/iommu_group")) })
	}},
	{atOpen, 71, "all ones",
		func(e *errand) bool { e.first().gone = true; return e.machine.lane == "pci" }},
	{atOpen, 71, "", func(e *errand) bool {
		return e.only("tt", func() { binary.LittleEndian.PutUint16(e.first().config[4:], 0) })
	}},
	opening(atOpen, 77, unix.EACCES,
		func(e *errand) string { return e.inLane("pci vfio", "/resource") }),
	{atOpen, 69, "is not two addresses", func(e *errand) bool {
		e.machine.write(e.first().folder()+"/resource", "0x0000000000000001\n")
		return e.machine.lane != "tt"
	}},
	asking(atOpen, 69, "tt", ttDriver, unix.EIO), asking(atOpen, 69, "tt", ttInfo, unix.EIO),
	asking(atOpen, 69, "tt", ttMaps, unix.ENODEV),
	opening(atOpen, 69, unix.EAGAIN,
		func(e *errand) string {
			return map[bool]string{true: e.first().node()}[e.machine.lane == "tt"]
		}),
	spoilt(atLoad, 64, "device(s)",
		func(e *errand) {
			e.w.options.Devices = append(e.w.options.Devices,
				e.w.options.Devices[0])
		}),
	spoilt(atLoad, 78, "", func(e *errand) { e.smaller() }),
	{atLoad, 78, "subsystem", func(e *errand) bool {
		f := e.first()
		return e.w.view.Devices[0].Subsystem != 0 &&
			e.only(e.machine.lane,
				func() {
					e.machine.write(f.folder()+"/modalias",
						modalias(f.vendor, f.device, 0x5679))
				})
	}},
	{atLoad, 77, "", func(e *errand) bool {
		return e.only("pci",
			func() {
				e.first().config[4] = 0
				e.machine.errors[e.first().folder()+
					"/enable"] = unix.EACCES
			})
	}},
	{atLoad, 69, "memory decoding stays off", func(e *errand) bool {
		e.first().config[4], e.first().stuckOff = 0, commandMemory
		return e.machine.lane == "vfio"
	}},
	{atLoad, 70, "stays on", func(e *errand) bool {
		e.first().config[4], e.first().stuckOn = commandMemory|commandMaster, commandMaster
		return e.machine.lane == "pci"
	}},
	{atLoad, 69, "another replay",
		func(e *errand) bool { e.first().locked = true; return e.machine.lane == "tt" }},
	asking(atLoad, 69, "vfio", vfioStatus, unix.EIO),
	asking(atLoad, 69, "vfio", vfioAttach, unix.EBUSY),
	asking(atLoad, 77, "vfio", vfioSet, unix.EPERM),
	asking(atLoad, 69, "vfio", vfioSet, unix.ENODEV),
	asking(atLoad, 69, "vfio", vfioDevice, unix.EIO),
	asking(atLoad, 69, "vfio", vfioInfo, unix.EINVAL),
	{atLoad, 69, "another program has",
		func(e *errand) bool {
			e.machine.errors["/dev/vfio/7"] = unix.EBUSY
			return e.machine.lane == "vfio"
		}},
	asking(atLoad, 71, "tt", ttLock, unix.ENODEV),
	{atMaster, 69, "stays off",
		func(e *errand) bool { e.first().stuckOff = commandMaster; return e.masters() }},
	spoilt(atInput, 66, "in",
		func(e *errand) {
			e.w.options.Inputs = []args.Binding{{Name: "in",
				Path: e.w.file("missing")}}
		}),
	spoilt(atInput, 65, "fewer", func(e *errand) { e.input(511) }),
	spoilt(atInput, 65, "more", func(e *errand) { e.input(513) }),
	spoilt(atOutput, 66, "nowhere",
		func(e *errand) {
			e.w.options.Outputs = []args.Binding{{Name: "out",
				Path: e.w.file("nowhere/out")}}
		}),
	spoilt(atOutput, 74, "",
		func(e *errand) { e.w.options.Outputs = []args.Binding{{Name: "out", Path: e.w.dir}} }),
	spoilt(atWatchdog, 66, "missing",
		func(e *errand) { e.w.options.Watchdog = e.w.file("missing") }),
	spoilt(atWatchdog, 69, "another process",
		func(e *errand) { e.watched(); e.machine.errors[e.w.file("watchdog")] = unix.EBUSY }),
	spoilt(atWatchdog, 69, "not a watchdog",
		func(e *errand) { e.watched(); e.machine.requests[watchGet] = unix.ENOTTY }),
	spoilt(atWatchdog, 69, "the watchdog rejects the timeout", func(e *errand) {
		e.watched()
		e.w.options.Watchdog += "=7"
		e.machine.requests[watchSet] = unix.EINVAL
	}),
	spoilt(atFreeze, 77, "cannot lock", func(e *errand) { e.failing(unix.SYS_MLOCK, unix.ENOMEM) }),
	spoilt(atFreeze, 74, "no spare file descriptors",
		func(e *errand) { e.failing(unix.SYS_EPOLL_CREATE1, unix.EMFILE) }),
	spoilt(atFreeze, 70, "signal handler",
		func(e *errand) {
			e.failing(unix.SYS_RT_SIGACTION,
				unix.EINVAL)
			e.w.calls[len(e.w.calls)-1].at = 2
		}),
	spoilt(atFreeze, 77, "seccomp",
		func(e *errand) { e.w.options.Seal = true; e.failing(unix.SYS_SECCOMP, unix.EINVAL) }),
	{atFinish, 74, "", func(e *errand) bool {
		e.failing(unix.SYS_FSYNC, unix.EIO)
		e.w.calls[len(e.w.calls)-1].at = len(e.w.options.Outputs) // of the last
		return e.toFile()
	}},
	{atFinish, 74, "", func(e *errand) bool {
		e.failing(unix.SYS_RENAMEAT2,
			unix.EIO)
		return e.toFile()
	}},
}

// keys signs nothing: it gives the runner a file of keys, with ours where the text
// is empty.
func (e *errand) keys(text string) {
	if e.w.options.KeyFile = e.w.file("keys"); text == "" {
		text = fmt.Sprintf("# ours\n\n%x\n", e.public)
	}
	_ = os.WriteFile(e.w.options.KeyFile, []byte(text), 0o600)
}

func (e *errand) patch(change func(image []byte) []byte) {
	data, _ := os.ReadFile(e.w.file("image"))
	_ = os.WriteFile(e.w.file("image"), change(data), 0o600)
}

// flip changes a byte, from the end where at is negative.
func (e *errand) flip(at int) {
	e.patch(func(image []byte) []byte {
		image[(at+len(image))%len(image)] ^= 1 << e.random().IntN(8)
		return image
	})
}

func (e *errand) watched() { e.w.options.Watchdog = e.w.file("watchdog") }

// failing has a system call fail from now on.
func (e *errand) failing(number uintptr, errno unix.Errno) {
	e.w.calls = append(e.w.calls, syscallFault{number: number, at: 1, length: 1 << 20,
		errno: errno})
}

func (e *errand) input(size int) {
	_ = os.WriteFile(e.w.file("in"), make([]byte, size), 0o600)
	e.w.options.Inputs = []args.Binding{{Name: "in", Path: e.w.file("in")}}
}

func (e *errand) toFile() bool {
	return len(e.w.options.Outputs) > 0 && e.w.options.Outputs[0].Path == e.w.file("out")
}
