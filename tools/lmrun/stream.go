package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// stream is where the data of one tensor come from or go to. A file is read
// once before the first run, and written after the last. A pipe or another
// device of characters, and a ring, take part in every run.
type stream struct {
	args.Binding
	tensor int
	fd     int           // of a pipe, else -1 or closed
	file   *files.Output // of an output that is no ring
	ring   *ring         // nil for a file or a pipe
	pipe   bool
}

// ringPrefix marks the path of a ring.
const ringPrefix = "ring:"

// streams finds the tensors of the bindings of one kind. Of an input there is one.
func streams(view *fbs.View, bindings []args.Binding, role gen.Role) (list []stream, err error) {
	flag := "-input "
	if role == gen.RoleOutput {
		flag = "-output "
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return nil, args.Bad(flag + b.Name + ": the image has no such tensor")
		}
		for i := range list {
			if role == gen.RoleInput && list[i].tensor == index {
				return nil, args.Bad(flag + b.Name + " is given twice")
			}
		}
		list = append(list, stream{Binding: b, tensor: index, fd: -1})
	}
	return list, nil
}

// openInput opens a ring, or waits for the other side of a pipe, or reads a file.
func (s *stream) openInput(r *runtime.Replay) (err error) {
	data := r.Input(s.tensor) // also of a pipe, which a sequence before the first run need not wait for
	if path, isRing := strings.CutPrefix(s.Path, ringPrefix); isRing {
		s.ring, err = openRing(path, uint64(len(data)), false)
		return err
	}
	if s.fd, s.pipe, err = files.OpenInput(s.Path, 0); err != nil {
		return err
	}
	if s.pipe {
		return s.neverWait()
	}
	defer unix.Close(s.fd)
	return s.readFile(data)
}

func (s *stream) openOutput(r *runtime.Replay) (err error) {
	if path, isRing := strings.CutPrefix(s.Path, ringPrefix); isRing {
		s.ring, err = openRing(path, uint64(len(r.Output(s.tensor))), true)
		return err
	}
	if s.file, err = files.Replace(s.Path, 0o644); err != nil || !s.file.Stream() {
		return err
	}
	s.fd, s.pipe = s.file.Fd(), true
	return s.neverWait()
}

// neverWait has nothing wait in the kernel for a pipe, where no signal would end that.
func (s *stream) neverWait() error { return hal.FileFault(s.Path, unix.SetNonblock(s.fd, true)) }

// readFile fills data from a file of exactly that size.
func (s *stream) readFile(data []byte) error {
	n, err := s.move(data)
	relation := "fewer"
	if err == nil && n == len(data) {
		relation = "more"
		n, err = s.move(make([]byte, 1))
	}
	if err != nil || relation == "more" && n == 0 {
		return err
	}
	return &hal.Fault{Code: hal.BadTensor, Reason: s.Path + " has " + relation + " than the " + decimal(uint64(len(data))) + " bytes of input " + s.Name}
}

// move reads or writes until all of data are moved, nothing more comes, or a signal
// ends the wait, which for a result that nobody takes is an error.
func (s *stream) move(data []byte) (n int, err error) {
	input, moved := s.file == nil, 0
	for n < len(data) {
		if input {
			moved, err = hal.Read(s.fd, data[n:])
		} else {
			moved, err = hal.Write(s.fd, data[n:])
		}
		switch {
		case moved > 0:
			n += moved
		case moved == 0 || err == unix.EAGAIN && input && stopping.Load() != 0:
			return n, nil
		case err == unix.EAGAIN && stopping.Load() == 0:
			hal.Pause(streamPauseNs)
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receive takes the data of the next run. ended is the orderly end: a signal, or
// the other side has closed where a run's data would begin. A process that fails
// here allocates only what the heap has room for.
func (f *frames) receive() (ended bool, err error) {
	defer vanished(&err)
	began := false // an input had data for this run
	for i := range f.inputs {
		s := &f.inputs[i]
		size, got := len(f.replay.Input(s.tensor)), 0
		switch {
		case s.ring != nil:
			got, err = s.ring.take(f.replay.Input(s.tensor))
		case s.pipe:
			got, err = s.move(f.replay.Input(s.tensor))
		default:
			continue
		}
		switch {
		case err != nil:
			return false, err
		case got < size && (stopping.Load() != 0 || got == 0 && !began):
			return true, nil
		case got < size:
			return false, &hal.Fault{Code: hal.BadTensor, Reason: s.Path + ": ends in the middle of a run's data"}
		}
		began = true
	}
	return false, nil
}

// streamPauseNs is the time between two looks at a pipe or a ring that makes a
// run wait.
const streamPauseNs = 50_000

// send gives the results of a run to pipes and rings, and its inputs back. It
// waits for room in all rings first, so that a process that is killed while it
// waits has put nothing into any.
func (f *frames) send() (err error) {
	defer vanished(&err)
	for i := range f.outputs {
		if ring := f.outputs[i].ring; ring != nil && err == nil {
			err = ring.makeRoom()
		}
	}
	for i := range f.outputs {
		switch s, data := &f.outputs[i], f.replay.Output(f.outputs[i].tensor); {
		case err != nil:
			return err
		case s.ring != nil:
			s.ring.put(data)
		case s.pipe:
			_, err = s.move(data)
		}
	}
	for i := range f.inputs {
		if ring := f.inputs[i].ring; ring != nil && err == nil {
			ring.advance()
		}
	}
	return err
}

// finish gives the results of the last run to files, and tells who reads rings
// that no more come.
func (f *frames) finish() (err error) {
	defer vanished(&err)
	for i := range f.outputs {
		switch s := &f.outputs[i]; {
		case err != nil:
			return err
		case s.ring != nil:
			s.ring.close()
		case !s.pipe:
			_, err = s.file.Write(f.replay.Output(s.tensor))
		}
	}
	if err == nil {
		err = f.files.Commit()
	}
	return err
}
