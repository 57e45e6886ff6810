// Lmrun replays one Light Metal binary on one device (or one device a target) and
// exits with a documented status. What starts it as often as wanted is lminit.
package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.DedicateProcess()
	o, err := args.Parse(args.CommandLine())
	end := outcome{err: err}
	if err == nil && !o.Help && !o.Version {
		end = replay(o)
	}
	unix.Exit(printOutcome(o, end))
}

// outcome is how a whole invocation ended, with what there is to tell.
type outcome struct {
	// of a run: "expect failed: command 3 of main: got ..."
	err error
	// of the last run; with a Code where it, or what came after it, failed
	result             runtime.Result
	runs               uint64 // completed
	total, least, most int64  // nanoseconds of all completed runs
}

// replay does everything between the command line and the report.
func replay(o args.Options) outcome {
	file, err := runtime.Open(o.Image)
	if err == nil && o.Key != "" {
		err = checkSignature(file, o.Key)
	}
	if err != nil {
		return outcome{err: err}
	}
	view, err := file.Verify()
	if err != nil {
		return outcome{err: err}
	}
	f, err := planRuns(view, o)
	if err != nil || o.Check {
		return outcome{err: err}
	}
	if o.Supervised {
		if err = files.WriteFull(3, []byte(fbs.Text("%d\n", f.longestStopUs(view)))); err != nil {
			return outcome{err: args.UsageError("-supervised: descriptor 3: " + err.Error())}
		}
	}
	devices, err := openDevices(o, view)
	if err != nil {
		return outcome{err: err}
	}
	return f.runOn(devices, view, o)
}

// runOn does what comes after the devices are open, and closes them.
func (f *frameLoop) runOn(devices []hal.Device, view *fbs.View, o args.Options) (end outcome) {
	if end.err = f.prepareRuns(devices, view, o); end.err == nil {
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

// prepare takes everything that the runs need, up to the seal.
func (f *frameLoop) prepareRuns(devices []hal.Device, view *fbs.View, o args.Options) error {
	r, err := runtime.Load(view, o.Window, devices...)
	if err != nil {
		return err
	}
	if notice := r.Warnings; notice != "" {
		_ = writeText(2, "lmrun: "+notice)
	}
	err = f.openStreams(r, devices[0])
	spare := func() error { return files.EnsureSpareFDs(2) } // which Freeze has Go open
	for _, step := range [...]func() error{spare, stopOnSignal, r.Freeze} {
		if err == nil {
			err = step()
		}
	}
	if err == nil && o.Seal {
		err = runtime.Seal(f.files.Pin()...)
		f.sealed = err == nil
	}
	return err
}

// rest stops the devices' DMA, all of it before any is given back. A sealed process
// cannot give anything back, but for what its end does.
func (f *frameLoop) stopDevices(devices []hal.Device) (first error) {
	if f.replay != nil {
		first = f.replay.StopDMA()
	}
	for i := 0; i < len(devices) && !f.sealed; i++ {
		if err := devices[i].Close(); first == nil {
			first = err
		}
	}
	return first
}

// with the build tag mock of stand-ins, too
var openDevice, parseDeviceName = hal.Open, hal.ParseName

// open opens one device for each target of the image.
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

func sequenceNames(view *fbs.View) (names string) {
	for i := range view.Sequences {
		names += " " + view.Name(view.Sequences[i].Name)
	}
	return names
}
