package main

import (
	"fmt"
	"math/bits"

	"lightmetal/boards/hosts"
	"lightmetal/fbs"
	"lightmetal/tools/stop"
)

// room holds the BARs that an image needs against the board's ports, as far as
// those are known. Which of a bridge's windows a BAR goes through is not known
// here: any one will do.
func (r *request) room(path string, view *fbs.View) {
	for _, target := range view.Targets {
		known, found := false, false
		for i := range r.board.Ports {
			port := &r.board.Ports[i]
			known = known || port.Windows.Known()
			for _, prefetchable := range []bool{false, true} {
				bars := make([]hosts.BAR, len(target.Bars()))
				for j, size := range target.Bars() {
					if size != 0 {
						bars[j] = hosts.BAR{Size: 1 << bits.Len64(size-1), Prefetchable: prefetchable}
					}
				}
				found = found || port.Place(bars) != nil
			}
		}
		if known && !found {
			stop.On(fmt.Errorf("%s: %s has no port with room for the BARs of %s; lm check-board %s --image %s tells more", path, r.board.Title,
				view.Name(target.Board), r.board.Name, path))
		}
	}
}
