package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/together"
	"lightmetal/tools/ship/bootimage/initramfs"
)

// checkConfiguration checks the configuration with the board and the packed files. It fails if an
// image stores to a place whose content a later sequence of another image relies on, unless the
// configuration contains `collisions allowed`.
func (r *request) checkConfiguration(parts []initramfs.File) {
	p := plan{packedFiles: parts, views: map[string]*fbs.View{}}
	for i, s := range parseSettings(parts[len(parts)-1].Data) {
		if err := fail.Try(func() { p.applySetting(s.name, s.value) }); err != nil {
			fail.On(fmt.Errorf("%s:%d: %w", configName, i+1, err))
		}
	}
	for _, path := range r.images {
		r.checkPortRoom(path, p.views["/"+filepath.Base(path)])
	}
	steps := p.steps()
	if p.restarts {
		steps = append(steps, steps...)
	}
	if list := together.InOrder(steps); len(list) > 0 && !p.collisionsAllowed {
		fail.On(fmt.Errorf("%s: one image can break another; to allow such images, "+
			"write `collisions allowed` before the first image\n%s", configName, &list[0]))
	}
	r.warnings = p.warnings
	if len(p.images) > 1 {
		r.notPacked = p.notPacked
	}
}

// plan lists the images that a configuration runs one after the other.
type plan struct {
	packedFiles       []initramfs.File
	views             map[string]*fbs.View // packed images by path
	images            []plannedImage
	warnings          []string
	notPacked         []string // paths of images that are not packed
	collisionsAllowed bool
	restarts          bool
}

// plannedImage is an image with its settings in the configuration.
type plannedImage struct {
	path    string
	values  map[string]string
	devices []string
}

func (p *plan) applySetting(name, value string) {
	switch name {
	case "collisions":
		if p.collisionsAllowed = value == "allowed"; !p.collisionsAllowed {
			fail.On(fmt.Errorf("write `collisions allowed`, not `collisions %s`", value))
		}
	case "on-success", "on-failure":
		hasSteps := strings.HasPrefix(value, "restart") || strings.Contains(value, ",")
		p.restarts = p.restarts || hasSteps
	case "image":
		path := filepath.Join("/", value)
		p.images = append(p.images, plannedImage{path: path,
			values: map[string]string{"sequence": "main"}})
		p.verifyPacked(path)
	case "device":
		last := &p.images[len(p.images)-1]
		last.devices = append(last.devices, value)
	case "input":
		tensor, path, _ := strings.Cut(value, "=")
		p.checkInputSize(p.views[p.images[len(p.images)-1].path], tensor, filepath.Join("/", path))
	case "before", "sequence", "after":
		p.images[len(p.images)-1].values[name] = value
	}
}

func (p *plan) partIndex(path string) int {
	return slices.IndexFunc(p.packedFiles, func(f initramfs.File) bool { return f.Path == path })
}

// checkInputSize fails if a file has not the size of the input that it is for. It checks nothing if
// file or image is not packed, but on a file system that the board mounts.
func (p *plan) checkInputSize(view *fbs.View, tensor, path string) {
	at := p.partIndex(path)
	if at < 0 || view == nil {
		return
	}
	of := slices.IndexFunc(view.Tensors,
		func(t fbs.Tensor) bool { return view.Name(t.Name) == tensor })
	if size := uint64(len(p.packedFiles[at].Data)); of >= 0 && size != view.Tensors[of].Size {
		fail.On(fmt.Errorf("%s has %d bytes, but input %s needs %d bytes", path, size, tensor,
			view.Tensors[of].Size))
	}
}

// verifyPacked verifies an image if it is packed, and otherwise adds it to p.notPacked.
func (p *plan) verifyPacked(path string) {
	i := p.partIndex(path)
	if i < 0 {
		p.notPacked = append(p.notPacked, path)
	}
	if i < 0 || p.views[path] != nil {
		return
	}
	file, _, err := fbs.SplitSignature(p.packedFiles[i].Data)
	if err == nil {
		p.views[path], err = fbs.Verify(file)
	}
	fail.On(err)
	if text := listing.MissingSafe(p.views[path]); text != "" {
		p.warnings = append(p.warnings, path+": "+text)
	}
}

// steps returns the sequences of packed images that the configuration runs, in their order. It
// ignores names that an image does not have: lminit has already rejected these.
func (p *plan) steps() (steps []together.Step) {
	for _, one := range p.images {
		view := p.views[one.path]
		if view == nil {
			continue
		}
		step := together.Step{Image: together.Image{Name: one.path, View: view},
			Devices: one.devices}
		for _, name := range []string{"before", "sequence", "after"} {
			i := slices.IndexFunc(view.Sequences,
				func(s fbs.Sequence) bool { return view.Name(s.Name) == one.values[name] })
			if i >= 0 {
				step.Sequences = append(step.Sequences, i)
			}
		}
		if len(step.Sequences) > 0 {
			steps = append(steps, step)
		}
	}
	return steps
}
