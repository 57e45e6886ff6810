// Lmrun replays one Light Metal binary on one device (or one device per target) and
// exits with a documented status. A supervisor, such as lminit, restarts it if needed.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file has the steps of an invocation in their order: parse the command line, open
// and verify the image, check the options against it, open the devices, load the image,
// open inputs and outputs, freeze, seal, run, and stop.

func main() {
	runtime.DedicateProcess()
	options, err := args.Parse(args.CommandLine())
	if err == nil {
		err = checkBuild(options)
	}
	end := outcome{err: err}
	if err == nil && !options.Help && !options.Version {
		end = replay(options)
	}
	unix.Exit(printOutcome(options, end))
}

// outcome is how an invocation ended, as printOutcome reports it.
type outcome struct {
	// err is nil after success. Of a failed run it reads, for example,
	// "expect failed: command 3 of main: got ...".
	err error
	// result is that of the last run. If something else failed between or after the
	// runs, its Code is the code of err.
	result             runtime.Result
	runs               uint64 // completed
	total, least, most int64  // nanoseconds of all completed runs
}

// replay does everything between the command line and the report.
func replay(o args.Options) outcome {
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

// openImage opens the image, checks its signature if -key asks for one, and verifies it.
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

// reportLongestStop writes the time from a signal to the end to descriptor 3, where the
// supervisor that passed -supervised reads it.
func reportLongestStop(us uint64) error {
	const descriptor = 3
	err := files.WriteFull(descriptor, []byte(fbs.Text("%d\n", us)))
	if err == nil {
		return nil
	}
	return args.UsageError("-supervised: writing to descriptor 3: " + err.Error())
}

// openDevice and parseDeviceName also accept mock devices with the build tag mock.
var openDevice, parseDeviceName = hal.Open, hal.ParseName

// openDevices opens one device for each target of the image: those of -device, or those
// that the image names.
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

// runOnDevices prepares the runs, executes them, and closes the devices.
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

// prepareRuns acquires everything that the runs need, up to the seal.
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
		// Freeze has Go open descriptors; with none left, Go would end the process.
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

// stopDevices stops the DMA of all devices before it closes the first one. A sealed
// process cannot close devices; the kernel does so when it ends.
func (f *frameLoop) stopDevices(devices []hal.Device) (first error) {
	if f.replay != nil {
		first = f.replay.StopDMA()
	}
	if f.sealed {
		return first
	}
	for _, device := range devices {
		if err := device.Close(); first == nil {
			first = err
		}
	}
	return first
}
