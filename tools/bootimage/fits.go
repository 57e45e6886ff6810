package main

import (
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/boards/hosts"
	"lightmetal/tools/bootimage/initramfs"
	"lightmetal/tools/lmb"
)

// fits holds the images against the board and against the inputs that are
// packed with them.
func (r *request) fits(parts []initramfs.File) error {
	images := map[string]*lmb.Image{}
	for _, path := range r.images {
		guest := "/" + filepath.Base(path)
		image, err := lmb.Decode(parts[partOf(parts, guest)].Data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := r.room(path, image); err != nil {
			return err
		}
		images[guest] = image
	}
	var image *lmb.Image // that the line is about, nil: of a file system that is mounted
	config := parts[partOf(parts, "/"+configName)].Data
	for i, s := range settings(config) {
		if s.name == "image" {
			image = images[filepath.Join("/", s.value)]
		}
		if s.name != "input" || image == nil {
			continue
		}
		tensor, path, _ := strings.Cut(s.value, "=")
		at := partOf(parts, filepath.Join("/", path))
		of := slices.IndexFunc(image.Tensors, func(t lmb.Tensor) bool { return t.Name == tensor })
		if at >= 0 && of >= 0 && uint64(len(parts[at].Data)) != image.Tensors[of].Size() {
			return fmt.Errorf("%s:%d: %s has %d bytes, input %s takes %d", configName, i+1, path, len(parts[at].Data), tensor, image.Tensors[of].Size())
		}
	}
	return nil
}

func partOf(parts []initramfs.File, path string) int {
	return slices.IndexFunc(parts, func(f initramfs.File) bool { return f.Path == path })
}

// room holds the BARs that an image needs against the board's ports, as far as
// those are known. Which of a bridge's windows a BAR goes through is not known
// here: any one will do.
func (r *request) room(path string, image *lmb.Image) error {
	for _, target := range image.Targets {
		known, found := false, false
		for i := range r.board.Ports {
			port := &r.board.Ports[i]
			known = known || port.Windows.Known()
			for _, prefetchable := range []bool{false, true} {
				bars := make([]hosts.BAR, len(target.Bars))
				for j, size := range target.Bars {
					if size != 0 {
						bars[j] = hosts.BAR{Size: 1 << bits.Len64(size-1), Wide: prefetchable, Prefetchable: prefetchable}
					}
				}
				found = found || port.Place(bars) != nil
			}
		}
		if known && !found {
			return fmt.Errorf("%s: %s has no port with room for the BARs of %s; lm check-board %s --image %s tells more", path, r.board.Title, target.Board,
				r.board.Name, path)
		}
	}
	return nil
}
