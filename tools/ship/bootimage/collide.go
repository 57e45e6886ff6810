package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/together"
	"lightmetal/tools/ship/bootimage/initramfs"
)

// judge holds the configuration against the board and against what is packed, and
// refuses one in which an image stores to what a later sequence of another relies
// on, unless it says `collisions allowed`.
func (r *request) judge(parts []initramfs.File) {
	p := plan{parts: parts, views: map[string]*fbs.View{}}
	for i, s := range settings(parts[len(parts)-1].Data) {
		if err := fail.Try(func() { p.line(s.name, s.value) }); err != nil {
			fail.On(fmt.Errorf("%s:%d: %w", configName, i+1, err))
		}
	}
	for _, path := range r.images {
		r.checkRoom(path, p.views["/"+filepath.Base(path)])
	}
	steps := p.steps()
	if p.restarts {
		steps = append(steps, steps...)
	}
	if list := together.InOrder(steps); len(list) > 0 && !p.allowed {
		fail.On(fmt.Errorf("%s: images can break each other; to permit that, write "+
			"`collisions allowed` before the first image\n%s", configName, &list[0]))
	}
	if len(p.list) > 1 {
		r.elsewhere = p.elsewhere
	}
}

// plan is what a configuration has one image after the other do.
type plan struct {
	parts     []initramfs.File
	views     map[string]*fbs.View // by path
	list      []planned
	elsewhere []string // images that are not packed
	allowed   bool
	restarts  bool
}

// planned is an image with its lines.
type planned struct {
	path    string
	values  map[string]string
	devices []string
}

func (p *plan) line(name, value string) {
	switch name {
	case "collisions":
		if p.allowed = value == "allowed"; !p.allowed {
			fail.On(fmt.Errorf("collisions must be followed by allowed, not %s", value))
		}
	case "on-success", "on-failure":
		hasSteps := strings.HasPrefix(value, "restart") || strings.Contains(value, ",")
		p.restarts = p.restarts || hasSteps
	case "image":
		path := filepath.Join("/", value)
		p.list = append(p.list, planned{path: path, values: map[string]string{"sequence": "main"}})
		p.look(path)
	case "device":
		last := &p.list[len(p.list)-1]
		last.devices = append(last.devices, value)
	case "input":
		tensor, path, _ := strings.Cut(value, "=")
		p.fits(p.views[p.list[len(p.list)-1].path], tensor, filepath.Join("/", path))
	case "before", "sequence", "after":
		p.list[len(p.list)-1].values[name] = value
	}
}

func (p *plan) part(path string) int {
	return slices.IndexFunc(p.parts, func(f initramfs.File) bool { return f.Path == path })
}

// fits holds a file against the input that it is for, where image and file are
// packed. What is on a file system that is mounted is not here.
func (p *plan) fits(view *fbs.View, tensor, path string) {
	at := p.part(path)
	if at < 0 || view == nil {
		return
	}
	of := slices.IndexFunc(view.Tensors,
		func(t fbs.Tensor) bool { return view.Name(t.Name) == tensor })
	if size := uint64(len(p.parts[at].Data)); of >= 0 && size != view.Tensors[of].Size {
		fail.On(fmt.Errorf("%s has %d bytes, but input %s needs %d", path, size, tensor,
			view.Tensors[of].Size))
	}
}

// look verifies an image that is packed.
func (p *plan) look(path string) {
	i := p.part(path)
	if i < 0 {
		p.elsewhere = append(p.elsewhere, path)
	}
	if i < 0 || p.views[path] != nil {
		return
	}
	file, _, err := fbs.SplitSignature(p.parts[i].Data)
	if err == nil {
		p.views[path], err = fbs.Verify(file)
	}
	fail.On(err)
}

// steps are those of images that are here. lminit has refused what it does not
// find in them.
func (p *plan) steps() (steps []together.Step) {
	for _, one := range p.list {
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
