// Package together reports whether images that share a device can break each other: whether one
// stores to places that a later sequence of another relies on.
//
// It considers only the commands of the images. Stores by programs on the device are unknown, and
// so are effects of a store to a register on other places.
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

// Image is a verified image and its name for users.
type Image struct {
	Name string
	View *fbs.View
}

// Collision is a place that one image relies on and another one stores to.
type Collision struct {
	Image    string `json:"image"`
	Sequence string `json:"sequence"` // which relies on it
	// Sequence of the image that stored the data; empty: Sequence loads them without an earlier
	// store
	StoredBy string `json:"left_by,omitempty"`
	// Command that stores or loads the data, by its index in the image
	Command int `json:"command"`

	Other         string `json:"other"`
	OtherSequence string `json:"other_sequence"`
	// Command that stores to the place, by its index in the image
	OtherCommand int `json:"other_command"`

	Device string `json:"device"`
	Place  string `json:"place"`
	// Range of bytes that both commands access; 0 if the range is unknown
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes uint64 `json:"bytes"` // number of bytes in this place that overlap, for all commands

	// Tensors whose bytes overlap in this place, if commands copy tensors.
	Tensors      []string `json:"tensors,omitempty"`
	OtherTensors []string `json:"other_tensors,omitempty"`

	// Commands of both images whose bytes overlap in this place
	commands, otherCommands []int

	position, otherPosition string // positions of both commands: "command 3 of main"
}

func (c *Collision) String() string {
	where := c.Place
	if c.Bytes > 0 {
		where = fmt.Sprintf("%s 0x%x to 0x%x", c.Place, c.First, c.Last)
	}
	if len(c.Tensors) > 0 && len(c.OtherTensors) > 0 {
		overlap := "overlap"
		if len(c.Tensors) == 1 {
			overlap = "overlaps"
		}
		where += fmt.Sprintf("; %s of %s %s %s of %s", tensorsText(c.Tensors), c.Image, overlap,
			tensorsText(c.OtherTensors), c.Other)
	}
	relies := fmt.Sprintf("sequence %s relies on data that %s stored", c.Sequence, c.position)
	if c.StoredBy == "" {
		relies = c.position + " loads data that the sequence did not store"
	}
	return fmt.Sprintf("%s: %s; %s in %s stores to the same place: %s, %s", c.Image, relies,
		c.otherPosition, c.Other, c.Device, where)
}

// tensorsText returns the names of tensors as text: "tensor a" or "tensors a, b".
func tensorsText(names []string) string {
	if len(names) == 1 {
		return "tensor " + names[0]
	}
	return "tensors " + strings.Join(names, ", ")
}

// Check returns the collisions of every image with every other: for each sequence, the first
// collision with each image.
//
// A sequence relies on data that earlier sequences of its file, or its own earlier runs, have
// stored, except for data that it stores again before its first wait. It also relies on data that
// it loads without having stored them. There are exceptions. The first sequence and init start from
// scratch, so they rely on nothing. The reset register of a tile is not relied on. A sequence that
// only puts cores in reset relies on no stored data. The sequence safe is not checked, because it
// runs after a failure and no sequence follows it.
//
// Only one sequence is in memory as a run at a time, because runs of sequences that call a long one
// are large.
func Check(images []Image) (list []Collision) {
	list = []Collision{}
	stores := make([]storedSpans, len(images))
	for i, image := range images {
		stores[i] = storedSpans{}
		for s := range image.View.Sequences {
			stores[i].addShared(newRun(image.View, s).stores, s)
		}
	}
	for i := range images {
		list = append(list, collisionsOf(images, i, stores)...)
	}
	return list
}

// collisionsOf returns the collisions of one image with every other.
func collisionsOf(images []Image, own int, stores []storedSpans) (list []Collision) {
	image, left := images[own], storedSpans{}
	found := make([][]Collision, len(images)) // by the other image
	for s := range image.View.Sequences {
		name := sequenceName(image.View, s)
		if name == "safe" {
			continue
		}
		run := newRun(image.View, s)
		left.add(run.stores)
		if startsFresh(image.View, s) {
			continue
		}
		for other := range images {
			if other == own {
				continue
			}
			if c := findCollision(image, left, run, images[other], stores[other]); c != nil {
				c.Sequence = name
				found[other] = append(found[other], *c)
			}
		}
	}
	return slices.Concat(found...)
}

// startsFresh reports whether a sequence starts from scratch.
func startsFresh(view *fbs.View, sequence int) bool {
	return sequence == 0 || sequenceName(view, sequence) == "init"
}

// Step is an execution of sequences of an image, in order, on devices with these names.
type Step struct {
	Image
	Sequences []int
	Devices   []string
}

// InOrder returns the collisions of steps that are executed one after the other. A step relies on
// data that earlier steps of its image have stored, back to the last one that starts from scratch.
// It collides with stores of other images after these.
func InOrder(steps []Step) (list []Collision) {
	runs := make([]*run, len(steps))
	for i, s := range steps {
		runs[i] = newRun(s.View, s.Sequences...)
	}
	for k := range steps {
		if !startsFresh(steps[k].View, steps[k].Sequences[0]) {
			list = append(list, collisionsBefore(steps, runs, k)...)
		}
	}
	return list
}

func collisionsBefore(steps []Step, runs []*run, k int) (list []Collision) {
	step, left := &steps[k], storedSpans{}
	for i := range steps[:k] {
		other, stores := &steps[i], storedSpans{}
		switch {
		case areDistinct(step.Devices, other.Devices):
		case other.View == step.View:
			if startsFresh(other.View, other.Sequences[0]) {
				left, list = storedSpans{}, nil
			}
			left.add(runs[i].stores)
		case len(left) > 0:
			stores.addShared(runs[i].stores, 0)
			if c := findCollision(step.Image, left, runs[k], other.Image, stores); c != nil {
				c.Sequence = sequenceName(step.View, step.Sequences[len(step.Sequences)-1])
				list = append(list, *c)
			}
		}
	}
	return list
}

// storedSpans maps spaces to the spans that were stored to, disjoint and sorted by address.
type storedSpans map[space][]span

// add adds the stores of a run to bytes that no earlier run stored to.
func (p storedSpans) add(stores map[space][]span) {
	for s, list := range stores {
		p.addTo(s, list)
	}
}

// addTo adds the parts of disjoint spans that do not overlap existing ones.
func (p storedSpans) addTo(s space, list []span) {
	always := func(_, _ *span) bool { return true }
	if fresh := without(list, p[s], always); len(fresh) > 0 {
		p[s] = earliest(slices.Concat(p[s], fresh))
	}
}

// runShift is the position of the number of a run in an order, above the order within the run.
const runShift = 32

// addShared adds the stores of a run of another image. Runs must be added in ascending order of
// number.
func (p storedSpans) addShared(stores map[space][]span, number int) {
	for s, list := range stores {
		later := slices.Clone(list)
		for i := range later {
			later[i].order = later[i].order>>1 + number<<runShift
		}
		p.addTo(s.anyDevice(), later)
	}
}

// firstOf returns the command of the earliest of these stores: in the first run, the one with the
// lowest address.
func firstOf(list []span) int {
	return slices.MinFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.order>>runShift, b.order>>runShift),
			cmp.Compare(a.first, b.first))
	}).command
}

// findCollision returns the first collision of image a with the stores of image b, or nil. y is a
// run of a, and left are the stores of earlier runs of a.
func findCollision(a Image, left storedSpans, y *run, b Image, stores storedSpans) *Collision {
	if !y.usesDevice {
		left = nil
	}
	for _, s := range slices.SortedFunc(maps.Keys(left), space.compare) {
		relied := left[s]
		if s.hasAddresses() {
			relied = without(relied, y.stores[s], y.isBeforeWait)
		}
		if s.isOnlyReset(relied) {
			continue
		}
		if c := findOverlap(s, relied, stores); c != nil {
			c.setNames(a, b)
			c.StoredBy = sequenceOf(a.View, c.Command)
			return c
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(y.loads), space.compare) {
		if c := findOverlap(s, y.loads[s], stores); c != nil {
			c.setNames(a, b)
			return c
		}
	}
	return nil
}

// findOverlap returns the collision of relied-on spans in a space with stores, or nil. If the
// address of either side is unknown, every store to the device collides.
func findOverlap(s space, relied []span, stores storedSpans) *Collision {
	if len(relied) == 0 {
		return nil
	}
	for _, other := range slices.SortedFunc(maps.Keys(stores), space.compare) {
		if other.vendor != s.vendor || other.device != s.device || len(stores[other]) == 0 {
			continue
		}
		c := &Collision{Device: s.deviceText(), Place: s.String(), Command: relied[0].command,
			OtherCommand: firstOf(stores[other])}
		if s.kind == kindUnknown || other.kind == kindUnknown ||
			s.kind == kindSystem && other == s.anyDevice() {
			return c
		}
		if other != s.anyDevice() {
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

func (c *Collision) setNames(a, b Image) {
	c.Image, c.Other, c.OtherSequence = a.Name, b.Name, sequenceOf(b.View, c.OtherCommand)
	c.Tensors, c.OtherTensors = tensorsOf(a.View, c.commands), tensorsOf(b.View, c.otherCommands)
	c.position = lmb.PlaceText(a.View, c.Command)
	c.otherPosition = lmb.PlaceText(b.View, c.OtherCommand)
}

// tensorsOf returns the names of the tensors that commands copy, without repetitions.
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

// sequenceOf returns the name of the sequence that contains a command.
func sequenceOf(view *fbs.View, command int) string {
	sequence, _ := lmb.SequenceOf(view, command)
	return sequenceName(view, sequence)
}
