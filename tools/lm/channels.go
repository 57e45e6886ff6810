package main

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// channelWarnings warns of points with a static virtual channel that Tenstorrent's driver cannot
// select. The driver can select channel 0, and only on a device that has the register field
// UseStaticVC. Only the backend tt programs TLB windows through the driver. channelWarnings returns
// at most one warning for each device.
func channelWarnings(view *fbs.View) (list []string) {
	for device := range view.Devices {
		layout := view.Board(device).TLB
		if layout == nil {
			continue
		}
		first, count := 0, 0
		for i := range view.Commands {
			c := &view.Commands[i]
			if c.Opcode != gen.OpcodePoint || int(view.Windows[c.Window].Device) != device {
				continue
			}
			tiles, _ := boards.UnpackTileRoute(c.Mask)
			if tiles.StaticVCPlusOne <= layout.FieldBits[boards.FieldUseStaticVC] {
				continue
			}
			if count == 0 {
				first = i
			}
			count++
		}
		if count > 0 {
			list = append(list, fmt.Sprintf("device %d: the backend tt rejects the image, "+
				"because tt-kmd cannot select the static virtual channel (vc) of %s; "+
				"the first is %s",
				device, english.Count(count, "point command"), lmb.PlaceText(view, first)))
		}
	}
	return list
}
