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
// device of characters, and a ring, are live: they take part in every run.
type stream struct {
	args.Binding
	tensor int
	output bool
	live   bool
	data   []byte        // of the tensor, which each run takes or gives
	fd     int           // of a file or a pipe
	file   *files.Output // of an output that is no ring
	ring   *ring
}

// ringPrefix marks the path of a ring.
const ringPrefix = "ring:"

// bind finds the tensors of the bindings of one kind. Of an input there is one.
func (f *frameLoop) bindTensors(view *fbs.View, bindings []args.Binding, role gen.Role) error {
	flag := "-input"
	if role == gen.RoleOutput {
		flag = "-output"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return args.UsageError(flag + " " + b.Name + ": the image has no such " + flag[1:])
		}
		for i := range f.streams {
			if role == gen.RoleInput && f.streams[i].tensor == index {
				return args.UsageError("-input " + b.Name + " is given twice")
			}
		}
		f.streams = append(f.streams, stream{Binding: b, tensor: index,
			output: role == gen.RoleOutput})
	}
	return nil
}

// open opens a ring, waits for the other side of a pipe, begins a file that is an
// output, or reads one that is an input.
func (s *stream) open(r *runtime.Replay) (err error) {
	path := strings.TrimPrefix(s.Path, ringPrefix)
	if s.data = r.Output(s.tensor); !s.output {
		// also of a pipe, which a sequence before the first run need not wait for
		s.data = r.Input(s.tensor)
	}
	switch {
	case path != s.Path:
		s.live = true
		s.ring = &ring{path: path, size: uint64(len(s.data))}
		return s.ring.open(s.output)
	case s.output:
		if s.file, err = files.Replace(path, 0o644); err == nil {
			s.Path, s.fd, s.live = s.file.Path, s.file.Fd, s.file.Stream
		}
	default:
		if s.fd, s.live, err = files.OpenInput(path, 0); err == nil && !s.live {
			err = s.readFile()
			unix.Close(s.fd)
		}
	}
	// nothing waits in the kernel for a pipe, where no signal would end that
	if s.live && err == nil {
		err = hal.FileFault(path, unix.SetNonblock(s.fd, true))
	}
	return err
}

// readFile fills the tensor from a file of exactly that size.
func (s *stream) readFile() error {
	n, err := s.transfer(s.data)
	more := 0
	if err == nil {
		more, err = s.transfer(make([]byte, 1))
	}
	if err != nil || n+more == len(s.data) {
		return err
	}
	return hal.NewFault(hal.BadTensor, s.Path+" has "+[...]string{"fewer", "more"}[more]+
		fbs.Text(" than the %d bytes of input ", uint64(len(s.data)))+s.Name)
}

const (
	streamLooks   = 100    // at what makes a run wait, before it sleeps
	streamPauseNs = 50_000 // between two looks from then on
)

// move reads or writes until all of data are moved, nothing more comes, or a signal
// ends the wait, which for a result that nobody takes is an error.
func (s *stream) transfer(data []byte) (n int, err error) {
	for looks, moved := 0, 0; n < len(data); looks++ {
		switch {
		case s.ring != nil:
			moved, err = s.ring.transfer(data)
		case s.output:
			moved, err = hal.Write(s.fd, data[n:])
		default:
			moved, err = hal.Read(s.fd, data[n:])
		}
		waits := err == unix.EAGAIN
		switch {
		case moved > 0:
			n, looks = n+moved, 0
		case waits && stopping.Load() == 0:
			if looks > streamLooks {
				hal.SleepRaw(streamPauseNs)
			}
		case waits && s.output:
			return n, hal.NewFault(hal.IO, s.Path+": nobody takes the results")
		case waits || moved == 0:
			return n, nil
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receive takes the data of the next run. ended is the orderly end: a signal, or
// the other side has closed where a run's data would begin. A process that fails
// here allocates only what the heap has room for.
func (f *frameLoop) receiveInputs() (ended bool, err error) {
	defer f.recoverRingFault(&err)
	began := false // an input had data for this run
	for i := range f.streams {
		s := &f.streams[i]
		if s.output || !s.live {
			continue
		}
		got, err := s.transfer(s.data)
		switch {
		case err != nil:
			return false, err
		case got < len(s.data) && (stopping.Load() != 0 || got == 0 && !began):
			return true, nil
		case got < len(s.data):
			return false, hal.NewFault(hal.BadTensor, s.Path+": ends in the middle of a run's data")
		}
		began = true
	}
	return false, nil
}

// send gives the results of a run to pipes and rings, and its inputs back. Rings
// show nothing of it before all is out: a process that is killed while it waits has
// put nothing into any.
func (f *frameLoop) sendOutputs() (err error) {
	defer f.recoverRingFault(&err)
	for i := range f.streams {
		if s := &f.streams[i]; s.output && s.live && err == nil {
			_, err = s.transfer(s.data)
		}
	}
	for i := len(f.streams) - 1; i >= 0 && err == nil; i-- { // outputs lie behind inputs
		if ring := f.streams[i].ring; ring != nil {
			ring.advance()
		}
	}
	return err
}

// finish ends the runs in order: it writes the results of the last run to files, if
// there was a run, and then closes the rings, so that their readers end.
func (f *frameLoop) finishOutputs(runs uint64) (err error) {
	defer f.recoverRingFault(&err)
	for i := range f.streams {
		if s := &f.streams[i]; s.output && !s.live && runs > 0 && err == nil {
			_, err = s.transfer(s.data)
		}
	}
	if runs > 0 && err == nil {
		err = f.files.Commit()
	}
	for i := range f.streams {
		if s := &f.streams[i]; s.output && s.ring != nil && err == nil {
			s.ring.markClosed()
		}
	}
	return err
}
