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

// This file copies the data of tensors from and to files, pipes and rings.

// tensorStream connects one tensor with a file, a pipe or a ring. lmrun reads an input file once,
// before the first run, and writes an output file once, after the last run. All other streams are
// per-run streams: lmrun reads or writes a pipe, socket, character device or ring in each run.
type tensorStream struct {
	args.Binding
	tensorIndex int           // index of the tensor in the image
	isOutput    bool          // true: the tensor is an output; false: it is an input
	isPerRun    bool          // true: the data are transferred in each run
	data        []byte        // bytes of the tensor, from Replay.Input or Replay.Output
	fd          int           // file descriptor of the file or pipe; not used for a ring
	outputFile  *files.Output // the output file or pipe; nil for inputs and rings
	ring        *ring         // the ring; nil for files and pipes
}

// ringPrefix is the text before the path of a ring, in the value of -input or -output.
const ringPrefix = "ring:"

// bindTensors appends a stream to f.streams for each of the given bindings. The parameter `role` is
// input for the bindings of -input, and output for those of -output. bindTensors returns an error
// if the image has no tensor with this role and the name in a binding, or if two bindings name the
// same input. Several bindings can name the same output.
func (f *runLoop) bindTensors(view *fbs.View, bindings []args.Binding, role gen.Role) error {
	isInput, roleName := role == gen.RoleInput, "output"
	if isInput {
		roleName = "input"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return args.UsageError("-" + roleName + ": the image has no " + roleName + " " + b.Name)
		}
		if isInput && f.hasStream(index) {
			return args.UsageError("-input " + b.Name + " is given twice")
		}
		f.streams = append(f.streams, tensorStream{Binding: b, tensorIndex: index,
			isOutput: !isInput})
	}
	return nil
}

// hasStream reports whether f.streams contains a stream for the tensor with this index in the
// image.
func (f *runLoop) hasStream(tensor int) bool {
	for i := range f.streams {
		if f.streams[i].tensorIndex == tensor {
			return true
		}
	}
	return false
}

// openOrReadFile opens the file, pipe or ring of the stream. For a pipe, openOrReadFile waits until
// another process has opened the other end of the pipe. An input file is different: openOrReadFile
// reads the complete file and closes it. For an output file, it creates a temporary file.
func (s *tensorStream) openOrReadFile(r *runtime.Replay) (err error) {
	if s.isOutput {
		s.data = r.Output(s.tensorIndex)
	} else {
		// Replay.Input also marks the tensor as one with data. Without this mark, the sequence that
		// -before names would fail if the image has no default data for the tensor: lmrun reads
		// data from a pipe or a ring only after this sequence.
		s.data = r.Input(s.tensorIndex)
	}
	path := strings.TrimPrefix(s.Path, ringPrefix)
	if path != s.Path {
		s.isPerRun = true
		s.ring = newRing(path, uint64(len(s.data)))
		return s.ring.open(s.isOutput)
	}
	setAlarm(alarmIntervalUs)
	if s.isOutput {
		err = s.openOutput(path)
	} else {
		err = s.openInput(path)
	}
	setAlarm(0)
	if err != nil || !s.isPerRun {
		return err
	}
	// Make the pipe non-blocking, so that a read or write returns at once. While
	// tensorStream.transfer waits for the other end of the pipe, it repeatedly checks whether a
	// signal has arrived.
	return hal.FileFault(path, unix.SetNonblock(s.fd, true))
}

// openOutput opens the pipe or device at path for writing. If path is a regular file or does not
// exist, openOutput creates a temporary file, which becomes the file at path after the last run.
func (s *tensorStream) openOutput(path string) error {
	file, err := files.OpenToReplace(path, 0o644)
	if err != nil {
		return err
	}
	file.RemoveLeftovers()
	s.outputFile = file
	s.Path, s.fd, s.isPerRun = file.Path, file.Fd, file.IsStream
	return nil
}

// openInput opens the pipe or device at path for reading. If path is a regular file, openInput
// copies the data of the file into the tensor and closes the file.
func (s *tensorStream) openInput(path string) (err error) {
	s.fd, s.isPerRun, err = files.OpenInput(path, 0)
	if err != nil || s.isPerRun {
		return err
	}
	defer unix.Close(s.fd)
	return s.readFile()
}

// readFile copies the data of the open file into the tensor. It returns an error if the file has
// fewer or more bytes than the tensor.
func (s *tensorStream) readFile() error {
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
	spinsBeforePause = 100    // attempts to read or write before the first pause
	streamPauseNs    = 50_000 // pause after each further attempt, in nanoseconds
)

// transfer reads data from the stream if the tensor is an input, and writes data to the stream if
// the tensor is an output. It returns when all bytes are transferred, or when the process at the
// other end has closed the stream. The result n is the number of transferred bytes.
//
// If a signal sets stopRequested while transfer waits for the other process, transfer returns
// early. For an output it then returns an error, because the results of the run are lost.
func (s *tensorStream) transfer(data []byte) (n int, err error) {
	for spins, moved := 0, 0; n < len(data); spins++ {
		switch {
		case s.ring != nil:
			moved, err = s.ring.moveSlot(data)
		case s.isOutput:
			moved, err = hal.Write(s.fd, data[n:])
		default:
			moved, err = hal.Read(s.fd, data[n:])
		}
		mustWait := err == unix.EAGAIN
		switch {
		case moved > 0:
			n, spins = n+moved, 0
		case mustWait && stopRequested.Load() == 0:
			if spins > spinsBeforePause {
				hal.SleepRaw(streamPauseNs)
			}
		case mustWait && s.isOutput:
			return n, hal.JoinFault(hal.IO, s.Path, ": a signal arrived while the other end did "+
				"not read; the outputs of the last run are lost")
		case mustWait || moved == 0:
			return n, nil
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receiveInputs reads the data of the next run from all per-run inputs. It returns true if no
// further run is possible: the other process has closed a stream after the data of the previous
// run, or a signal arrived while receiveInputs waited for data. If the other process has closed a
// stream in the middle of the data of a run, receiveInputs returns an error. The small allocation
// for this error is allowed in a sealed process, because it fits into the free memory of Go's heap.
func (f *runLoop) receiveInputs() (ended bool, err error) {
	defer f.recoverPanic(&err)
	hasData := false // true: an earlier input in f.streams had data for this run
	for i := range f.streams {
		s := &f.streams[i]
		if s.isOutput || !s.isPerRun {
			continue
		}
		got, err := s.transfer(s.data)
		isShort := got < len(s.data)
		closedBetweenRuns := got == 0 && !hasData
		switch {
		case err != nil:
			return false, err
		case isShort && (stopRequested.Load() != 0 || closedBetweenRuns):
			return true, nil
		case isShort:
			const reason = ": ended in the middle of a run's data"
			return false, hal.JoinFault(hal.BadTensor, s.Path, reason)
		}
		hasData = true
	}
	return false, nil
}

// finishRun writes the results of a run to all per-run outputs. When all results
// are written, it publishes them in the output rings and releases the slots of the input rings. If
// the process is killed before that, a restarted lmrun finds the same inputs in the input rings and
// repeats the run.
func (f *runLoop) finishRun() (err error) {
	defer f.recoverPanic(&err)
	if err = f.writeOutputs(true); err != nil {
		return err
	}
	// Publish the results before releasing the input slots. The inputs precede the outputs in
	// f.streams. Therefore iterate backwards.
	for i := len(f.streams) - 1; i >= 0; i-- {
		if ring := f.streams[i].ring; ring != nil {
			ring.handOverSlot()
		}
	}
	return nil
}

// writeOutputs writes the results of the latest run to all per-run outputs if toPerRunStreams is
// true, and otherwise to all output files.
func (f *runLoop) writeOutputs(toPerRunStreams bool) error {
	for i := range f.streams {
		s := &f.streams[i]
		if !s.isOutput || s.isPerRun != toPerRunStreams {
			continue
		}
		if _, err := s.transfer(s.data); err != nil {
			return err
		}
	}
	return nil
}

// commitOutputs writes the results of the last run to the output files and commits the files. If
// completedRuns is 0, there are no results to write. At the end, commitOutputs marks the output
// rings as closed, so that their readers notice the end of the data.
func (f *runLoop) commitOutputs(completedRuns uint64) (err error) {
	defer f.recoverPanic(&err)
	if completedRuns > 0 {
		if err = f.writeOutputs(false); err == nil {
			err = f.outputFiles.Commit()
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
