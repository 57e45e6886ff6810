package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

func init() {
	steps["pages-by-rings"] = step{"DEVICE IMAGE FILE [SEQUENCE BLOCKS TO FROM RESULT]",
		pagesByRings}
}

const (
	firstPageBlock = 320 // on the disk: the images of other scenarios write before it
	pageBlocks     = 8
)

// pagesByRings sends the pages of a file through an image of nvme-rings.lms, or through the named
// sequence, inputs and output of another one: each run writes the next page to the disk, reads it
// back and returns it.
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
	names := args[3:]
	flags := []string{"-device", args[0], "-seal", "-loop", "forever", "-before", "init"}
	if len(names) == 0 {
		names = []string{"turn", "blocks", "to", "from", "result"}
		flags = append(flags, "-after", "stop")
	}
	flags = append(flags, "-sequence", names[0], "-output", names[4]+"=ring:/tmp/pages")
	for name, slots := range map[string][][]byte{names[1]: pages, names[2]: places,
		names[3]: places} {
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
