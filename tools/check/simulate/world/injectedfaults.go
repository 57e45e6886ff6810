//go:build world

package main

import (
	"fmt"
	"os"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/tools/check/fakekernel"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// Steps of the runner in their order. The fault in the first step determines the exit status.
const (
	stepArguments byte = iota
	stepOpenImage
	stepKey
	stepVerify
	stepPlan
	stepOpenDevices
	stepLoad
	stepBusMaster
	stepInput
	stepOutput
	stepWatchdog
	stepFreeze
	stepRuns
	stepCommit
	stepQuiesce
)

// injectedFault is a fault that is injected before or after the runs, with the result that it must
// cause.
type injectedFault struct {
	step       byte
	exitStatus int
	message    string                   // text that the runner must report
	inject     func(e *processRun) bool // reports whether the fault was injected
}

// always returns a fault that can be injected in every world.
func always(step byte, exitStatus int, message string, inject func(e *processRun)) injectedFault {
	return injectedFault{step, exitStatus, message,
		func(e *processRun) bool { inject(e); return true }}
}

// wrongArguments returns a fault that adds wrong arguments to the command line.
func wrongArguments(message string, arguments ...string) injectedFault {
	return always(stepArguments, 64, message, func(e *processRun) { e.wrongArguments = arguments })
}

// openFails returns a fault that makes opening a path fail. The path "" means that the fault cannot
// be injected.
func openFails(step byte, exitStatus int, errno unix.Errno,
	path func(e *processRun) string) injectedFault {
	return injectedFault{step, exitStatus, "", func(e *processRun) bool {
		p := path(e)
		if p != "" {
			e.machine.Fail("open "+p, errno)
		}
		return p != ""
	}}
}

// ioctlFails returns a fault that makes an ioctl fail, on one backend.
func ioctlFails(step byte, exitStatus int, backend string, request uintptr,
	errno unix.Errno) injectedFault {
	return injectedFault{step, exitStatus, "", func(e *processRun) bool {
		e.machine.Fail(fmt.Sprintf("ioctl %x", request), errno)
		return e.machine.backend == backend
	}}
}

// sysfsFile returns the path of a sysfs file of the first function, or "" if the machine's backend
// is not in the list of backends.
func (e *processRun) sysfsFile(backends, name string) string {
	if strings.Contains(backends, e.machine.backend) {
		return e.firstFunction().Path(name)
	}
	return ""
}

func (e *processRun) firstFunction() *pciFunction { return e.machine.functions[0] }

// firstIsBusMaster reports whether the runner has to enable bus mastering of function 0.
func (e *processRun) firstIsBusMaster() bool {
	for _, w := range e.w.view.Windows {
		if w.Kind == gen.WindowKindHost && w.Device == 0 {
			return e.machine.backend != "tt"
		}
	}
	return false
}

// onBackend calls do if the machine has this backend, and reports whether it has.
func (e *processRun) onBackend(backend string, do func()) bool {
	if e.machine.backend == backend {
		do()
	}
	return e.machine.backend == backend
}

var injectedFaults = []injectedFault{
	wrongArguments("unknown flag -fly", "-fly", "high"),
	wrongArguments("two images given", "another.lmb"),
	wrongArguments("-loop takes", "-loop", "0"),
	wrongArguments("-deadline takes", "-deadline", "20"),
	wrongArguments("-deadline must be at most 1h", "-deadline", "3601s"),
	wrongArguments("-window takes", "-window", "65536"),
	wrongArguments("-input takes", "-input", "in"),
	wrongArguments("has no value", "-sequence="),
	always(stepOpenImage, 66, "image", func(e *processRun) { os.Remove(e.w.path("image")) }),
	always(stepOpenImage, 65, "empty",
		func(e *processRun) { _ = os.Truncate(e.w.path("image"), 0) }),
	always(stepOpenImage, 65, "is not a regular file",
		func(e *processRun) {
			os.Remove(e.w.path("image"))
			_ = os.Mkdir(e.w.path("image"), 0o700)
		}),
	openFails(stepOpenImage, 77, unix.EACCES,
		func(e *processRun) string { return e.w.path("image") }),
	always(stepKey, 66, "keys",
		func(e *processRun) {
			e.w.options.KeyFile = e.w.path("keys")
			os.Remove(e.w.path("keys"))
		}),
	always(stepKey, 77, "no public key", func(e *processRun) { e.useKeyFile("# none\n") }),
	always(stepKey, 77, "64 hex digits",
		func(e *processRun) { e.useKeyFile(strings.Repeat("0123456789abcdeg", 4) + "\n") }),
	always(stepKey, 77, "not in the list of public keys",
		func(e *processRun) { e.useKeyFile(e.unknownKey()) }),
	always(stepKey, 77, "anybody can forge",
		func(e *processRun) { e.useKeyFile("01" + strings.Repeat("00", 31) + "\n") }),
	always(stepKey, 77, "not signed",
		func(e *processRun) {
			e.useKeyFile("")
			e.patchImage(func(image []byte) []byte { return image[:len(image)-128] })
		}),
	always(stepKey, 77, "", func(e *processRun) {
		e.useKeyFile("")
		e.flipBit(-1 - e.random().IntN(128))
	}),
	always(stepKey, 77, "invalid signature",
		func(e *processRun) { e.useKeyFile(""); e.forgeSignature() }),
	always(stepVerify, 65, "",
		func(e *processRun) {
			e.flipBit(e.random().IntN(len(e.w.image) - 128))
			e.w.options.KeyFile = ""
		}),
	always(stepVerify, 65, "", func(e *processRun) {
		e.w.options.KeyFile = ""
		e.patchImage(func(image []byte) []byte { return image[:e.random().IntN(len(image)-129)+1] })
	}),
	always(stepPlan, 64, "no sequence", func(e *processRun) { e.w.options.Sequence = "nothing" }),
	// Control characters must be escaped.
	always(stepPlan, 64, `\u001b[31m`,
		func(e *processRun) { e.w.options.Sequence = "red\x1b[31m" }),
	always(stepPlan, 64, "no sequence",
		func(e *processRun) { e.w.options.SequenceAfter = "nothing" }),
	always(stepPlan, 64, "the image has no input",
		func(e *processRun) { e.bindInputs("out", e.w.path("in")) }),
	always(stepPlan, 64, "the image has no output",
		func(e *processRun) { e.bindOutputs("in", e.w.path("out")) }),
	always(stepPlan, 64, "given twice", func(e *processRun) {
		e.bindInputs("in", e.w.path("in"), e.w.path("in"))
	}),
	always(stepPlan, 64, "is the same file as input",
		func(e *processRun) { e.bindOutputs("out", e.w.path("image")) }),
	always(stepPlan, 64, "is the same file as output", func(e *processRun) {
		os.Remove(e.w.path("out"))
		e.bindOutputs("out", e.w.path("out"), e.w.dir+"/./out")
	}),
	always(stepPlan, 64, "-watchdog takes",
		func(e *processRun) { e.w.options.Watchdog = e.w.path("watchdog") + "=0" }),
	always(stepPlan, 64, "unknown dev", func(e *processRun) { e.w.options.Devices[0] = "usb:1" }),
	always(stepPlan, 64, "unknown device",
		func(e *processRun) { e.w.options.Devices[0] = "pci:0000:01:00" }),
	always(stepPlan, 65, "may take", func(e *processRun) { e.w.options.MaxSequenceNs = 1000 }),
	always(stepOpenDevices, 69, "no such device",
		func(e *processRun) { e.w.options.Devices[0] = e.machine.deviceName("0000:77:00.0") }),
	{stepOpenDevices, 64, "name one by its address",
		func(e *processRun) bool { e.addIdenticalFunction(); return e.machine.backend != "tt" }},
	{stepOpenDevices, 69, "driver nvme",
		func(e *processRun) bool { return e.onBackend("pci", func() { e.bindDriver("nvme") }) }},
	{stepOpenDevices, 69, "owns the device",
		func(e *processRun) bool { return e.onBackend("vfio", func() { e.bindDriver("nvme") }) }},
	{stepOpenDevices, 69, "no IOMMU is on", func(e *processRun) bool {
		group := e.machine.Dir + e.firstFunction().Path("iommu_group")
		return e.onBackend("vfio", func() { os.Remove(group) })
	}},
	{stepOpenDevices, 71, "all ones",
		func(e *processRun) bool {
			e.firstFunction().Gone = true
			return e.machine.backend == "pci"
		}},
	{stepOpenDevices, 71, "", func(e *processRun) bool {
		return e.onBackend("tt", func() { e.firstFunction().SetCommand(0) })
	}},
	openFails(stepOpenDevices, 77, unix.EACCES,
		func(e *processRun) string { return e.sysfsFile("pci vfio", "resource") }),
	{stepOpenDevices, 69, "must be two addresses", func(e *processRun) bool {
		e.machine.WriteFile(e.firstFunction().Path("resource"), "0x0000000000000001\n")
		return e.machine.backend != "tt"
	}},
	ioctlFails(stepOpenDevices, 69, "tt", fakekernel.TTGetDriverInfo, unix.EIO),
	ioctlFails(stepOpenDevices, 69, "tt", fakekernel.TTGetDeviceInfo, unix.EIO),
	ioctlFails(stepOpenDevices, 69, "tt", fakekernel.TTQueryMappings, unix.ENODEV),
	openFails(stepOpenDevices, 69, unix.EAGAIN,
		func(e *processRun) string {
			return map[bool]string{true: e.firstFunction().DriverPath}[e.machine.backend == "tt"]
		}),
	{stepLoad, 64, "device(s)", func(e *processRun) bool {
		o := &e.w.options
		o.Devices = append(o.Devices, o.Devices[0])
		return !o.CheckOnly // with -check, the runner counts the devices at stepPlan
	}},
	always(stepLoad, 78, "", func(e *processRun) { e.halveBAR() }),
	{stepLoad, 78, "subsystem", func(e *processRun) bool {
		f := e.firstFunction()
		if e.w.view.Devices[0].Subsystem == 0 {
			return false
		}
		e.machine.WriteFile(f.Path("modalias"),
			fakekernel.Modalias(f.Vendor, f.Device, 0x1234, 0x5679))
		return true
	}},
	{stepLoad, 77, "", func(e *processRun) bool {
		f := e.firstFunction()
		return e.onBackend("pci", func() {
			f.SetCommand(0)
			e.machine.Fail("open "+f.Path("enable"), unix.EACCES)
		})
	}},
	{stepLoad, 69, "memory decoding stays off", func(e *processRun) bool {
		f := e.firstFunction()
		f.SetCommand(0)
		f.StuckOff = fakekernel.CommandMemory
		return e.machine.backend == "vfio"
	}},
	{stepLoad, 70, "stays on", func(e *processRun) bool {
		f := e.firstFunction()
		f.SetCommand(fakekernel.CommandMemory | fakekernel.CommandMaster)
		f.StuckOn = fakekernel.CommandMaster
		return e.machine.backend == "pci"
	}},
	{stepLoad, 69, "another replay",
		func(e *processRun) bool {
			e.firstFunction().LockedByOther = true
			return e.machine.backend == "tt"
		}},
	ioctlFails(stepLoad, 69, "vfio", fakekernel.GroupGetStatus, unix.EIO),
	ioctlFails(stepLoad, 69, "vfio", fakekernel.GroupSetContainer, unix.EBUSY),
	ioctlFails(stepLoad, 77, "vfio", fakekernel.SetIOMMU, unix.EPERM),
	ioctlFails(stepLoad, 69, "vfio", fakekernel.SetIOMMU, unix.ENODEV),
	ioctlFails(stepLoad, 69, "vfio", fakekernel.GroupGetDeviceFD, unix.EIO),
	ioctlFails(stepLoad, 69, "vfio", fakekernel.DeviceGetRegion, unix.EINVAL),
	{stepLoad, 69, "another program has",
		func(e *processRun) bool {
			e.machine.Fail("open /dev/vfio/7", unix.EBUSY)
			return e.machine.backend == "vfio"
		}},
	ioctlFails(stepLoad, 71, "tt", fakekernel.TTLockControl, unix.ENODEV),
	{stepBusMaster, 69, "stays off",
		func(e *processRun) bool {
			e.firstFunction().StuckOff = fakekernel.CommandMaster
			return e.firstIsBusMaster()
		}},
	always(stepInput, 66, "in",
		func(e *processRun) { e.bindInputs("in", e.w.path("missing")) }),
	always(stepInput, 65, "fewer", func(e *processRun) { e.useInput(511) }),
	always(stepInput, 65, "more", func(e *processRun) { e.useInput(513) }),
	always(stepOutput, 66, "nowhere",
		func(e *processRun) { e.bindOutputs("out", e.w.path("nowhere/out")) }),
	always(stepOutput, 74, "",
		func(e *processRun) { e.bindOutputs("out", e.w.dir) }),
	always(stepWatchdog, 66, "missing",
		func(e *processRun) { e.w.options.Watchdog = e.w.path("missing") }),
	always(stepWatchdog, 69, "another process",
		func(e *processRun) {
			e.useWatchdog()
			e.machine.Fail("open "+e.w.path("watchdog"), unix.EBUSY)
		}),
	always(stepWatchdog, 69, "not a watchdog",
		func(e *processRun) {
			e.useWatchdog()
			e.machine.Fail(fmt.Sprintf("ioctl %x", watchdogGetTimeout), unix.ENOTTY)
		}),
	always(stepWatchdog, 69, "the watchdog rejects the timeout", func(e *processRun) {
		e.useWatchdog()
		e.w.options.Watchdog += "=7"
		e.machine.Fail(fmt.Sprintf("ioctl %x", watchdogSetTimeout), unix.EINVAL)
	}),
	always(stepFreeze, 77, "cannot lock", func(e *processRun) {
		e.failSystemCall(unix.SYS_MLOCK, unix.ENOMEM)
	}),
	always(stepFreeze, 74, "no spare file descriptors",
		func(e *processRun) { e.failSystemCall(unix.SYS_EPOLL_CREATE1, unix.EMFILE) }),
	always(stepFreeze, 70, "signal handler",
		func(e *processRun) {
			e.failSystemCall(unix.SYS_RT_SIGACTION, unix.EINVAL)
			e.w.callFailures[len(e.w.callFailures)-1].at = 2
		}),
	always(stepFreeze, 77, "seccomp",
		func(e *processRun) {
			e.w.options.Seal = true
			e.failSystemCall(unix.SYS_SECCOMP, unix.EINVAL)
		}),
	{stepCommit, 74, "", func(e *processRun) bool {
		e.failSystemCall(unix.SYS_FSYNC, unix.EIO)
		// The call for the last output fails.
		e.w.callFailures[len(e.w.callFailures)-1].at = len(e.w.options.Outputs)
		return e.writesFile()
	}},
	{stepCommit, 74, "", func(e *processRun) bool {
		e.failSystemCall(unix.SYS_RENAMEAT2, unix.EIO)
		return e.writesFile()
	}},
}

// useKeyFile adds -key to the command line. If the text is "", the file contains the key that
// signed the image.
func (e *processRun) useKeyFile(text string) {
	if e.w.options.KeyFile = e.w.path("keys"); text == "" {
		text = fmt.Sprintf("# ours\n\n%x\n", e.publicKey)
	}
	_ = os.WriteFile(e.w.options.KeyFile, []byte(text), 0o600)
}

func (e *processRun) patchImage(change func(image []byte) []byte) {
	data, _ := os.ReadFile(e.w.path("image"))
	_ = os.WriteFile(e.w.path("image"), change(data), 0o600)
}

// flipBit flips a random bit of the byte at an offset, which counts from the end if it is negative.
func (e *processRun) flipBit(at int) {
	e.patchImage(func(image []byte) []byte {
		image[(at+len(image))%len(image)] ^= 1 << e.random().IntN(8)
		return image
	})
}

func (e *processRun) useWatchdog() { e.w.options.Watchdog = e.w.path("watchdog") }

// failSystemCall makes all further calls of a system call fail.
func (e *processRun) failSystemCall(number uintptr, errno unix.Errno) {
	e.w.callFailures = append(e.w.callFailures, callFailure{number: number, at: 1, length: 1 << 20,
		errno: errno})
}

// useInput writes an input file of a size, and binds the input "in" to it.
func (e *processRun) useInput(size int) {
	_ = os.WriteFile(e.w.path("in"), make([]byte, size), 0o600)
	e.bindInputs("in", e.w.path("in"))
}

func bindings(name string, paths []string) (list []args.Binding) {
	for _, path := range paths {
		list = append(list, args.Binding{Name: name, Path: path})
	}
	return list
}

// bindInputs replaces the -input options.
func (e *processRun) bindInputs(name string, paths ...string) {
	e.w.options.Inputs = bindings(name, paths)
}

// bindOutputs replaces the -output options.
func (e *processRun) bindOutputs(name string, paths ...string) {
	e.w.options.Outputs = bindings(name, paths)
}

// writesFile reports whether the first output is the file "out".
func (e *processRun) writesFile() bool {
	return len(e.w.options.Outputs) > 0 && e.w.options.Outputs[0].Path == e.w.path("out")
}
