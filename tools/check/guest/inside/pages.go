package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

func init() { steps["pages-by-rings"] = step{"DEVICE IMAGE FILE", pagesByRings} }

const (
	firstPageBlock = 320 // on the disk: the images of other scenarios write before it
	pageBlocks     = 8
)

// pagesByRings sends the pages of a file through an image of nvme-rings.lms: each run writes the
// next page to the disk, reads it back and returns it.
func pagesByRings(_ *guest, args []string) error {
	data, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	const size = pageBlocks * 512
	pages := slices.Collect(slices.Chunk(data, size))
	var places [][]byte
	for i := range pages {
		places = append(places,
			binary.LittleEndian.AppendUint32(nil, uint32(firstPageBlock+i*pageBlocks)))
	}
	flags := []string{"-device", args[0], "-seal", "-loop", "forever", "-before", "init",
		"-sequence", "turn", "-after", "stop", "-output", "result=ring:/tmp/pages"}
	for name, slots := range map[string][][]byte{"blocks": pages, "to": places, "from": places} {
		if err := writeFullRing("/tmp/"+name, slots); err != nil {
			return err
		}
		flags = append(flags, "-input", name+"=ring:/tmp/"+name)
	}
	if err := os.WriteFile("/tmp/pages", makeRing(size, len(pages)).mem, 0o600); err != nil {
		return err
	}
	output, exit := run("/lmrun", append(flags, args[1])...)
	if err := checkEnd("0", fmt.Sprintf("%d times", len(pages)), output, exit); err != nil {
		return err
	}
	got, err := os.ReadFile("/tmp/pages")
	if err == nil && !bytes.Equal(got[ringFirst:], data) {
		err = fmt.Errorf("other pages came back than were sent")
	}
	return err
}
