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

// This file moves tensor data between runs and files, pipes and rings.

// stream connects one tensor with a file, a pipe or a ring. A file is read once before
// the first run, and written after the last. Pipes, other character devices and rings are
// live: each run reads or writes them.
type stream struct {
	args.Binding
	tensor int
	output bool
	live   bool
	data   []byte        // of the tensor
	fd     int           // of a file or a pipe
	file   *files.Output // of an output that is not a ring
	ring   *ring         // nil: not a ring
}

// ringPrefix marks the path of a ring.
const ringPrefix = "ring:"

// bindTensors adds a stream for each binding of -input or -output, by role. An input can
// have one binding, an output several.
func (f *frameLoop) bindTensors(view *fbs.View, bindings []args.Binding, role gen.Role) error {
	isInput, what := role == gen.RoleInput, "output"
	if isInput {
		what = "input"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return args.UsageError("-" + what + " " + b.Name + ": the image has no such " + what)
		}
		if isInput && f.isBound(index) {
			return args.UsageError("-input " + b.Name + " is given twice")
		}
		f.streams = append(f.streams, stream{Binding: b, tensor: index, output: !isInput})
	}
	return nil
}

func (f *frameLoop) isBound(tensor int) bool {
	for i := range f.streams {
		if f.streams[i].tensor == tensor {
			return true
		}
	}
	return false
}

// open opens a ring, waits for the other side of a pipe, creates the temporary file of an
// output, or reads the file of an input.
func (s *stream) open(r *runtime.Replay) (err error) {
	if s.output {
		s.data = r.Output(s.tensor)
	} else {
		// Marks the tensor as filled, also for a pipe: the sequence before the first run
		// does not wait for its data.
		s.data = r.Input(s.tensor)
	}
	path := strings.TrimPrefix(s.Path, ringPrefix)
	switch {
	case path != s.Path:
		s.live = true
		s.ring = newRing(path, uint64(len(s.data)))
		return s.ring.open(s.output)
	case s.output:
		err = s.openOutput(path)
	default:
		err = s.openInput(path)
	}
	if err != nil || !s.live {
		return err
	}
	// transfer waits for a pipe, not the kernel, where a signal would not end the wait.
	return hal.FileFault(path, unix.SetNonblock(s.fd, true))
}

func (s *stream) openOutput(path string) error {
	file, err := files.Replace(path, 0o644)
	if err != nil {
		return err
	}
	s.file = file
	s.Path, s.fd, s.live = file.Path, file.Fd, file.Stream
	return nil
}

func (s *stream) openInput(path string) (err error) {
	s.fd, s.live, err = files.OpenInput(path, 0)
	if err != nil || s.live {
		return err
	}
	defer unix.Close(s.fd)
	return s.readFile()
}

// readFile fills the tensor from a file, which must have exactly its size.
func (s *stream) readFile() error {
	n, err := s.transfer(s.data)
	extra := 0
	if err == nil {
		extra, err = s.transfer(make([]byte, 1))
	}
	if err != nil || n+extra == len(s.data) {
		return err
	}
	comparison := [...]string{"fewer", "more"}[extra]
	return hal.NewFault(hal.BadTensor, s.Path+" has "+comparison+
		fbs.Text(" than the %d bytes of input ", uint64(len(s.data)))+s.Name)
}

const (
	streamSpins   = 100    // attempts before a waiting transfer sleeps between two
	streamPauseNs = 50_000 // between two attempts from then on
)

// transfer reads or writes until all of data are transferred, the other side has closed,
// or a signal ends the wait. If a signal ends the wait for a reader, that is an error,
// since results would be lost.
func (s *stream) transfer(data []byte) (n int, err error) {
	for spins, moved := 0, 0; n < len(data); spins++ {
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
			n, spins = n+moved, 0
		case waits && stopping.Load() == 0:
			if spins > streamSpins {
				hal.SleepRaw(streamPauseNs)
			}
		case waits && s.output:
			return n, hal.NewFault(hal.IO, s.Path+": the reader is not consuming outputs")
		case waits || moved == 0:
			return n, nil
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receiveInputs reads the data of the next run. It reports whether the inputs have ended:
// by a signal, or because the other side has closed before the data of a run. The error
// that it returns is allocated from what the heap has free, also under the seal.
func (f *frameLoop) receiveInputs() (ended bool, err error) {
	defer f.recoverRingFault(&err)
	hasData := false // an input before had data for this run
	for i := range f.streams {
		s := &f.streams[i]
		if s.output || !s.live {
			continue
		}
		got, err := s.transfer(s.data)
		isShort := got < len(s.data)
		closedBetweenRuns := got == 0 && !hasData
		switch {
		case err != nil:
			return false, err
		case isShort && (stopping.Load() != 0 || closedBetweenRuns):
			return true, nil
		case isShort:
			return false, hal.NewFault(hal.BadTensor, s.Path+": ends in the middle of a run's data")
		}
		hasData = true
	}
	return false, nil
}

// sendOutputs writes the results of a run to pipes and rings, and returns the slots of its
// inputs. No ring advances before all results are written, so a process that is killed
// while it waits has published none of them.
func (f *frameLoop) sendOutputs() (err error) {
	defer f.recoverRingFault(&err)
	if err = f.writeOutputs(true); err != nil {
		return err
	}
	// Outputs follow inputs in the list: an input is returned after its result is out.
	for i := len(f.streams) - 1; i >= 0; i-- {
		if ring := f.streams[i].ring; ring != nil {
			ring.advance()
		}
	}
	return nil
}

// writeOutputs writes the results of a run to the outputs that are live, or to the others.
func (f *frameLoop) writeOutputs(live bool) error {
	for i := range f.streams {
		s := &f.streams[i]
		if !s.output || s.live != live {
			continue
		}
		if _, err := s.transfer(s.data); err != nil {
			return err
		}
	}
	return nil
}

// finishOutputs writes the results of the last run to files, if there was a run, and then
// closes the rings, so that their readers end.
func (f *frameLoop) finishOutputs(runs uint64) (err error) {
	defer f.recoverRingFault(&err)
	if runs > 0 {
		if err = f.writeOutputs(false); err == nil {
			err = f.files.Commit()
		}
	}
	if err != nil {
		return err
	}
	for i := range f.streams {
		if s := &f.streams[i]; s.output && s.ring != nil {
			s.ring.markClosed()
		}
	}
	return nil
}
