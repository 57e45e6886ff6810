// Lmrun replays one Light Metal image on the devices for which the image was made. The exit
// status of lmrun names the kind of failure. A supervisor, such as lminit, uses the exit status to
// decide whether to restart lmrun.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file performs the steps of lmrun in this order:
//  1. Parse the command line, verify the image, and check the options against the image.
//  2. Open the devices, install the signal handler, load the image, and open the inputs and
//     outputs.
//  3. Freeze the process (runtime.Replay.Freeze). If -seal is given, also seal the process
//     (runtime.Seal). From here on, lmrun allocates nothing. Enable bus mastering.
//  4. Execute the runs. A run is one execution of the sequence that the flag -sequence names.
//  5. Stop the devices and print the outcome.

func main() {
	runtime.DedicateProcess()
	options, err := args.Parse(args.CommandLine())
	end := outcome{err: err}
	if err == nil && !options.PrintHelp && !options.PrintVersion {
		end = replayImage(options)
	}
	unix.Exit(printOutcome(options, end))
}

// outcome contains the error, the result and the statistics that lmrun prints when it ends.
type outcome struct {
	// err is the first error of any step of lmrun, or nil after success. If a command failed, the
	// error text names it, for example "expect failed: main, command 3: expect.4 ...".
	err error
	// result is the result of the last sequence that ran, other than the sequence `safe`. If
	// lmrun stopped the runs for another reason than a failed command, for example because an input
	// could not be read, runSafeSequence sets result.Code to the code of err, and result.Command to
	// -1.
	result          runtime.Result
	ignoredFailures uint64 // of all sequences that ran, other than the sequence `safe`

	runs          uint64 // number of completed runs
	totalRunNs    int64  // sum of the durations of completed runs, in nanoseconds
	shortestRunNs int64  // duration of the shortest completed run, in nanoseconds
	longestRunNs  int64  // duration of the longest completed run, in nanoseconds
}

// replayImage performs the steps of lmrun from opening the image to stopping the devices, and
// returns the outcome. If -check is given, replayImage opens no device.
func replayImage(o args.Options) outcome {
	view, err := openImage(o)
	if err != nil {
		return outcome{err: err}
	}
	f, err := planRuns(view, o)
	if err != nil || o.CheckOnly {
		return outcome{err: err}
	}
	if o.ReportLongestStopTime {
		err = reportMaxStopTime(f.maxStopTimeUs(view))
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

// openImage opens and verifies the image, and returns the verified image. If -key is given,
// openImage checks the signature and the version of the image before it verifies the image.
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

// reportMaxStopTime writes maxUs as one line to file descriptor 3. maxUs is the longest time that
// lmrun may need to end after a signal, in microseconds. A supervisor that starts lmrun with
// -supervised reads this line, so that it knows how long to wait before it kills lmrun.
func reportMaxStopTime(maxUs uint64) error {
	const reportFD = 3
	err := files.WriteFull(reportFD, []byte(fbs.Text("%d\n", maxUs)))
	if err == nil {
		return nil
	}
	return args.UsageError("-supervised: cannot write to file descriptor 3: " + err.Error())
}

// openDevice opens the device with a given name. parseDeviceName checks the name and opens nothing.
// In builds with the tag mock, both functions also accept mock devices.
var openDevice, parseDeviceName = hal.Open, hal.ParseDeviceName

// openDevices opens the devices that the flags -device name. Without such a flag, it chooses the
// devices by the ids in the image, and prints its choice.
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

// runOnDevices prepares and executes the runs. It then discards the outputs that were not
// committed, reads the error registers after a failure, and stops the devices. After success it
// stops the watchdog. After a failure it does not, so that the watchdog resets the machine.
func (f *runLoop) runOnDevices(devices []hal.Device, view *fbs.View, o args.Options) outcome {
	end := outcome{err: f.prepareRuns(devices, view, o)}
	if end.err == nil {
		end = f.runAndCommit(o.RunCount)
	} else if stopRequested.Load() != 0 && hal.CodeOf(end.err) == hal.IO {
		end.err = nil // the signal ended a wait for a file, and nothing has run
	}
	f.outputFiles.Discard()
	f.counterUpdate.discard()
	f.faultRecorder.readErrorRegisters(devices, &end)
	if err := f.stopDevices(devices); end.err == nil {
		end.err = err
	}
	if end.err == nil {
		f.watchdog.stop()
	}
	return end
}

// prepareRuns does everything that must precede the first run. The signal handler comes first, and
// bus mastering last.
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
	f.faultRecorder.mapConfigSpaces(devices)
	err = f.counterUpdate.openNewFile(o.VersionCounterFile, view.Version)
	if err == nil {
		err = f.openFiles(r, devices[0])
	}
	if err == nil {
		// Freeze makes Go's runtime open two file descriptors. If Go's runtime cannot open them, it
		// ends the process without a useful error. EnsureSpareFDs returns an error instead.
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

// stopDevices stops the DMA of all devices and then closes the devices. It returns the first error.
// In a sealed process, which is not allowed to close files, stopDevices only stops the DMA. The
// kernel closes the devices when the process ends.
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
