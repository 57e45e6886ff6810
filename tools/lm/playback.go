package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/fail"
)

// openPlayback returns a device that expects the accesses of FILE[,BOARD] in order, answers as
// recorded, and rejects all others. In memory, the device compares bytes and ignores the widths of
// accesses. The board determines what is memory; the board that a recording itself describes has no
// memory.
func openPlayback(spec string) *mock.Device {
	path, board, named := strings.Cut(spec, ",")
	in, size, closeInput := openSeekable(path)
	defer closeInput()
	head := make([]byte, 9)
	n, _ := io.ReadFull(in, head)
	fail.Must(in.Seek(0, io.SeekStart))
	if isImage(head[:n]) {
		if named {
			failUsage("playback:%s: an image has its own board; leave out the board's name", spec)
		}
		return playImage("playback:"+path, fail.Must(io.ReadAll(in)))
	}
	var d namedBoard
	var player *mock.Device
	failAtPath("playback:"+spec, fail.Try(func() { d = recordedBoard(in, board) }))
	fail.Must(in.Seek(0, io.SeekStart))
	failIf(hal.BadImage, "playback:"+spec,
		fail.Try(func() { player = playRecord(in, size, d.Board) }))
	player.SetSubsystem(d.subsystem)
	return player
}

// openSeekable opens a file, or reads it into memory if it can be read only once.
func openSeekable(path string) (in io.ReadSeeker, size int, closeInput func()) {
	status, err := os.Stat(inputPath(path))
	if err == nil && status.Mode().IsRegular() {
		file := openFile(path)
		return file, int(status.Size()), func() { file.Close() }
	}
	data := readFile(path, dataMax)
	return bytes.NewReader(data), len(data), func() {}
}

// A playback of an image stores at most one access for every bytesPerPlayedAccess bytes of the
// image, so that memory is in proportion to the file: one small command may make millions of
// accesses. For a small image, the limit is 2^18 accesses, which copy 2 MiB with a width of 8
// bytes.
const (
	bytesPerPlayedAccess = 4
	playedBytesMin       = bytesPerPlayedAccess << 18
)

// playImage runs the sequence main of an image on a mock of its board, and returns a device that
// expects the accesses of that run. name is for messages.
func playImage(name string, image []byte) *mock.Device {
	file := openImageData(name, image)
	view := verifyFile(name, file)
	if len(view.Devices) != 1 {
		failUsage("%s: the image is for %d devices; playback needs an image for one device", name,
			len(view.Devices))
	}
	board := view.Board(0)
	f := replayFlags{sequence: "main", loop: 1, longest: time.Hour,
		window: runtime.AnyTLBWindow}
	recorder := mock.New(board)
	recorder.SetSubsystem(view.Devices[0].Subsystem)
	most := max(len(view.Envelope)+len(view.Payload), playedBytesMin) / bytesPerPlayedAccess
	s := f.prepareView(name, file, view, recorder)
	defer s.close()
	recorder.RecordAtMost(most)
	var polls []pollRange
	s.replay.SetObserver(func(command int) {
		polls = addToPolls(polls, &view.Commands[command], len(recorder.Journal()))
	})
	if r := s.run(false); r.Code != hal.OK && len(recorder.Journal()) == most {
		fail.With(hal.BadImage, "%s: a run of main makes more than %d accesses, "+
			"which is too many to record; use mock:%s", name, most, mockNameOf(view, name))
	} else if r.Code != hal.OK {
		fail.On(s.runError(r))
	}
	played := mock.PlaybackBytewise(board, shortenPolls(recorder.Journal(), polls))
	played.SetSubsystem(view.Devices[0].Subsystem)
	return played
}

// pollRange is a range of a journal, the loads of one poll. The last one has no end while it runs.
type pollRange struct{ first, end int }

// addToPolls is for a command that begins when the journal has `journaled` accesses.
func addToPolls(polls []pollRange, c *fbs.Command, journaled int) []pollRange {
	if last := len(polls) - 1; last >= 0 && polls[last].end == 0 {
		polls[last].end = journaled
	}
	if c.Opcode == gen.OpcodeExpect && c.Amount != 0 {
		polls = append(polls, pollRange{first: journaled})
	}
	return polls
}

// shortenPolls leaves 16 of equal loads in a row of one poll. A mock is polled every 100 ns, and a
// real program that pauses between loads would pass its deadline before it made as many loads. The
// result overwrites the journal, which may be large.
func shortenPolls(journal []mock.Access, polls []pollRange) (out []mock.Access) {
	const most = 16
	out = journal[:0]
	same, last := 0, mock.Access{}
	for i, a := range journal {
		for len(polls) > 0 && polls[0].end != 0 && i >= polls[0].end {
			polls = polls[1:]
		}
		if same++; len(polls) == 0 || i <= polls[0].first || a != last {
			same = 1
		}
		if same <= most {
			out = append(out, a)
		}
		last = a
	}
	return out
}

// recordedBoard returns the board with this name or, if name is empty, the board that the recording
// describes.
func recordedBoard(in io.Reader, name string) (d namedBoard) {
	if name != "" {
		return boardNamed(name, nil)
	}
	image, err := boardfile.FromRecord(in, "")
	if known, ok := err.(*boardfile.Known); ok {
		return namedBoard{Board: known.Board}
	}
	fail.As(hal.BadImage, err)
	return namedBoard{Board: image.BoardOf(0)}
}

// playRecord returns a device that plays a recording of size bytes.
func playRecord(in io.Reader, size int, board *boards.Board) *mock.Device {
	// The accesses have no pointers: collecting garbage often costs little.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	const large = 16 << 20 // bytes of a recording whose reading takes long enough to show progress
	bar := newProgressBar("playback: bytes", size, large)
	translator, player := mock.NewTranslatedPlayback(board)
	var rejected error
	trace, err := traces.Each(in, traces.Source{From: traces.FromRecord,
		Board: board, Progress: func(read int64) { bar(int(read)) }}, func(a *traces.Access) {
		if rejected == nil && a.Op != traces.OpMark {
			rejected = translator.Add(mockAccess(a))
		}
	})
	fail.On(err)
	if trace.HostAccesses > 0 {
		fail.On(errors.New("the device accessed host memory, which a playback does not have; " +
			"replay the image on the device or on a mock"))
	}
	fail.On(rejected)
	return player
}

func mockAccess(a *traces.Access) mock.Access {
	op := mock.Load
	if a.Op == traces.OpStore {
		op = mock.Store
	}
	return mock.Access{Op: op, Place: mock.Place{Bar: a.Bar, Address: a.Offset}, Width: a.Width,
		Value: a.Value}
}
