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
	"lightmetal/tools/boardfile"
	"lightmetal/tools/importer/traces"
	"lightmetal/tools/stop"
)

// openPlayback gives a device that expects what FILE[,BOARD] has, access by
// access, answers as it did, and refuses all else. The board says what is memory,
// where bytes count and not widths; a recording's own, where none is named, knows
// of none.
func openPlayback(spec string) *mock.Device {
	path, board, named := strings.Cut(spec, ",")
	data := readFile(path, dataMax)
	if len(data) > 8 && string(data[4:8]) == fbs.Identifier {
		if named {
			failUsage("playback:%s: an image has its own board", spec)
		}
		return playImage("playback:"+path, data)
	}
	var d device
	var stand *mock.Device
	failAt("playback:"+spec, stop.Try(func() { d = recordedBoard(data, board) }))
	failIf(hal.BadImage, "playback:"+spec, stop.Try(func() { stand = playRecord(data, d.Board) }))
	stand.Subsystem(d.subsystem)
	return stand
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
		failUsage("%s: the image is for %d devices; only one for a single device can be played", name,
			len(view.Devices))
	}
	board := view.Board(0)
	f := replayFlags{sequence: "main", loop: 1, longest: time.Hour}
	stand := &pollRecorder{mock.New(board), map[int]bool{}}
	stand.Subsystem(view.Devices[0].Subsystem)
	most := max(len(view.Envelope)+len(view.Payload), playedLeast) / playedPart
	s := f.prepareView(name, file, view, stand)
	defer s.close()
	stand.RecordAtMost(most)
	if r := s.run(false); r.Code != hal.OK && len(stand.Journal()) == most {
		stop.With(hal.BadImage, "%s: a run of main makes more than %d accesses, too many to keep; "+
			"use mock:%s", name, most, mockNameOf(view, name))
	} else if r.Code != hal.OK {
		stop.On(s.runError(r))
	}
	played := mock.PlaybackBytewise(board, stand.shortenedJournal())
	played.Subsystem(view.Devices[0].Subsystem)
	return played
}

// asked is a stand-in that notes which loads a poll makes again: it asks for the
// time before each, and nothing else in a run without a limit does.
type pollRecorder struct {
	*mock.Device
	repeated map[int]bool // by index in the journal
}

func (d *pollRecorder) Now() int64 {
	d.repeated[len(d.Journal())] = true
	return d.Device.Now()
}

// looked is the journal with waits shortened: a stand-in is asked every 100 ns, and
// a real program that pauses between would wait past its deadline to be asked as
// often. What no poll loads again stays, be it the same ever so often.
func (d *pollRecorder) shortenedJournal() (out []mock.Access) {
	const most = 16 // loads of one poll that give the same, one after the other
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

// recordedBoard is the board of a recording: the one that is named, or what the
// recording itself tells.
func recordedBoard(data []byte, name string) (d device) {
	if name != "" {
		return boardNamed(name, nil)
	}
	image, err := boardfile.FromRecord(bytes.NewReader(data), "")
	if known, ok := err.(*boardfile.Known); ok {
		return device{Board: known.Board}
	}
	stop.As(hal.BadImage, err)
	return device{Board: image.BoardOf(0)}
}

// playRecord plays a recording.
func playRecord(data []byte, board *boards.Board) *mock.Device {
	trace, list, err := traces.Read(bytes.NewReader(data),
		traces.Source{From: traces.FromRecord, Board: board})
	stop.On(err)
	if trace.Reached > 0 {
		stop.On(errors.New("the device reached host memory, which a playback has not: lm verify " +
			"the image, and replay it on the device"))
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
	return mock.PlaybackBytewise(board, stop.Must(mock.Translate(board, accesses)))
}
