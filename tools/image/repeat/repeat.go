// Package repeat finds what makes a sequence wrong when it runs again: polls that the run before
// has satisfied. Such a poll waits for nothing, and the run reads old results.
package repeat

import (
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// Poll is a poll that the run before has satisfied.
type Poll struct {
	Command int // index in the image
	// The poll loads a register, which the device may change back by itself: it may wait after all
	IsRegister bool
	Text       string // the command and its position
	Reason     string
}

func (p *Poll) String() string { return p.Text + " " + p.Reason }

// Check returns the polls of a sequence that do not wait in a later run, in their order. It
// knows only what the commands of the sequence store and wait for.
//
// A poll of a counter until it has reached a value, or of memory, is certain. A register may change
// by itself when the device starts: IsRegister marks its poll.
func Check(view *fbs.View, sequence int) []Poll {
	c := checker{view: view, shown: make([][]space, len(view.Windows)),
		watched: map[space][]uint64{}, bytes: map[place]known{}, unlikes: map[place]unlike{},
		found: map[int]Poll{}}
	c.runs(sequence, c.watch)
	if len(c.watched) == 0 {
		return nil
	}
	for s, list := range c.watched {
		slices.Sort(list)
		c.watched[s] = slices.Compact(list)
	}
	c.runs(sequence, c.follow)
	var list []Poll
	for _, p := range c.found {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Poll) int { return a.Command - b.Command })
	return list
}

// Error returns the error of polls that are certain, or nil.
func Error(polls []Poll) error {
	var certain []Poll
	for _, p := range polls {
		if !p.IsRegister {
			certain = append(certain, p)
		}
	}
	if len(certain) == 0 {
		return nil
	}
	return fmt.Errorf("%s%s", &certain[0], moreText(len(certain)-1))
}

// Warning returns one warning for all polls that are not certain, or nothing.
func Warning(polls []Poll) []string {
	var unsure []Poll
	for _, p := range polls {
		if p.IsRegister {
			unsure = append(unsure, p)
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	return []string{unsure[0].String() + moreText(len(unsure)-1)}
}

func moreText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %s)", english.Count(n, "more poll"))
}

// space is an address space: a BAR, host memory, or a tile.
type space struct {
	kind   gen.WindowKind
	device uint8
	number uint64 // BAR, index of the host window, tile, or the route to unknown tiles
}

type place struct {
	space
	address uint64
}

type known struct {
	value, bits byte // bits: those of value that are known
	since       int  // value of checker.stores when this became known
	stored      bool // by the sequence
	// What the device has left in host memory that the sequence has stored since
	before *known
}

// unlike is a value that a word does not have.
type unlike struct {
	mask, value uint64
	since       int
}

type checker struct {
	view    *fbs.View
	shown   [][]space          // by window: the tiles that a Point has selected
	watched map[space][]uint64 // sorted addresses of bytes that polls load
	bytes   map[place]known
	unlikes map[place]unlike
	stores  int // number of stores to the device so far
	run     int
	found   map[int]Poll // by command

	rings    []ring
	moved    fbs.Command // what With commands add to the next command
	movers   []uint16    // rings of the With commands
	accesses int
}

type ring struct {
	position, value, laps uint64
	advanced              bool
	matters               bool // it changes what is polled, or where
}

const (
	lapsMin     = 2 // laps to follow for each ring that matters
	accessesMax = 1 << 20
)

// runs calls do for each access of two runs of the sequence, or of more if its rings need them.
func (c *checker) runs(sequence int, do func(e *lmb.Effect)) {
	c.rings, c.run, c.accesses = make([]ring, len(c.view.Rings)), 0, 0
	for i := range c.rings {
		c.rings[i].position = c.view.Rings[i].First
	}
	again := true
	for again && c.accesses < accessesMax {
		c.run++
		c.each(sequence, do)
		again = c.run < 2 || slices.ContainsFunc(c.rings, func(r ring) bool {
			return r.advanced && r.matters && r.laps < lapsMin
		})
	}
}

// each calls do for each access of a run of the sequence, and of the sequences that it calls.
func (c *checker) each(sequence int, do func(e *lmb.Effect)) {
	for e := range lmb.Walk(c.view, sequence) {
		switch m := e.Command; m.Opcode {
		case gen.OpcodePoint:
			c.shown[m.Window] = c.tilesOf(e)
		case gen.OpcodeCall:
			c.each(int(m.Index), do)
		case gen.OpcodeAdvance, gen.OpcodeReset, gen.OpcodeWith:
			c.move(m)
		default:
			if e.Size > 0 {
				changed := *m
				changed.Offset += c.moved.Offset
				changed.Value = (changed.Value + c.moved.Value) ^ c.moved.Mask
				e.Command, e.Address = &changed, e.Address+uint64(c.moved.Offset)
				e.Size -= e.Spread // the ring is at one place
				c.accesses++
				do(e)
			}
			for _, r := range c.movers {
				c.rings[r].matters = c.rings[r].matters || m.Opcode == gen.OpcodeExpect
			}
			c.moved, c.movers = fbs.Command{}, nil
		}
	}
}

func (c *checker) move(m *fbs.Command) {
	r, declared := &c.rings[m.Index], &c.view.Rings[m.Index]
	switch m.Opcode {
	case gen.OpcodeReset:
		*r = ring{position: declared.First, matters: r.matters}
	case gen.OpcodeAdvance:
		var isNewLap bool
		if r.value, isNewLap = fbs.NextRingValue(declared, r.position, m.Value); isNewLap {
			r.laps++
		}
		r.position, r.advanced = r.value+m.Value, true
	case gen.OpcodeWith:
		if gen.Place(m.Mode) == gen.PlaceOffset {
			c.moved.Offset += uint32(r.value >> m.Amount)
			r.matters = true
			return
		}
		c.movers = append(c.movers, m.Index)
		c.moved.Value += r.value >> m.Amount
		if r.laps%2 == 1 {
			c.moved.Mask ^= m.Mask
		}
	}
}

func (c *checker) gridOf(device uint8) *chips.Grid {
	d := &c.view.Devices[device]
	if board := boards.FindByID(d.Vendor, d.Device); board != nil {
		return chips.ForBoard(board).Grid
	}
	return nil
}

func (c *checker) tilesOf(point *lmb.Effect) (list []space) {
	route, _ := boards.UnpackTileRoute(point.Command.Mask)
	device := point.Window.Device
	grid := c.gridOf(device)
	tiles, ok := grid.ShownTiles(route)
	if !ok {
		return []space{{gen.WindowKindTlb, device, 1<<63 | point.Command.Mask}}
	}
	for _, t := range tiles {
		t = grid.FirstTileOfBank(t)
		list = append(list, space{gen.WindowKindTlb, device, uint64(t.X)<<8 | uint64(t.Y)})
	}
	return list
}

func (c *checker) spacesOf(e *lmb.Effect) []space {
	switch w := e.Window; w.Kind {
	case gen.WindowKindTlb:
		return c.shown[e.Command.Window]
	case gen.WindowKindBar:
		return []space{{w.Kind, w.Device, uint64(w.Bar)}}
	default:
		return []space{{w.Kind, 0, uint64(e.Command.Window)}}
	}
}

// isMemory reports whether a place keeps what was stored until the next store.
func (c *checker) isMemory(p place, size uint64) bool {
	switch p.kind {
	case gen.WindowKindHost:
		return true
	case gen.WindowKindBar:
		rule := c.view.Board(int(p.device)).FindRule(uint8(p.number), p.address, size)
		return rule != nil && rule.IsMemory
	case gen.WindowKindTlb:
		grid := c.gridOf(p.device)
		return grid != nil && p.number>>63 == 0 && grid.FindMemory(grid.Kind(
			chips.Tile{X: uint8(p.number >> 8), Y: uint8(p.number)}), p.address, size) != nil
	}
	return false
}

func isPoll(m *fbs.Command) bool {
	return m.Opcode == gen.OpcodeExpect && m.Amount != 0 && m.Mask != 0
}

// watch notes the bytes that a poll loads. Other bytes are not followed.
func (c *checker) watch(e *lmb.Effect) {
	if isPoll(e.Command) {
		for _, s := range c.spacesOf(e) {
			for i := range e.Size {
				c.watched[s] = append(c.watched[s], e.Address+i)
			}
		}
	}
}

func (c *checker) follow(e *lmb.Effect) {
	switch spaces := c.spacesOf(e); {
	case e.Command.Opcode == gen.OpcodeExpect && len(spaces) == 1:
		c.expect(e, place{spaces[0], e.Address})
	case e.Stores > 0:
		for _, s := range spaces {
			c.store(e, s)
		}
		if e.Window.Kind != gen.WindowKindHost {
			c.stores++
		}
	}
}

// store notes what a command stores to watched bytes.
func (c *checker) store(e *lmb.Effect, s space) {
	list := c.watched[s]
	first, _ := slices.BinarySearch(list, e.Address)
	for _, at := range list[first:] {
		if at >= e.Address+e.Size {
			return
		}
		p := place{s, at}
		old, now := c.bytes[p], known{since: c.stores, stored: true}
		if c.isMemory(p, 1) {
			now.value, now.bits = c.storedByte(e, at-e.Address, old)
		}
		if s.kind == gen.WindowKindHost {
			if now.before = old.before; !c.isHeld(old) {
				now.before = &known{value: old.value, bits: old.bits, since: old.since}
			}
		}
		c.bytes[p] = now
		for size := range uint64(8) {
			delete(c.unlikes, place{s, at - size})
		}
	}
}

// isHeld reports whether no store to the device has followed the store of a byte to host memory.
// The device may have written the byte since.
func (c *checker) isHeld(k known) bool { return k.before != nil && k.since == c.stores }

// storedByte returns the byte that a command stores to memory, and which of its bits are known.
func (c *checker) storedByte(e *lmb.Effect, at uint64, old known) (value, bits byte) {
	m := e.Command
	shift := at % uint64(m.Width) * 8
	mask := byte(m.Mask >> shift)
	switch {
	case m.Opcode == gen.OpcodeWrite || m.Opcode == gen.OpcodeFill:
		return byte(m.Value >> shift), 0xff
	case m.Opcode == gen.OpcodeModify:
		return old.value&^mask | byte(m.Value>>shift)&mask, old.bits | mask
	case m.Opcode == gen.OpcodeCopyIn && lmb.HasPayload(m) && e.Size == uint64(m.Amount):
		return c.view.Payload[m.Value+at], 0xff
	}
	return 0, 0
}

// word returns what is known of the bytes of a poll, and since when: value of checker.stores.
// A store to host memory counts only if a store to the device followed it.
func (c *checker) word(p place, size uint64) (value, bits uint64, since int) {
	for i := range size {
		k := c.bytes[place{p.space, p.address + i}]
		if c.isHeld(k) {
			k = *k.before
		}
		value |= uint64(k.value) << (8 * i)
		bits |= uint64(k.bits) << (8 * i)
		if k.bits != 0 {
			since = max(since, k.since)
		}
	}
	return value & bits, bits, since
}

// expect examines an Expect, and notes what is known after it.
func (c *checker) expect(e *lmb.Effect, p place) {
	m := e.Command
	value, bits, since := c.word(p, e.Size)
	holds := m.Mask&^bits == 0 && fbs.ConditionMet(m, value)
	condition := gen.Condition(m.Mode)
	if condition == gen.ConditionNotEqual {
		holds = (value^m.Value)&m.Mask&bits != 0
		if u, ok := c.unlikes[p]; ok && u.mask == m.Mask && u.value == m.Value {
			holds, since = true, u.since
		}
	}
	if holds && since < c.stores && c.run > 1 && isPoll(m) {
		c.add(e, p)
	}
	if holds && condition == gen.ConditionReached {
		return // the counter may be further
	}
	learned := m.Mask
	if condition == gen.ConditionNotEqual {
		c.unlikes[p], learned = unlike{m.Mask, m.Value, c.stores}, 0
	}
	for i := range e.Size {
		at := place{p.space, p.address + i}
		k := known{since: c.stores}
		k.value, k.bits = byte(m.Value>>(8*i)), byte(learned>>(8*i))
		if old := c.bytes[at]; old.since == c.stores || !isPoll(m) {
			k.value |= old.value &^ k.bits
			k.bits |= old.bits
		}
		c.bytes[at] = k
	}
}

func (c *checker) add(e *lmb.Effect, p place) {
	if _, seen := c.found[e.Index]; seen {
		return
	}
	command := lmb.CommandAt(c.view, e.Index)
	poll := Poll{Command: e.Index, Text: lmb.PlaceText(c.view, e.Index) + ", " +
		listing.CommandText(lmb.Header(c.view), &command) + ","}
	switch memory := c.isMemory(p, e.Size); {
	case gen.Condition(e.Command.Mode) == gen.ConditionReached:
		poll.Reason = "waits in the first run only: the counter stays beyond this number, so " +
			"each later run reads old results"
	case memory:
		poll.Reason = "waits in the first run only: the run before leaves this value in memory, " +
			"and the sequence stores no other one before it starts the device, so each later run " +
			"reads old results"
	default:
		poll.IsRegister = true
		poll.Reason = "waits in a later run only if the device changes this register when it starts"
	}
	c.found[e.Index] = poll
}
