package main

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
)

// checkPortRoom fails if no PCIe port of the board has room for the BARs of a device that the image
// is for, as lm check-board reports.
func (r *request) checkPortRoom(path string, view *fbs.View) {
	for i := range view.Devices {
		t := &view.Devices[i]
		fit := r.board.FitDevice(boards.FindByID(t.Vendor, t.Device), *t.MinBarSizes())
		if fit.HasNoRoom() {
			fail.On(fmt.Errorf("%s: %s has no port with room for the BARs of %s; "+
				"lm check-board %s --image %s prints the windows",
				path, r.board.Title, view.Name(t.Board), r.board.Name, path))
		}
	}
}
