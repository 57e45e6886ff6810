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
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Image is a verified image, under the name that people know it by.
type Image struct {
	Name string
	View *fbs.View
}

// Collision is a place that an image relies on and another stores to.
type Collision struct {
	Image    string `json:"image"`
	Sequence string `json:"sequence"` // which relies on it
	// the sequence of the image that stored it; empty: Sequence loads it without having stored to
	// it
	Left    string `json:"left_by,omitempty"`
	Command int    `json:"command"` // that stored or loads it, by its index in the image

	Other         string `json:"other"`
	OtherSequence string `json:"other_sequence"`
	OtherCommand  int    `json:"other_command"` // that stores to it, by its index in the image

	Device string `json:"device"`
	Place  string `json:"place"`
	// of the bytes that both commands mean; 0 where which these are is not known
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes uint64 `json:"bytes"` // in this place, by any commands

	// The tensors whose bytes overlap in this place, if commands that copy tensors do.
	Tensors      []string `json:"tensors,omitempty"`
	OtherTensors []string `json:"other_tensors,omitempty"`

	// commands whose bytes overlap in this place, of both images
	commands, otherCommands []int

	at, otherAt string // both commands within their sequences: "command 3 of main"
}

func (c *Collision) String() string {
	where := c.Place
	if c.Bytes > 0 {
		where = fmt.Sprintf("%s 0x%x to 0x%x", c.Place, c.First, c.Last)
	}
	if len(c.Tensors) > 0 && len(c.OtherTensors) > 0 {
		where += fmt.Sprintf("; %s of %s overlaps %s of %s", strings.Join(c.Tensors, ", "), c.Image,
			strings.Join(c.OtherTensors, ", "), c.Other)
	}
	relies := fmt.Sprintf("%s relies on what %s left there", c.Sequence, c.at)
	if c.Left == "" {
		relies = c.at + " loads what is there"
	}
	return fmt.Sprintf("%s: %s; %s in %s stores there: %s, %s", c.Image, relies, c.otherAt,
		c.Other, c.Device, where)
}

// Check gives the collisions of every image with every other, the first of each
// sequence with each image. A sequence relies on what those before it in the
// file, and itself in an earlier run, have stored, but for what it stores anew
// before its first wait; and on what it loads without having stored to it. The
// first sequence, and init, begin anew and rely on nothing; a tile that is only
// held in reset, or let go, is not relied on; safe runs in the run
// that failed, and nothing of the image runs after it.
//
// The run of one sequence is in memory at a time: sequences that call a long one would
// otherwise hold it once each.
func Check(images []Image) (list []Collision) {
	list = []Collision{}
	stores := make([]places, len(images))
	for i, image := range images {
		stores[i] = places{}
		for s := range image.View.Sequences {
			stores[i].addShared(runOf(image.View, s).stores, s)
		}
	}
	for i := range images {
		list = append(list, with(images, i, stores)...)
	}
	return list
}

// with returns the collisions of one image with every other.
func with(images []Image, own int, stores []places) (list []Collision) {
	image, left := images[own], places{}
	found := make([][]Collision, len(images)) // by the other image
	for s := range image.View.Sequences {
		name := sequenceName(image.View, s)
		if name == "safe" {
			continue
		}
		run := runOf(image.View, s)
		left.add(run.stores)
		if begins(image.View, s) {
			continue
		}
		for other := range images {
			if other == own {
				continue
			}
			if c := collide(image, left, run, images[other], stores[other]); c != nil {
				c.Sequence = name
				found[other] = append(found[other], *c)
			}
		}
	}
	return slices.Concat(found...)
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

// places is what is stored to: by space, disjoint spans in order of address.
type places map[space][]span

// add adds the stores of a run, of bytes that no run before it stored to.
func (p places) add(stores map[space][]span) {
	for s, list := range stores {
		p.addTo(s, list)
	}
}

// addTo adds what disjoint spans have in front of, between and after those that are there.
func (p places) addTo(s space, list []span) {
	always := func(_, _ *span) bool { return true }
	if fresh := without(list, p[s], always); len(fresh) > 0 {
		p[s] = earliest(slices.Concat(p[s], fresh))
	}
}

// runShift is where an order holds the number of a run, above the order in it.
const runShift = 32

// addShared adds the stores of a run of another image, after those of runs with lower numbers.
func (p places) addShared(stores map[space][]span, number int) {
	for s, list := range stores {
		later := slices.Clone(list)
		for i := range later {
			later[i].order = later[i].order>>1 + number<<runShift
		}
		p.addTo(s.shared(), later)
	}
}

// firstOf returns the first command that made one of these stores: of the first run, the one
// with the lowest address.
func firstOf(list []span) int {
	return slices.MinFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.order>>runShift, b.order>>runShift),
			cmp.Compare(a.first, b.first))
	}).command
}

// collide gives the first collision of what run y of image a relies on, where
// earlier ones left something, with what image b stores.
func collide(a Image, left places, y *run, b Image, stores places) *Collision {
	for _, s := range slices.SortedFunc(maps.Keys(left), space.compare) {
		relied := left[s]
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
		c := &Collision{Device: s.deviceText(), Place: s.String(), Command: relied[0].command,
			OtherCommand: firstOf(stores[other])}
		if s.kind == anywhere || other.kind == anywhere || s.kind == system && other == s.shared() {
			return c
		}
		if other != s.shared() {
			continue
		}
		note := func(a, b *span) {
			c.commands = append(c.commands, a.command)
			c.otherCommands = append(c.otherCommands, b.command)
		}
		if pair, bytes := overlap(relied, stores[other], note); bytes > 0 {
			c.Command, c.OtherCommand, c.Bytes = pair[0].command, pair[1].command, bytes
			c.First, c.Last = max(pair[0].first, pair[1].first), min(pair[0].last, pair[1].last)
			return c
		}
	}
	return nil
}

func (c *Collision) name(a, b Image) {
	c.Image, c.Other, c.OtherSequence = a.Name, b.Name, sequenceOf(b.View, c.OtherCommand)
	c.Tensors, c.OtherTensors = tensorsOf(a.View, c.commands), tensorsOf(b.View, c.otherCommands)
	c.at = lmb.PlaceText(a.View, c.Command)
	c.otherAt = lmb.PlaceText(b.View, c.OtherCommand)
}

// tensorsOf returns the names of the tensors that commands copy, each once.
func tensorsOf(view *fbs.View, commands []int) (names []string) {
	for _, command := range commands {
		tensor := tensorOf(view, command)
		if tensor < 0 {
			continue
		}
		if name := view.Name(view.Tensors[tensor].Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// tensorOf returns the index of the tensor that a command copies, or -1.
func tensorOf(view *fbs.View, command int) int {
	c := &view.Commands[command]
	if c.Opcode != gen.OpcodeCopyIn && c.Opcode != gen.OpcodeCopyOut {
		return -1
	}
	return int(c.Index) - 1
}

func sequenceName(view *fbs.View, index int) string { return view.Name(view.Sequences[index].Name) }

// sequenceOf is the name of the sequence that a command belongs to.
func sequenceOf(view *fbs.View, command int) string {
	i, _ := slices.BinarySearchFunc(view.Sequences, command,
		func(s fbs.Sequence, at int) int { return cmp.Compare(int(s.First+s.Count)-1, at) })
	return sequenceName(view, i)
}
