package main

import (
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/together"
)

const togetherHelp = `With --together it takes several images, which are run in turn on one device,
and tells whether running one can break another: whether a command of one stores
to what a later sequence of another relies on. Then it names the two commands and
the place, and exits with 76. A sequence relies on what those before it in the
file, and its own earlier runs, stored, but for what it stores anew before its
first wait (a poll or a delay); and on what it loads without having stored to it.
The first sequence, and init, begin anew. A tile of which an image leaves nothing
but the register that holds its cores in reset is not relied on. Places are bytes of a tile's memory or
registers (tiles of one DRAM bank are one, multicasts go to each Tensix tile) and
of BARs; devices with the same ids are taken for one. Windows and host memory
belong to each run and are shared by none.

This holds for what the images do. It does not see what programs on the device
and DMA store, what a store does beyond its register (doorbells that count, a
reset of the whole device), or what an image takes as reset left it.`

// tellTogether tells of collisions, which are an error of their own.
func (v *verification) tellTogether(paths []string, images []together.Image, warnings []string) error {
	collisions, code := together.Check(images), hal.OK
	if len(collisions) > 0 {
		code = hal.ExpectFailed
	}
	switch {
	case v.asJSON:
		printJSON(stdout, map[string]any{"exit": code.Exit(), "code": code.Error(), "images": paths, "collisions": collisions, "warnings": warnings})
	case code == hal.OK:
		fmt.Fprintf(stdout, "%d images, whole and valid: none stores to what a later sequence of another relies on\n", len(images))
	default:
		fmt.Fprintln(stdout, "running one can break another:")
		for i := range collisions {
			fmt.Fprintf(stdout, "  %s\n", &collisions[i])
		}
	}
	if code != hal.OK {
		return reported{code}
	}
	return nil
}

// strangers names images that no other shares a device with: what is asked says
// nothing of them.
func strangers(images []together.Image) (list []string) {
	for i := range images {
		share := func(other together.Image) bool { return shareDevice(images[i].View, other.View) }
		if !slices.ContainsFunc(images[:i], share) && !slices.ContainsFunc(images[i+1:], share) {
			list = append(list, images[i].Name+": shares no device with the others")
		}
	}
	return list
}

func shareDevice(a, b *fbs.View) bool {
	return slices.ContainsFunc(a.Targets, func(t fbs.Identity) bool {
		return slices.ContainsFunc(b.Targets, func(o fbs.Identity) bool { return o.Vendor == t.Vendor && o.Device == t.Device })
	})
}
