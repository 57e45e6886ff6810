// Lmrun replays one Light Metal binary on the devices for which the binary was made. Its exit
// status names the kind of failure, so that a supervisor, such as lminit, can restart lmrun.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file contains the steps of lmrun in this order: parse the command line, open and verify
// the image, check the options against the image, open the devices, load the image, open inputs
// and outputs, freeze the process (runtime.Replay.Freeze), seal the process (runtime.Seal),
// execute the runs, and stop the devices. A run is one execution of the sequence that the flag
// -sequence names.

func main() {
	runtime.DedicateProcess()
	options, err := args.Parse(args.CommandLine())
	if err == nil {
		err = checkBuildTags(options)
	}
	end := outcome{err: err}
	if err == nil && !options.Help && !options.Version {
		end = replayImage(options)
	}
	unix.Exit(printOutcome(options, end))
}

// outcome contains the error, the result and the statistics that lmrun prints when it ends.
type outcome struct {
	// err is nil after success. If a run failed, the error text is, for example,
	// "expect failed: command 3 of main: got ...".
	err error
	// result is the result of the last sequence that ran. After a failure that was not caused
	// by a command, result.Code is the code of err.
	result                   runtime.Result
	runs                     uint64 // number of completed runs
	totalNs, leastNs, mostNs int64  // total, shortest and longest duration of completed runs
}

// replayImage performs the steps of lmrun from opening the image to stopping the devices, and
// returns the outcome. With -check it returns before it opens a device.
func replayImage(o args.Options) outcome {
	view, err := openImage(o)
	if err != nil {
		return outcome{err: err}
	}
	f, err := planRuns(view, o)
	if err != nil || o.Check {
		return outcome{err: err}
	}
	if o.Supervised {
		err = reportMaxStopTime(f.maxStopTimeUs(view))
	}
	if err != nil {
		return outcome{err: err}
	}
	devices, err := openDevices(o, view)
	if err != nil {
		return outcome{err: err}
	}
	return f.runOnDevices(devices, view, o)
}

// openImage opens the image, checks the signature of the image if -key is given, and returns the
// verified image.
func openImage(o args.Options) (*fbs.View, error) {
	file, err := runtime.Open(o.Image)
	if err == nil && o.Key != "" {
		err = checkSignature(file, o.Key)
	}
	if err != nil {
		return nil, err
	}
	return file.Verify()
}

// reportMaxStopTime writes maxUs as one line to file descriptor 3. maxUs is the longest time from
// a signal to the end of lmrun, in microseconds. A supervisor that starts lmrun with -supervised
// reads this line, so that it knows how long to wait before it kills lmrun.
func reportMaxStopTime(maxUs uint64) error {
	const reportFD = 3
	err := files.WriteFull(reportFD, []byte(fbs.Text("%d\n", maxUs)))
	if err == nil {
		return nil
	}
	return args.UsageError("-supervised: cannot write to file descriptor 3: " + err.Error())
}

// openDevice opens the device with the given name. parseDeviceName checks the name without
// opening the device. In builds with the tag mock, both functions also accept mock devices.
var openDevice, parseDeviceName = hal.Open, hal.ParseName

// openDevices opens the devices that the flags -device name. Without -device, it opens the
// devices that the image names.
func openDevices(o args.Options, view *fbs.View) (devices []hal.Device, err error) {
	names := o.Devices
	if len(names) == 0 {
		names = runtime.DeviceNames(view)
	}
	devices = make([]hal.Device, len(names))
	for i := 0; i < len(names) && err == nil; i++ {
		devices[i], err = openDevice(names[i])
	}
	return devices, err
}

// runOnDevices prepares the runs, executes them, and then stops the devices. It stops the
// watchdog only after success. After a failure, the watchdog therefore resets the machine.
func (f *frameLoop) runOnDevices(devices []hal.Device, view *fbs.View, o args.Options) outcome {
	end := outcome{err: f.loadAndFreeze(devices, view, o)}
	if end.err == nil {
		end = f.runLoop(o.Loop)
	}
	f.files.Discard()
	if err := f.stopDevices(devices); end.err == nil {
		end.err = err
	}
	if end.err == nil {
		f.watchdog.stop()
	}
	return end
}

// loadAndFreeze loads the image, opens inputs and outputs, installs the signal handler, and freezes
// the process, so that runs allocate no memory. If -seal is given, loadAndFreeze also seals the
// process: it installs a seccomp filter that forbids allocating, mapping or opening anything.
func (f *frameLoop) loadAndFreeze(devices []hal.Device, view *fbs.View, o args.Options) error {
	r, err := runtime.Load(view, o.Window, devices...)
	if err != nil {
		return err
	}
	if r.Warnings != "" {
		_ = writeText(2, "lmrun: "+r.Warnings)
	}
	err = f.openStreams(r, devices[0])
	if err == nil {
		// Freeze makes Go's runtime open two file descriptors. If this failed, Go's runtime
		// would end the process. EnsureSpareFDs returns an error in this case.
		err = files.EnsureSpareFDs(2)
	}
	if err == nil {
		err = stopOnSignal()
	}
	if err == nil {
		err = r.Freeze()
	}
	if err == nil && o.Seal {
		err = runtime.Seal(f.files.SealRules()...)
		f.sealed = err == nil
	}
	return err
}

// stopDevices stops the DMA of all devices and then closes the devices. It returns the first
// error. A sealed process is not allowed to close devices. In this case stopDevices only stops
// the DMA, and the kernel closes the devices when the process ends.
func (f *frameLoop) stopDevices(devices []hal.Device) (firstErr error) {
	if f.replay != nil {
		firstErr = f.replay.StopDMA()
	}
	if f.sealed {
		return firstErr
	}
	for _, device := range devices {
		if err := device.Close(); firstErr == nil {
			firstErr = err
		}
	}
	return firstErr
}
