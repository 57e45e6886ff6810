package main

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/fail"
)

// openPlayback returns a device that expects the accesses of FILE[,BOARD] in order, answers
// as recorded, and rejects all others. The board says what is memory, for which bytes are
// compared and not widths; the board that a recording itself describes has no memory.
func openPlayback(spec string) *mock.Device {
	path, board, named := strings.Cut(spec, ",")
	data := readFile(path, dataMax)
	if len(data) > 8 && string(data[4:8]) == fbs.FileIdentifier {
		if named {
			failUsage("playback:%s: an image has its own board; leave out the board's name", spec)
		}
		return playImage("playback:"+path, data)
	}
	var d device
	var player *mock.Device
	failAt("playback:"+spec, fail.Try(func() { d = recordedBoard(data, board) }))
	failIf(hal.BadImage, "playback:"+spec, fail.Try(func() { player = playRecord(data, d.Board) }))
	player.SetSubsystem(d.subsystem)
	return player
}

// A playback of an image keeps at most a fourth as many accesses as the image has bytes, so that
// memory is in proportion to the file: a command may be small and make millions. Small images may
// have 2^18, 2 MiB of copies in accesses of 8 bytes.
const (
	playedPart  = 4
	playedLeast = playedPart << 18
)

// playImage returns a device that expects what a run of an image's main does to the
// mock of its board. The name is for messages.
func playImage(name string, image []byte) *mock.Device {
	file := openImageData(name, image)
	view := verifyFile(name, file)
	if len(view.Devices) != 1 {
		failUsage("%s: the image is for %d devices; playback needs an image for one", name,
			len(view.Devices))
	}
	board := view.Board(0)
	f := replayFlags{sequence: "main", loop: 1, longest: time.Hour}
	recorder := &pollRecorder{mock.New(board), map[int]bool{}}
	recorder.SetSubsystem(view.Devices[0].Subsystem)
	most := max(len(view.Envelope)+len(view.Payload), playedLeast) / playedPart
	s := f.prepareView(name, file, view, recorder)
	defer s.close()
	recorder.RecordAtMost(most)
	if r := s.run(false); r.Code != hal.OK && len(recorder.Journal()) == most {
		fail.With(hal.BadImage, "%s: a run of main makes more than %d accesses, which is too "+
			"many to "+
			"record; use mock:%s", name, most, mockNameOf(view, name))
	} else if r.Code != hal.OK {
		fail.On(s.runError(r))
	}
	played := mock.PlaybackBytewise(board, recorder.shortenedJournal())
	played.SetSubsystem(view.Devices[0].Subsystem)
	return played
}

// pollRecorder is a mock that notes which loads a poll repeats: a poll calls Now before
// each, and nothing else does in a run without a limit.
type pollRecorder struct {
	*mock.Device
	repeated map[int]bool // by index in the journal
}

func (d *pollRecorder) Now() int64 {
	d.repeated[len(d.Journal())] = true
	return d.Device.Now()
}

// shortenedJournal returns the journal with long polls shortened: a mock is polled every
// 100 ns, and a real program that pauses between loads would pass its deadline before it
// made as many. Equal loads that no poll repeats all stay.
func (d *pollRecorder) shortenedJournal() (out []mock.Access) {
	const most = 16 // consecutive loads of one poll with the same value
	same, accesses := 0, d.Journal()
	for i, a := range accesses {
		if same++; i == 0 || !d.repeated[i] || a != accesses[i-1] {
			same = 1
		}
		if same <= most {
			out = append(out, a)
		}
	}
	return out
}

// recordedBoard returns the board of a recording: the one that is named, or the one that
// the recording itself describes.
func recordedBoard(data []byte, name string) (d device) {
	if name != "" {
		return boardNamed(name, nil)
	}
	image, err := boardfile.FromRecord(bytes.NewReader(data), "")
	if known, ok := err.(*boardfile.Known); ok {
		return device{Board: known.Board}
	}
	fail.As(hal.BadImage, err)
	return device{Board: image.BoardOf(0)}
}

// playRecord returns a device that plays a recording.
func playRecord(data []byte, board *boards.Board) *mock.Device {
	trace, list, err := traces.Read(bytes.NewReader(data),
		traces.Source{From: traces.FromRecord, Board: board})
	fail.On(err)
	if trace.Reached > 0 {
		fail.On(errors.New("the device accessed host memory, which a playback does not have; " +
			"replay the image on the device or on a mock"))
	}
	var accesses []mock.Access
	for _, a := range list {
		if a.Op == traces.OpMark {
			continue
		}
		op := mock.Load
		if a.Op == traces.OpStore {
			op = mock.Store
		}
		accesses = append(accesses, mock.Access{Op: op,
			Place: mock.Place{Bar: a.Bar, Address: a.Offset}, Width: a.Width, Value: a.Value})
	}
	return mock.PlaybackBytewise(board, fail.Must(mock.Translate(board, accesses)))
}
