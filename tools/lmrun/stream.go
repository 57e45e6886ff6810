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
	fd     int           // of a pipe, and of a file that is an input and not read yet, else -1
	file   *files.Output // of an output that is no ring
	ring   *ring         // nil for a file or a pipe
	pipe   bool
}

// ringPrefix marks the path of a ring.
const ringPrefix = "ring:"

// openStreams opens what the bindings of one kind name. Everything is opened
// before the seal, and before the first store, so that a bad path costs no run.
// With an error comes what was opened so far.
func openStreams(r *runtime.Replay, bindings []args.Binding, role gen.Role) ([]stream, error) {
	list := make([]stream, len(bindings))
	for i, b := range bindings {
		s := &list[i]
		index, err := tensor(r.View(), b, role)
		if err != nil {
			return list, err
		}
		*s = stream{Binding: b, tensor: index, fd: -1}
		if path, isRing := strings.CutPrefix(b.Path, ringPrefix); isRing {
			s.ring, err = openRing(path, r.View().Tensors[s.tensor].Size, role == gen.RoleOutput)
		} else {
			err = s.open(role)
		}
		if err != nil {
			return list, err
		}
		if role == gen.RoleOutput {
			continue
		}
		data := r.Input(s.tensor) // also of a pipe, which a sequence before the first run need not wait for
		if s.ring == nil && !s.pipe {
			if err := s.readFile(data); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

// tensor finds the tensor of a binding.
func tensor(view *fbs.View, b args.Binding, role gen.Role) (int, error) {
	index := view.TensorByName(b.Name)
	if index >= 0 && view.Tensors[index].Role == role {
		return index, nil
	}
	flag := "-input"
	if role == gen.RoleOutput {
		flag = "-output"
	}
	return 0, args.Bad(flag + ": the image has no such tensor as " + b.Name)
}

// open opens a file, or waits for the other side of a pipe. From then on nothing
// waits in the kernel for a pipe, where no signal would end that.
func (s *stream) open(role gen.Role) (err error) {
	if role == gen.RoleOutput {
		if s.file, err = files.Replace(s.Path, 0o644); err != nil {
			return err
		}
		if s.pipe = s.file.Stream(); s.pipe {
			s.fd = s.file.Fd()
		}
	} else if s.fd, s.pipe, err = files.OpenInput(s.Path, 0); err != nil {
		return err
	}
	if s.pipe {
		err = unix.SetNonblock(s.fd, true)
	}
	return err
}

// readFile fills data from a file of exactly that size.
func (s *stream) readFile(data []byte) error {
	read, err := readFull(s.fd, data)
	if err != nil {
		return hal.FileFault(s.Path, err)
	}
	more, _ := unix.Read(s.fd, make([]byte, 1))
	unix.Close(s.fd)
	s.fd = -1
	if read == len(data) && more <= 0 {
		return nil
	}
	relation := "fewer"
	if more > 0 {
		relation = "more"
	}
	return &hal.Fault{Code: hal.BadTensor, Reason: s.Path + " has " + relation + " than the " + decimal(uint64(len(data))) + " bytes of input " + s.Name}
}

// receive takes the data of the next run. ended is the orderly end: the other
// side has closed where a run's data would begin.
func receive(r *runtime.Replay, inputs []stream) (ended bool, err error) {
	began := false // another input had data for this run
	for i := range inputs {
		s, code := &inputs[i], hal.OK
		switch {
		case s.ring != nil:
			ended, code = s.ring.take(r.Input(s.tensor))
		case s.pipe:
			ended, code = s.read(r.Input(s.tensor))
		default:
			continue
		}
		if ended && !began && code == hal.OK {
			return true, nil
		}
		if ended || code != hal.OK {
			return false, s.fault(code)
		}
		began = true
	}
	return false, nil
}

// fault says why data did not come or go. A process that ends by it allocates
// only what the heap has room for.
func (s *stream) fault(code hal.Code) error {
	reason := s.Path + ": reading or writing failed, or the other side is gone"
	if code != hal.IO {
		code, reason = hal.BadTensor, s.Path+": ends, or makes no sense, in the middle of a run's data"
	}
	return &hal.Fault{Code: code, Reason: reason}
}

// read takes data from a pipe; a signal ends the wait for them.
func (s *stream) read(data []byte) (ended bool, code hal.Code) {
	for total := 0; total < len(data); {
		n, err := hal.Read(s.fd, data[total:])
		switch {
		case err == unix.EAGAIN && stopping.Load() != 0:
			return true, hal.OK
		case err == unix.EAGAIN:
			hal.Pause(streamPauseNs)
		case err == unix.EINTR:
		case err != nil:
			return false, hal.IO
		case n == 0 && total == 0:
			return true, hal.OK
		case n == 0:
			return false, hal.BadTensor
		default:
			total += n
		}
	}
	return false, hal.OK
}

// write gives data to a pipe; a signal ends the wait for room.
func (s *stream) write(data []byte) hal.Code {
	for len(data) > 0 {
		n, err := hal.Write(s.fd, data)
		switch {
		case err == unix.EAGAIN && stopping.Load() == 0:
			hal.Pause(streamPauseNs)
		case err == unix.EINTR:
		case err != nil:
			return hal.IO
		default:
			data = data[n:]
		}
	}
	return hal.OK
}

// streamPauseNs is the time between two looks at a pipe or a ring that makes a
// run wait.
const streamPauseNs = 50_000

// release tells rings that the inputs of a run are done with.
func release(inputs []stream) {
	for i := range inputs {
		if inputs[i].ring != nil {
			inputs[i].ring.advance()
		}
	}
}

// send gives the data of a run to pipes and rings, or, at the end, to files,
// which nobody sees yet. It waits for room in all rings first, so that a process
// that is killed while it waits has put nothing into any.
func send(r *runtime.Replay, outputs []stream, atEnd bool) (err error) {
	for i := range outputs {
		if s := &outputs[i]; s.ring != nil && !atEnd {
			if code := s.ring.makeRoom(); code != hal.OK {
				return s.fault(code)
			}
		}
	}
	for i := range outputs {
		s, code := &outputs[i], hal.OK
		switch {
		case s.ring != nil && atEnd:
			s.ring.close()
		case s.ring != nil:
			s.ring.put(r.Output(s.tensor))
		case s.pipe && !atEnd:
			code = s.write(r.Output(s.tensor))
		case atEnd && !s.pipe:
			if _, err = s.file.Write(r.Output(s.tensor)); err != nil {
				return err
			}
		}
		if code != hal.OK {
			return s.fault(code)
		}
	}
	return nil
}
