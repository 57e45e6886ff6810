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
	relation := ""
	ended, code := s.read(data)
	if more, _ := unix.Read(s.fd, make([]byte, 1)); more > 0 {
		relation = "more"
	}
	if ended || code == hal.BadTensor {
		relation = "fewer"
	}
	switch {
	case code == hal.IO:
		return s.fault(code)
	case relation != "":
		return &hal.Fault{Code: hal.BadTensor, Reason: s.Path + " has " + relation + " than the " + decimal(uint64(len(data))) + " bytes of input " + s.Name}
	}
	return nil
}

// receive takes the data of the next run. ended is the orderly end: the other
// side has closed where a run's data would begin.
func (f *frames) receive() (ended bool, err error) {
	defer vanished(&err)
	began := false // another input had data for this run
	for i := range f.inputs {
		s, code := &f.inputs[i], hal.OK
		switch {
		case s.ring != nil:
			ended, code = s.ring.take(f.replay.Input(s.tensor))
		case s.pipe:
			ended, code = s.read(f.replay.Input(s.tensor))
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

// send gives the results of a run to pipes and rings, and its inputs back, or at
// the end results to files, which nobody sees yet. It waits for room in all rings
// first, so that a process that is killed while it waits has put nothing into any.
func (f *frames) send(atEnd bool) (err error) {
	defer vanished(&err)
	for i := range f.outputs {
		if s := &f.outputs[i]; s.ring != nil && !atEnd {
			if code := s.ring.makeRoom(); code != hal.OK {
				return s.fault(code)
			}
		}
	}
	for i := range f.outputs {
		s, data, code := &f.outputs[i], f.replay.Output(f.outputs[i].tensor), hal.OK
		switch {
		case s.ring != nil && atEnd:
			s.ring.close()
		case s.ring != nil:
			s.ring.put(data)
		case s.pipe && !atEnd:
			code = s.write(data)
		case atEnd && !s.pipe:
			if _, err = s.file.Write(data); err != nil {
				return err
			}
		}
		if code != hal.OK {
			return s.fault(code)
		}
	}
	for i := range f.inputs {
		if ring := f.inputs[i].ring; ring != nil && !atEnd {
			ring.advance()
		}
	}
	return nil
}
