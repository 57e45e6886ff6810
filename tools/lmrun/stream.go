package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file transfers tensor data between runs and files, pipes and rings.

// stream connects one tensor with a file, a pipe or a ring. A file is read once before the
// first run, or written once after the last run. Pipes, character devices and rings are live:
// each run reads or writes them.
type stream struct {
	args.Binding
	tensorIndex int           // index of the tensor in the image
	isOutput    bool          // false: the tensor is an input
	isLive      bool          // each run transfers the data
	data        []byte        // the bytes of the tensor
	fd          int           // file descriptor of the file or pipe; unused for a ring
	file        *files.Output // nil for inputs and rings
	ring        *ring         // nil if the stream is a file or a pipe
}

// ringPrefix stands before the path of a ring in -input and -output.
const ringPrefix = "ring:"

// bindTensors adds a stream for each of the given bindings, which are all of -input or all of
// -output. It is an error if a tensor does not have the given role, or if an input is bound
// twice. An output can be bound to several files.
func (f *frameLoop) bindTensors(view *fbs.View, bindings []args.Binding, role gen.Role) error {
	isInput, roleName := role == gen.RoleInput, "output"
	if isInput {
		roleName = "input"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return args.UsageError("-" + roleName + ": the image has no " + roleName + " " + b.Name)
		}
		if isInput && f.isBound(index) {
			return args.UsageError("-input " + b.Name + " is given twice")
		}
		f.streams = append(f.streams, stream{Binding: b, tensorIndex: index, isOutput: !isInput})
	}
	return nil
}

// isBound reports whether a stream exists for the tensor with the given index.
func (f *frameLoop) isBound(tensor int) bool {
	for i := range f.streams {
		if f.streams[i].tensorIndex == tensor {
			return true
		}
	}
	return false
}

// open opens the stream. For a pipe it waits until another process has opened the other end. For
// an output file it creates a temporary file. An input file is read completely and closed.
func (s *stream) open(r *runtime.Replay) (err error) {
	if s.isOutput {
		s.data = r.Output(s.tensorIndex)
	} else {
		// Input marks the tensor as filled. For a pipe or a ring, the mark must be set before
		// any data have arrived, since the sequence of -before runs first.
		s.data = r.Input(s.tensorIndex)
	}
	path := strings.TrimPrefix(s.Path, ringPrefix)
	switch {
	case path != s.Path:
		s.isLive = true
		s.ring = newRing(path, uint64(len(s.data)))
		return s.ring.open(s.isOutput)
	case s.isOutput:
		err = s.openOutput(path)
	default:
		err = s.openInput(path)
	}
	if err != nil || !s.isLive {
		return err
	}
	// Make the pipe non-blocking: transfer must wait for the other side itself, since it checks
	// for signals while it waits.
	return hal.FileFault(path, unix.SetNonblock(s.fd, true))
}

// openOutput opens a pipe for writing, or creates the temporary file that replaces path later.
func (s *stream) openOutput(path string) error {
	file, err := files.Replace(path, 0o644)
	if err != nil {
		return err
	}
	s.file = file
	s.Path, s.fd, s.isLive = file.Path, file.Fd, file.Stream
	return nil
}

// openInput opens a pipe for reading, or fills the tensor from the file at path.
func (s *stream) openInput(path string) (err error) {
	s.fd, s.isLive, err = files.OpenInput(path, 0)
	if err != nil || s.isLive {
		return err
	}
	defer unix.Close(s.fd)
	return s.readFile()
}

// readFile fills the tensor from the open file. It is an error if the file is not exactly as
// long as the tensor.
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
	streamSpins   = 100    // number of attempts without a pause between them
	streamPauseNs = 50_000 // pause between later attempts, in nanoseconds
)

// transfer reads or writes data until all bytes are transferred or the other side has closed.
// It returns the number of bytes transferred. A signal ends the wait for the other side. For an
// output this is an error, since the results of the run would be lost.
func (s *stream) transfer(data []byte) (n int, err error) {
	for spins, moved := 0, 0; n < len(data); spins++ {
		switch {
		case s.ring != nil:
			moved, err = s.ring.transfer(data)
		case s.isOutput:
			moved, err = hal.Write(s.fd, data[n:])
		default:
			moved, err = hal.Read(s.fd, data[n:])
		}
		mustWait := err == unix.EAGAIN
		switch {
		case moved > 0:
			n, spins = n+moved, 0
		case mustWait && stopping.Load() == 0:
			if spins > streamSpins {
				hal.SleepRaw(streamPauseNs)
			}
		case mustWait && s.isOutput:
			return n, hal.NewFault(hal.IO, s.Path+": the reader does not read the outputs")
		case mustWait || moved == 0:
			return n, nil
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receiveInputs reads the data of the next run from all live inputs. It reports whether the
// inputs have ended: by a signal, or because the other side has closed before it sent data of
// this run. A sealed process can allocate the error, since its heap still has free memory.
func (f *frameLoop) receiveInputs() (ended bool, err error) {
	defer f.recoverRingFault(&err)
	hasData := false // an earlier input in the list had data for this run
	for i := range f.streams {
		s := &f.streams[i]
		if s.isOutput || !s.isLive {
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
			const reason = ": ended in the middle of a run's data"
			return false, hal.NewFault(hal.BadTensor, s.Path+reason)
		}
		hasData = true
	}
	return false, nil
}

// sendOutputs writes the results of a run to pipes and rings, and then releases the input slots
// of the run. No ring advances before all results are written: if the process is killed while
// it waits for a reader, no ring has published a result of the run.
func (f *frameLoop) sendOutputs() (err error) {
	defer f.recoverRingFault(&err)
	if err = f.writeOutputs(true); err != nil {
		return err
	}
	// The list has inputs before outputs. Therefore, go backwards: an input slot must not be
	// released before the results are published.
	for i := len(f.streams) - 1; i >= 0; i-- {
		if ring := f.streams[i].ring; ring != nil {
			ring.advance()
		}
	}
	return nil
}

// writeOutputs writes the results of a run: to pipes, character devices and rings if toLive is
// true, and to files if toLive is false.
func (f *frameLoop) writeOutputs(toLive bool) error {
	for i := range f.streams {
		s := &f.streams[i]
		if !s.isOutput || s.isLive != toLive {
			continue
		}
		if _, err := s.transfer(s.data); err != nil {
			return err
		}
	}
	return nil
}

// finishOutputs writes the results of the last run to files, unless no run was completed. It
// then marks the output rings as closed, which ends their readers.
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
		if s := &f.streams[i]; s.isOutput && s.ring != nil {
			s.ring.markClosed()
		}
	}
	return nil
}
