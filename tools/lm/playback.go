package main

import (
	"time"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// openPlayback gives a device that expects what a run of an image's main does
// to its board's stand-in, access by access, and answers as that did.
func openPlayback(path string) (*mock.Device, error) {
	_, view, err := verified(path)
	if err != nil {
		return nil, err
	}
	board := chips.ByName(view.Name(view.Targets[0].Board))
	if board == nil || len(view.Targets) != 1 {
		return nil, usage("playback:%s: it takes an image for one device, which is one of %s", path, boardNames())
	}
	f := replayFlags{devices: []string{"mock:" + board.Name}, sequence: "main", loop: 1, longest: time.Hour}
	s, err := f.load(path)
	if err != nil {
		return nil, err
	}
	defer s.close()
	stand := s.devices[0].(*mock.Device)
	stand.Record(true)
	if r := s.run(); r.Code != hal.OK {
		return nil, s.failed(r)
	}
	return mock.PlaybackBytewise(board, stand.Journal()), nil
}
