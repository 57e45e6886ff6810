// Lmrun replays one Light Metal binary on the devices that it was made for, and exits with a
// documented status. A supervisor, such as lminit, can restart lmrun after a failure.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file contains the steps of an invocation in their order: parse the command line, open
// and verify the image, check the options against the image, open the devices, load the image,
// open inputs and outputs, freeze, seal, execute the runs, and stop the devices.

func main() {
	runtime.DedicateProcess()
	options, err := args.Parse(args.CommandLine())
	if err == nil {
		err = checkBuild(options)
	}
	end := outcome{err: err}
	if err == nil && !options.Help && !options.Version {
		end = replayImage(options)
	}
	unix.Exit(printOutcome(options, end))
}

// outcome describes how an invocation ended. printOutcome reports it.
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

// replayImage performs all steps between the command line and the report of the outcome.
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
		err = reportLongestStop(f.longestStopUs(view))
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

// openImage opens the image, checks its signature if -key is given, and verifies the image.
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

// reportLongestStop writes the longest time from a signal to the end of lmrun, in
// microseconds, to file descriptor 3. The supervisor that passed -supervised reads it there.
func reportLongestStop(longestUs uint64) error {
	const reportFD = 3
	err := files.WriteFull(reportFD, []byte(fbs.Text("%d\n", longestUs)))
	if err == nil {
		return nil
	}
	return args.UsageError("-supervised: cannot write to file descriptor 3: " + err.Error())
}

// openDevice opens a device by its name, and parseDeviceName only checks the name. The build
// tag mock replaces both functions with ones that also accept mock devices.
var openDevice, parseDeviceName = hal.Open, hal.ParseName

// openDevices opens the devices named by -device. Without -device, it opens the devices that the
// image names.
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

// runOnDevices prepares the runs, executes them, and then stops the given devices.
func (f *frameLoop) runOnDevices(devices []hal.Device, view *fbs.View, o args.Options) outcome {
	end := outcome{err: f.prepareRuns(devices, view, o)}
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

// prepareRuns loads the image, opens inputs and outputs, installs the signal handler, freezes
// the process, and with -seal seals it.
func (f *frameLoop) prepareRuns(devices []hal.Device, view *fbs.View, o args.Options) error {
	r, err := runtime.Load(view, o.Window, devices...)
	if err != nil {
		return err
	}
	if r.Warnings != "" {
		_ = writeText(2, "lmrun: "+r.Warnings)
	}
	err = f.openStreams(r, devices[0])
	if err == nil {
		// Freeze makes Go's runtime open file descriptors. If no descriptor were left, the
		// runtime would end the process; this check returns an error instead.
		err = files.EnsureSpareFDs(2)
	}
	if err == nil {
		err = stopOnSignal()
	}
	if err == nil {
		err = r.Freeze()
	}
	if err == nil && o.Seal {
		err = runtime.Seal(f.files.Pin()...)
		f.sealed = err == nil
	}
	return err
}

// stopDevices stops the DMA of all devices and then closes the devices. It returns the first
// error. A sealed process cannot close devices; the kernel closes them when the process ends.
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
