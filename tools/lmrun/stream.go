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

// tensorStream connects one tensor with a file, a pipe or a ring. lmrun reads an input file once,
// before the first run, and writes an output file once, after the last run. Pipes, sockets,
// character devices and rings are per-run streams.
type tensorStream struct {
	args.Binding
	tensorIndex int
	isOutput    bool
	isPerRun    bool
	data        []byte        // from Replay.Input or Replay.Output
	fd          int           // not used for a ring
	outputFile  *files.Output // also a pipe; nil for inputs and rings
	ring        *ring         // nil for files and pipes
}

const ringPrefix = "ring:" // before the path, in the value of -input or -output

// bindTensors appends a stream for each binding. An input can be bound once, an output several
// times.
func (f *runLoop) bindTensors(view *fbs.View, bindings []args.Binding, role gen.Role) error {
	isInput, roleName := role == gen.RoleInput, "output"
	if isInput {
		roleName = "input"
	}
	for _, b := range bindings {
		index := view.TensorByName(b.Name)
		if index < 0 || view.Tensors[index].Role != role {
			return args.UsageError("-" + roleName + ": the image has no " + roleName + " " +
				b.Name + "; `lm info` lists the names")
		}
		if isInput && f.hasStream(index) {
			return args.UsageError("-input " + b.Name + " is given twice")
		}
		f.streams = append(f.streams, tensorStream{Binding: b, tensorIndex: index,
			isOutput: !isInput})
	}
	return nil
}

func (f *runLoop) hasStream(tensor int) bool {
	for i := range f.streams {
		if f.streams[i].tensorIndex == tensor {
			return true
		}
	}
	return false
}

// openFiles opens the inputs and outputs, and last the watchdog, whose timeout starts then. It must
// precede runtime.Seal, which forbids opening files, and the first run, so that a bad path is
// reported before anything is stored to a device.
func (f *runLoop) openFiles() (err error) {
	defer f.recoverPanic(&err)
	for i := range f.streams {
		s := &f.streams[i]
		err = s.openOrReadFile(f.replay)
		if s.outputFile != nil {
			f.outputFiles = append(f.outputFiles, s.outputFile)
		}
		if err != nil {
			return err
		}
	}
	return f.watchdog.start()
}

// openOrReadFile opens the stream, and waits until another process has opened the other end of a
// pipe. It reads an input file completely, and creates the temporary file of an output file.
func (s *tensorStream) openOrReadFile(r *runtime.Replay) (err error) {
	if s.isOutput {
		s.data = r.Output(s.tensorIndex)
	} else {
		// Replay.Input also marks the tensor as one with data: without this, the sequence of
		// -before would fail, since pipes and rings are read only after it.
		s.data = r.Input(s.tensorIndex)
	}
	path := strings.TrimPrefix(s.Path, ringPrefix)
	if path != s.Path {
		s.isPerRun = true
		s.ring = &ring{path: path, dataBytes: uint64(len(s.data))}
		return s.ring.open(s.isOutput)
	}
	if s.isOutput {
		err = s.openOutput(path)
	} else {
		err = s.openInput(path)
	}
	if err != nil || !s.isPerRun {
		return err
	}
	// Reads and writes return at once: transfer looks for a signal while it waits.
	return hal.FileFault(path, unix.SetNonblock(s.fd, true))
}

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

func (s *tensorStream) openInput(path string) (err error) {
	s.fd, s.isPerRun, err = files.OpenInput(path, 0)
	if err != nil || s.isPerRun {
		return err
	}
	defer unix.Close(s.fd)
	return s.readFile()
}

// readFile returns an error if the file has fewer or more bytes than the tensor.
func (s *tensorStream) readFile() error {
	n, err := s.transfer(s.data)
	extra := 0
	if err == nil {
		extra, err = s.transfer(make([]byte, 1))
	}
	if err != nil || n+extra == len(s.data) {
		return err
	}
	comparison, remedy := [...]string{"fewer", "more"}[extra], ""
	if strings.HasPrefix(hal.TextOf(s.data[:n]), "\x93NUMPY") {
		remedy = "; it is a file of NumPy: `lm tensor FILE.npy FILE.bin` makes raw data of it"
	}
	return hal.NewFault(hal.BadTensor, s.Path+" has "+comparison+
		fbs.Text(" than the %d bytes of input ", uint64(len(s.data)))+s.Name+remedy)
}

const (
	spinsBeforePause = 100    // attempts before the first pause
	streamPauseNs    = 50_000 // after each further attempt
)

// transfer reads an input or writes an output. An input ends early, without an error, if the other
// end is closed. After a signal, transfer does not wait: for an output that is an error, because
// the results of the run are lost.
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
				"not read; the outputs of the last run are lost; end lmrun before the reader")
		case mustWait || moved == 0:
			return n, nil
		case err != unix.EINTR:
			return n, hal.FileFault(s.Path, err)
		}
	}
	return n, nil
}

// receiveInputs reads the data of the next run from all per-run inputs. The inputs have ended if
// the other process has closed a stream between two runs, or a signal arrived during the wait. A
// stream that ends inside a run's data is an error, whose small allocation fits into Go's free
// memory.
func (f *runLoop) receiveInputs() (ended bool, err error) {
	defer f.recoverPanic(&err)
	hasData := false // of an earlier input for this run
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

// finishRun writes the results to all per-run outputs, and then hands over the slots of all rings.
// If it is killed before that, a restarted lmrun finds the same inputs in the rings, and repeats
// the run. Inputs from pipes are lost.
func (f *runLoop) finishRun() (err error) {
	defer f.recoverPanic(&err)
	if err = f.writeOutputs(true); err != nil {
		return err
	}
	// Backwards, so that results can be read before input slots are free: inputs precede outputs.
	for i := len(f.streams) - 1; i >= 0; i-- {
		if ring := f.streams[i].ring; ring != nil {
			ring.handOverSlot()
		}
	}
	return nil
}

// writeOutputs writes the results of the latest run to all per-run outputs, or to all output files.
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

// commitOutputs writes and commits the output files if a run was completed, and closes the rings.
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
