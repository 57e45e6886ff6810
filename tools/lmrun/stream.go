package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
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
	data   []byte        // of the tensor, which each run takes or gives
	fd     int           // of a pipe
	file   *files.Output // of an output that is no ring
	ring   *ring         // nil for a file or a pipe
	pipe   bool
}

// ringPrefix marks the path of a ring.
const ringPrefix = "ring:"

// streams finds the tensors of the bindings of one kind. Of an input there is one.
func streams(view *fbs.View, bindings []args.Binding, role gen.Role) (list []stream, err error) {
	flag := "-input"
	if role == gen.RoleOutput {
		flag = "-output"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return nil, args.Bad(flag + " " + b.Name + ": the image has no such " + flag[1:])
		}
		for i := range list {
			if role == gen.RoleInput && list[i].tensor == index {
				return nil, args.Bad("-input " + b.Name + " is given twice")
			}
		}
		list = append(list, stream{Binding: b, tensor: index})
	}
	return list, nil
}

// open opens a ring, waits for the other side of a pipe, begins a file that is an
// output, or reads one that is an input.
func (s *stream) open(output bool) (err error) {
	path := strings.TrimPrefix(s.Path, ringPrefix)
	switch {
	case path != s.Path:
		s.ring, err = openRing(path, uint64(len(s.data)), output)
	case output:
		if s.file, err = files.Replace(s.Path, 0o644); err == nil {
			s.fd, s.pipe = s.file.Fd(), s.file.Stream()
		}
	default:
		if s.fd, s.pipe, err = files.OpenInput(s.Path, 0); err == nil && !s.pipe {
			err = s.readFile()
			unix.Close(s.fd)
		}
	}
	if s.pipe && err == nil { // nothing waits in the kernel for one, where no signal would end that
		err = hal.FileFault(s.Path, unix.SetNonblock(s.fd, true))
	}
	return err
}

// readFile fills the tensor from a file of exactly that size.
func (s *stream) readFile() error {
	n, err := s.move(s.data)
	relation := "fewer"
	if err == nil && n == len(s.data) {
		relation = "more"
		n, err = s.move(make([]byte, 1))
	}
	if err != nil || relation == "more" && n == 0 {
		return err
	}
	return &hal.Fault{Code: hal.BadTensor, Reason: s.Path + " has " + relation + " than the " + decimal(uint64(len(s.data))) + " bytes of input " + s.Name}
}

// move reads or writes until all of data are moved, nothing more comes, or a signal
// ends the wait, which for a result that nobody takes is an error.
func (s *stream) move(data []byte) (n int, err error) {
	input, call := s.file == nil, hal.Write
	if input {
		call = hal.Read
	}
	for n < len(data) {
		moved, err := call(s.fd, data[n:])
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
		s, got := &f.inputs[i], 0
		switch {
		case s.ring != nil:
			got, err = s.ring.take(s.data)
		case s.pipe:
			got, err = s.move(s.data)
		default:
			continue
		}
		switch {
		case err != nil:
			return false, err
		case got < len(s.data) && (stopping.Load() != 0 || got == 0 && !began):
			return true, nil
		case got < len(s.data):
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
	for i := 0; i < len(f.outputs) && err == nil; i++ {
		switch s := &f.outputs[i]; {
		case s.ring != nil:
			s.ring.put(s.data)
		case s.pipe:
			_, err = s.move(s.data)
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
	for i := 0; i < len(f.outputs) && err == nil; i++ {
		switch s := &f.outputs[i]; {
		case s.ring != nil:
			s.ring.close()
		case !s.pipe:
			_, err = s.file.Write(s.data)
		}
	}
	if err == nil {
		err = f.files.Commit()
	}
	return err
}
