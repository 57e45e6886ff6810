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
	Sequence string `json:"sequence"` // that relies on the place
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

	// Further places that every program of the chip sets up, and that both images store to
	More int `json:"more,omitempty"`

	// Tensors whose bytes overlap in this place, if commands copy tensors.
	Tensors      []string `json:"tensors,omitempty"`
	OtherTensors []string `json:"other_tensors,omitempty"`

	isStored bool // Command stores the data

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
	if c.More > 0 {
		where += fmt.Sprintf("; and %d more reset registers or Ethernet tiles", c.More)
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
// collision with each image. Reset registers and Ethernet tiles, which every program of a chip sets
// up, are counted in one collision for each pair of images.
//
// A sequence relies on data that earlier sequences of its file, or its own earlier runs, have
// stored, except for data that it stores again before its first wait. It also relies on data that
// it loads without having stored them. There are exceptions. The first sequence and init start from
// scratch, so they rely on nothing. The reset register of a tile is not relied on. A sequence that
// only puts cores in reset relies on no stored data. The sequence safe is not checked, because it
// runs after a failure and no sequence follows it.
//
// Only one sequence is in memory as a run at a time, because runs of sequences with long calls are
// large.
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

// collisionsOf returns the collisions of one image with every other image.
func collisionsOf(images []Image, own int, stores []storedSpans) (list []Collision) {
	image, left := images[own], storedSpans{}
	found := make([]collisions, len(images)) // by the other image
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
			if other != own {
				found[other].add(image, name, left, run, images[other], stores[other])
			}
		}
	}
	for i := range found {
		list = append(list, found[i].all()...)
	}
	return list
}

// startsFresh reports whether a sequence relies on nothing that was stored before.
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
// data that earlier steps of its image have stored, back to the last step that starts from scratch.
// It collides with later stores of other images.
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
			var found collisions
			name := sequenceName(step.View, step.Sequences[len(step.Sequences)-1])
			found.add(step.Image, name, left, runs[k], other.Image, stores)
			list = append(list, found.all()...)
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

// firstOf returns the command that stores to the lowest address in the first run of the list.
func firstOf(list []span) int {
	return slices.MinFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.order>>runShift, b.order>>runShift),
			cmp.Compare(a.first, b.first))
	}).command
}

// collisions collects the collisions of one image with another.
type collisions struct {
	own   []Collision     // the first of each sequence
	setup []Collision     // in what every program of the chip sets up
	known map[string]bool // devices and places of setup
}

// all returns the collisions, those in setup as one.
func (l *collisions) all() []Collision {
	if len(l.setup) == 0 {
		return l.own
	}
	l.setup[0].More = len(l.setup) - 1
	return append(l.own, l.setup[0])
}

// add adds the collisions of a sequence of image a with the stores of image b. y is a run of the
// sequence, and `left` are the stores of a that it may rely on.
func (l *collisions) add(a Image, sequence string, left storedSpans, y *run, b Image,
	stores storedSpans) {
	found := &collisions{known: l.known}
	if !y.usesDevice {
		left = nil
	}
	for _, s := range slices.SortedFunc(maps.Keys(left), space.compare) {
		relied := left[s]
		if s.hasAddresses() {
			relied = without(relied, y.stores[s], y.isBeforeWait)
		}
		if !s.isOnlyReset(relied) {
			found.addOverlaps(s, relied, stores, true)
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(y.loads), space.compare) {
		found.addOverlaps(s, y.loads[s], stores, false)
	}
	for _, list := range [][]Collision{found.own, found.setup} {
		for i := range list {
			list[i].setNames(a, sequence, b)
		}
	}
	l.own, l.setup = append(l.own, found.own...), append(l.setup, found.setup...)
	l.known = found.known
}

// addOverlaps adds what relied-on spans in a space and stores have in common.
func (l *collisions) addOverlaps(s space, relied []span, stores storedSpans, isStored bool) {
	own, setup := s.splitSetup(relied)
	if len(l.own) == 0 {
		if c := findOverlap(s, own, stores); c != nil {
			c.isStored = isStored
			l.own = append(l.own, *c)
		}
	}
	c := findOverlap(s, setup, stores)
	if c == nil || l.known[c.Device+c.Place] {
		return
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	c.isStored, l.known[c.Device+c.Place] = isStored, true
	l.setup = append(l.setup, *c)
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

func (c *Collision) setNames(a Image, sequence string, b Image) {
	c.Sequence = sequence
	if c.isStored {
		c.StoredBy = sequenceOf(a.View, c.Command)
	}
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
