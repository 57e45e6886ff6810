// Package together tells whether images that share a device can break each
// other: whether one stores to what a later sequence of another relies on.
//
// By place, in what images themselves do. What programs on the device store is
// not known, nor what a store to a register does beyond that register.
package together

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"lightmetal/fbs"
)

// Image is a verified image, under the name that people know it by.
type Image struct {
	Name string
	View *fbs.View
}

// Collision is a place that an image relies on and another stores to.
type Collision struct {
	Image    string `json:"image"`
	Sequence string `json:"sequence"`          // which relies on it
	Left     string `json:"left_by,omitempty"` // the sequence of the image that stored it; empty: Sequence loads it without having stored to it
	Command  int    `json:"command"`           // that stored or loads it

	Other         string `json:"other"`
	OtherSequence string `json:"other_sequence"`
	OtherCommand  int    `json:"other_command"` // that stores to it

	Device string `json:"device"`
	Place  string `json:"place"`
	First  uint64 `json:"first"` // of the bytes that both commands mean; 0 where which these are is not known
	Last   uint64 `json:"last"`
	Bytes  uint64 `json:"bytes"` // in this place, by any commands
}

func (c *Collision) String() string {
	where := c.Place
	if c.Bytes > 0 {
		where = fmt.Sprintf("%s 0x%x to 0x%x", c.Place, c.First, c.Last)
	}
	relies := fmt.Sprintf("%s relies on what command %d (%s) left there", c.Sequence, c.Command, c.Left)
	if c.Left == "" {
		relies = fmt.Sprintf("command %d (%s) loads what is there", c.Command, c.Sequence)
	}
	return fmt.Sprintf("%s: %s; command %d (%s) of %s stores there: %s, %s", c.Image, relies, c.OtherCommand, c.OtherSequence, c.Other, c.Device, where)
}

// Check gives the collisions of every image with every other, the first of each
// sequence with each image. A sequence relies on what those before it in the
// file, and itself in an earlier run, have stored, but for what it stores anew
// before its first wait; and on what it loads without having stored to it. The
// first sequence, and init, begin anew and rely on nothing; a tile that is only
// held in reset, or let go, is not relied on; safe runs in the run
// that failed, and nothing of the image runs after it.
func Check(images []Image) (list []Collision) {
	list = []Collision{}
	runs := make([][]*run, len(images))
	for i, image := range images {
		for s := range image.View.Sequences {
			runs[i] = append(runs[i], runOf(image.View, s))
		}
	}
	for i := range images {
		for j := range images {
			if i != j {
				list = append(list, between(images[i], runs[i], images[j], runs[j])...)
			}
		}
	}
	return list
}

func between(a Image, own []*run, b Image, others []*run) (list []Collision) {
	left, stores := places{}, places{}
	for i, r := range others {
		stores.addShared(r.stores, i)
	}
	for i, y := range own {
		name := sequenceName(a.View, i)
		if name == "safe" {
			continue
		}
		left.add(y.stores)
		if begins(a.View, i) {
			continue
		}
		if c := collide(a, left, y, b, stores); c != nil {
			c.Sequence = name
			list = append(list, *c)
		}
	}
	return list
}

// begins tells whether a sequence begins anew.
func begins(view *fbs.View, sequence int) bool {
	return sequence == 0 || sequenceName(view, sequence) == "init"
}

// Step is a run of sequences of an image, in order, on devices by these names.
type Step struct {
	Image
	Sequences []int
	Devices   []string
}

// InOrder gives the collisions of steps that are carried out one after the
// other: of what a step relies on that earlier ones of its image left, since one
// of them began anew, with what those of other images between them store.
func InOrder(steps []Step) (list []Collision) {
	runs := make([]*run, len(steps))
	for i, s := range steps {
		runs[i] = runOf(s.View, s.Sequences...)
	}
	for k := range steps {
		if !begins(steps[k].View, steps[k].Sequences[0]) {
			list = append(list, before(steps, runs, k)...)
		}
	}
	return list
}

func before(steps []Step, runs []*run, k int) (list []Collision) {
	step, left := &steps[k], places{}
	for i := range steps[:k] {
		other, stores := &steps[i], places{}
		switch {
		case apart(step.Devices, other.Devices):
		case other.View == step.View:
			if begins(other.View, other.Sequences[0]) {
				left, list = places{}, nil
			}
			left.add(runs[i].stores)
		case len(left) > 0:
			stores.addShared(runs[i].stores, 0)
			if c := collide(step.Image, left, runs[k], other.Image, stores); c != nil {
				c.Sequence = sequenceName(step.View, step.Sequences[len(step.Sequences)-1])
				list = append(list, *c)
			}
		}
	}
	return list
}

// places is what is stored to: spans that may overlap, by space.
type places map[space][]span

func (p places) add(stores map[space][]span) {
	for s, list := range stores {
		p[s] = append(p[s], list...)
	}
}

// addShared adds stores of another image, behind those that are there.
func (p places) addShared(stores map[space][]span, behind int) {
	for s, list := range stores {
		for _, at := range list {
			at.order = at.order>>1 + behind<<32
			p[s.shared()] = append(p[s.shared()], at)
		}
	}
}

// collide gives the first collision of what run y of image a relies on, where
// earlier ones left something, with what image b stores.
func collide(a Image, left places, y *run, b Image, stores places) *Collision {
	for _, s := range slices.SortedFunc(maps.Keys(left), space.compare) {
		relied := earliest(slices.Clone(left[s]))
		if s.exact() {
			relied = without(relied, y.stores[s], y.fresh)
		}
		if s.onlyReset(relied) {
			continue
		}
		if c := meet(s, relied, stores); c != nil {
			c.name(a, b)
			c.Left = sequenceOf(a.View, c.Command)
			return c
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(y.found), space.compare) {
		if c := meet(s, y.found[s], stores); c != nil {
			c.name(a, b)
			return c
		}
	}
	return nil
}

// meet gives the collision of what is relied on in a space with stores. Where
// one side may be anywhere on a device, it is there.
func meet(s space, relied []span, stores places) *Collision {
	if len(relied) == 0 {
		return nil
	}
	for _, other := range slices.SortedFunc(maps.Keys(stores), space.compare) {
		if other.vendor != s.vendor || other.device != s.device || len(stores[other]) == 0 {
			continue
		}
		c := &Collision{Device: s.deviceText(), Place: s.String(), Command: relied[0].command, OtherCommand: stores[other][0].command}
		if s.kind == anywhere || other.kind == anywhere || s.kind == system && other == s.shared() {
			return c
		}
		if other != s.shared() {
			continue
		}
		if pair, bytes := overlap(relied, earliest(slices.Clone(stores[other]))); bytes > 0 {
			c.Command, c.OtherCommand, c.Bytes = pair[0].command, pair[1].command, bytes
			c.First, c.Last = max(pair[0].first, pair[1].first), min(pair[0].last, pair[1].last)
			return c
		}
	}
	return nil
}

func (c *Collision) name(a, b Image) {
	c.Image, c.Other, c.OtherSequence = a.Name, b.Name, sequenceOf(b.View, c.OtherCommand)
}

func sequenceName(view *fbs.View, index int) string { return view.Name(view.Sequences[index].Name) }

// sequenceOf is the name of the sequence that a command belongs to.
func sequenceOf(view *fbs.View, command int) string {
	i, _ := slices.BinarySearchFunc(view.Sequences, command, func(s fbs.Sequence, at int) int { return cmp.Compare(int(s.First+s.Count)-1, at) })
	return sequenceName(view, i)
}
