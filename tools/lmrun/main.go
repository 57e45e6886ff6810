// Lmrun replays one Light Metal image on the devices for which the image was made. Its exit status
// names the kind of failure; a supervisor, such as lminit, restarts lmrun by it.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// The steps of lmrun, in this order:
//   1. Parse the command line, verify the image, and check the options against the image.
//   2. Open the devices, install the signal handler, load the image, open the inputs and outputs.
//   3. Freeze the process, and seal it if -seal is given. From here on, lmrun allocates nothing.
//      Enable bus mastering.
//   4. Execute the runs. A run is one execution of the sequence that -sequence names.
//   5. Stop the devices and print the outcome.

func main() {
	runtime.DedicateProcess()
	options, err := args.Parse(args.CommandLine())
	end := outcome{err: err}
	if err == nil && !options.PrintHelp && !options.PrintVersion {
		end = replayImage(options)
	}
	unix.Exit(printOutcome(options, end))
}

// outcome is what lmrun prints when it ends.
type outcome struct {
	// err is the first error of any step. The text of a failed command names it, for example
	// "expect failed: main, command 3: expect.4 ...".
	err error
	// result is that of the last sequence other than `safe`. If no command has failed, but an
	// input, for example, could not be read, Code is the code of err and Command is -1.
	result          runtime.Result
	ignoredFailures uint64 // of all sequences other than `safe`

	imageID string // from fbs.View.ID; empty: no valid image was opened
	warning string // of -check; empty: none

	runs          uint64 // that were completed
	totalRunNs    int64  // of the completed runs, as are the two below
	shortestRunNs int64
	longestRunNs  int64
}

func replayImage(o args.Options) outcome {
	view, err := openImage(o)
	if err != nil {
		return outcome{err: err}
	}
	id := view.ID() // now, because runs must not allocate
	end := replayView(view, id, o)
	end.imageID = id
	return end
}

func replayView(view *fbs.View, id string, o args.Options) outcome {
	f, err := planRuns(view, o)
	if err != nil || o.CheckOnly {
		return outcome{err: err, warning: safeWarning(view)}
	}
	if o.ReportLongestStopTime {
		err = reportMaxStopTime(f.maxStopTimeUs(view), id)
	}
	if err == nil {
		err = f.faultRecorder.openFile(o, view)
	}
	if err != nil {
		return outcome{err: err}
	}
	devices, err := openDevices(o, view)
	end := outcome{err: err}
	if err == nil {
		end = f.runOnDevices(devices, view, o)
	}
	f.faultRecorder.recordFailure(&end)
	return end
}

// openImage returns the verified image. With -key, its signature and version are checked first.
func openImage(o args.Options) (*fbs.View, error) {
	if (o.MinVersion != 0 || o.VersionCounterFile != "") && o.KeyFile == "" {
		return nil, args.UsageError("-at-least and -version-counter need -key: " +
			"only a signature protects the version")
	}
	file, err := runtime.Open(o.Image)
	if err == nil && o.KeyFile != "" {
		err = checkSignature(file, o)
	}
	if err != nil {
		return nil, err
	}
	return file.Verify()
}

// reportMaxStopTime writes two lines to file descriptor 3: the longest time between a signal and
// the end of lmrun, which a supervisor waits before it kills lmrun, and the image's id.
func reportMaxStopTime(maxUs uint64, id string) error {
	const reportFD = 3
	err := files.WriteFull(reportFD, []byte(fbs.Text("%d\n"+id+"\n", maxUs)))
	if err == nil {
		return nil
	}
	return args.UsageError("-supervised: cannot write to file descriptor 3: " + err.Error() +
		"; open it as a pipe, or omit this flag")
}

// Builds with the tag mock also accept mock devices.
var openDevice, parseDeviceName = hal.Open, hal.ParseDeviceName

// openDevices opens the devices of -device, or those that the ids in the image choose.
func openDevices(o args.Options, view *fbs.View) (devices []hal.Device, err error) {
	names := o.Devices
	if len(names) == 0 {
		names = runtime.DeviceNames(view)
	}
	devices = make([]hal.Device, len(names))
	for i := 0; i < len(names) && err == nil; i++ {
		if len(o.Devices) == 0 {
			_ = printLine(2, "lmrun: uses -device "+names[i])
		}
		devices[i], err = openDevice(names[i])
	}
	return devices, err
}

// runOnDevices stops the watchdog only after success: after a failure, the watchdog must reset the
// machine.
func (f *runLoop) runOnDevices(devices []hal.Device, view *fbs.View, o args.Options) outcome {
	end := outcome{err: f.prepareRuns(devices, view, o)}
	if end.err == nil {
		end = f.runAndCommit(o.RunCount)
	} else if stopRequested.Load() != 0 && hal.CodeOf(end.err) == hal.IO {
		end.err = nil // the signal ended a wait for a file, and nothing has run
	}
	f.outputFiles.Discard()
	f.counterUpdate.discard()
	f.faultRecorder.readErrorRegisters(devices, view, &end)
	if err := f.stopDevices(devices); end.err == nil {
		end.err = err
	}
	if end.err == nil {
		f.watchdog.stop()
	}
	return end
}

// prepareRuns does everything that must precede the first run: the signal handler first, and bus
// mastering last.
func (f *runLoop) prepareRuns(devices []hal.Device, view *fbs.View, o args.Options) error {
	if err := installSignalHandler(); err != nil {
		return err
	}
	r, err := runtime.Load(view, o.FirstTLBWindow, devices...)
	if err != nil {
		return err
	}
	if r.Warnings != "" {
		_ = writeText(2, "lmrun: "+r.Warnings)
	}
	f.setReplay(r, devices[0])
	f.faultRecorder.mapConfigSpaces(devices)
	err = f.counterUpdate.openNewFile(o.VersionCounterFile, view.Version)
	if err == nil {
		err = f.openFiles()
	}
	if err == nil {
		// Freeze makes Go's runtime open two descriptors; if it cannot, it ends the process without
		// a useful error.
		err = files.EnsureSpareFDs(2)
	}
	if err == nil {
		err = r.Freeze()
	}
	if err == nil && o.LockMemory {
		err = runtime.LockMemory()
	}
	if err == nil && o.Seal {
		outputs := append(f.outputFiles, f.counterUpdate.newFile...)
		err = runtime.Seal(outputs.PrepareSeal()...)
		f.isSealed = err == nil
	}
	if err == nil && stopRequested.Load() == 0 {
		err = r.StartDMA()
	}
	return err
}

// stopDevices closes no device in a sealed process, which may not close files: the kernel does that
// at the end. It returns the first error.
func (f *runLoop) stopDevices(devices []hal.Device) (firstErr error) {
	if f.replay != nil {
		firstErr = f.replay.StopDMA()
	}
	if f.isSealed {
		return firstErr
	}
	for _, device := range devices {
		if err := device.Close(); firstErr == nil {
			firstErr = err
		}
	}
	return firstErr
}
