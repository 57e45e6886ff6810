package main

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
)

// checkRoom fails if no port of the host has room for the BARs of a device that the
// image is for, as lm check-board would say.
func (r *request) checkRoom(path string, view *fbs.View) {
	for i := range view.Devices {
		t := &view.Devices[i]
		fit := r.board.Fit(boards.FindByID(t.Vendor, t.Device), *t.MinBarSizes())
		if fit.NoRoom() {
			fail.On(fmt.Errorf("%s: %s has no port with room for the BARs of %s; "+
				"lm check-board %s --image %s prints the windows",
				path, r.board.Title, view.Name(t.Board), r.board.Name, path))
		}
	}
}
