package main

import (
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

func main() {
	if unix.Getpid() == 1 {
		initMain()
	}
	args, err := arguments()
	if err != nil {
		unix.Exit(report(options{}, outcome{err: err}))
	}
	o, err := parse(args[1:])
	switch {
	case o.help:
		print(1, usage)
		unix.Exit(0)
	case err != nil:
		unix.Exit(report(o, outcome{err: err}))
	}
	unix.Exit(report(o, replay(o)))
}

// arguments is the command line. It comes from /proc because package os costs
// a static program 128 KB.
func arguments() ([]string, error) {
	text, err := readFile("/proc/self/cmdline")
	if err != nil {
		return nil, &hal.Fault{Code: hal.Internal, Reason: "the command line is read from /proc, which is not mounted"}
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// outcome is how a whole invocation ended, with what there is to tell.
type outcome struct {
	err    error          // before the first run, or writing outputs
	result runtime.Result // of the last run
	runs   uint64         // completed
	place  string         // "command 3 of main", of a failed run
	total  int64          // nanoseconds of all completed runs
	least  int64
	most   int64
}

// replay does everything between the command line and the report.
func replay(o options) outcome {
	file, err := runtime.Open(o.image)
	if err != nil {
		return outcome{err: err}
	}
	view, err := file.Verify()
	if err != nil {
		return outcome{err: err}
	}
	devices, err := open(o, view)
	if err != nil {
		return outcome{err: err}
	}
	r, err := runtime.Load(view, o.window, devices...)
	if err != nil {
		return outcome{err: err}
	}
	sequence := r.View().SequenceByName(o.sequence)
	if sequence < 0 {
		return outcome{err: bad("no sequence " + o.sequence + " in the image; it has " + sequences(r))}
	}
	for _, b := range o.inputs {
		if err := readInput(r, b); err != nil {
			return outcome{err: err}
		}
	}
	// Outputs are opened before the seal, and before the first store, so that
	// a bad path costs no run.
	files := make([]int, len(o.outputs))
	for i, b := range o.outputs {
		if files[i], err = openOutput(r, b); err != nil {
			return outcome{err: err}
		}
	}
	if err := r.Freeze(); err != nil {
		return outcome{err: err}
	}
	if o.seal {
		if err := runtime.Seal(); err != nil {
			return outcome{err: err}
		}
	}
	end := loop(r, devices[0], sequence, o.loop)
	if end.result.Code == hal.OK {
		end.err = writeOutputs(r, o.outputs, files)
	}
	return end
}

// open opens one device for each target of the image.
func open(o options, view *fbs.View) ([]hal.Device, error) {
	names := o.devices
	if len(names) == 0 {
		names = runtime.DeviceNames(view)
	}
	devices := make([]hal.Device, len(names))
	for i, name := range names {
		device, err := hal.Open(name)
		if err != nil {
			return nil, err
		}
		devices[i] = device
	}
	return devices, nil
}

func sequences(r *runtime.Replay) string {
	names := ""
	for i := range r.View().Sequences {
		names += " " + r.View().Sequences[i].Name
	}
	return names[1:]
}

// loop runs a sequence until the count is reached or a run fails.
func loop(r *runtime.Replay, clock hal.Device, sequence int, count uint64) outcome {
	var end outcome
	for end.runs < count {
		began := clock.Now()
		end.result = r.Run(sequence)
		if end.result.Code != hal.OK {
			end.place = place(r, end.result.Command)
			return end
		}
		took := clock.Now() - began
		if end.runs == 0 {
			end.least = took
		}
		end.runs++
		end.total += took
		end.least, end.most = min(end.least, took), max(end.most, took)
	}
	return end
}

// place names a command for people: its index in the image and its sequence.
func place(r *runtime.Replay, index int32) string {
	for i := range r.View().Sequences {
		s := &r.View().Sequences[i]
		if index >= int32(s.First) && index < int32(s.First+s.Count) {
			return "command " + strconv.Itoa(int(index)) + " (number " + strconv.Itoa(int(index)-int(s.First)) + " of " + s.Name + ")"
		}
	}
	return "before the first command"
}

// tensor finds the tensor of a binding.
func tensor(r *runtime.Replay, b binding, role gen.Role, flag string) (int, error) {
	i := r.View().TensorByName(b.name)
	if i < 0 || r.View().Tensors[i].Role != role {
		return 0, bad(flag + ": the image has no such tensor as " + b.name)
	}
	return i, nil
}

// readInput fills an input tensor from a file of exactly its size.
func readInput(r *runtime.Replay, b binding) error {
	i, err := tensor(r, b, gen.RoleInput, "-input")
	if err != nil {
		return err
	}
	fd, err := unix.Open(b.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathFault(b.path, err)
	}
	defer unix.Close(fd)
	data := r.Input(i)
	read, err := readFull(fd, data)
	if err != nil {
		return pathFault(b.path, err)
	}
	more, _ := unix.Read(fd, make([]byte, 1))
	if read < len(data) || more > 0 {
		relation := "fewer"
		if more > 0 {
			relation = "more"
		}
		return &hal.Fault{Code: hal.BadTensor, Reason: b.path + " has " + relation + " than the " + strconv.Itoa(len(data)) + " bytes of input " + b.name}
	}
	return nil
}

func openOutput(r *runtime.Replay, b binding) (int, error) {
	if _, err := tensor(r, b, gen.RoleOutput, "-output"); err != nil {
		return -1, err
	}
	fd, err := unix.Open(b.path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, pathFault(b.path, err)
	}
	return fd, nil
}

func writeOutputs(r *runtime.Replay, outputs []binding, files []int) error {
	for i, b := range outputs {
		if err := writeFull(files[i], r.Output(r.View().TensorByName(b.name))); err != nil {
			return pathFault(b.path, err)
		}
	}
	return nil
}
