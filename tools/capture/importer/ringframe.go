package importer

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// ringWriter makes the commands of the frame move.
type ringWriter struct {
	*program
	image   *lmb.Image
	shown   map[uint16]windowTarget
	out     []lmb.Command
	points  []lmb.Command // of wide windows
	parts   []movedPart   // stores to host memory that wait for those of entries before them
	done    map[int]bool  // uses
	indexes map[*plannedRing]uint16
	widths  map[uint16]uint64 // by ring: first minus begin, and all steps, ORed
}

// addRings adds the rings to the image: init ends with a reset of each, and the commands of the
// frame move.
func (p *program) addRings(image *lmb.Image, report *Report) error {
	w := ringWriter{program: p, image: image, shown: map[uint16]windowTarget{},
		done: map[int]bool{}, indexes: map[*plannedRing]uint16{}, widths: map[uint16]uint64{}}
	for i := range p.options.moves {
		w.addRing(p.options.moves[i].ring)
	}
	w.addResets()
	at := slices.IndexFunc(image.Sequences, func(s lmb.Sequence) bool {
		return s.Name == segmentFrame.String()
	})
	for c := range image.Sequences[at].All() {
		if err := w.move(*c); err != nil {
			return err
		}
	}
	if err := w.emitParts(); err != nil {
		return err
	}
	for i := range p.options.moves {
		if u := &p.options.moves[i]; !w.done[i] {
			return traces.TraceError(u.ring.line, "the frame has no command for %s0x%x, which "+
				"moves with a ring", u.space, u.address)
		}
	}
	image.Sequences[at] = lmb.Sequence{Name: segmentFrame.String(),
		Commands: append(w.points, w.out...)}
	w.removeStop(report)
	return nil
}

// removeStop leaves out the sequence stop if it uses a ring: it would go on where the recording
// was.
func (w *ringWriter) removeStop(report *Report) {
	at := slices.IndexFunc(w.image.Sequences, func(s lmb.Sequence) bool {
		return s.Name == segmentStop.String()
	})
	if at < 0 {
		return
	}
	for c := range w.image.Sequences[at].All() {
		w.notePoint(c)
		if u := w.usedRing(c); u != nil {
			report.addPass("rings", passResult{summary: fmt.Sprintf("the sequence stop is left "+
				"out: it uses the ring at %s0x%x where the recording was, not where the frames "+
				"are", u.space, u.address)})
			w.image.Sequences = slices.Delete(w.image.Sequences, at, at+1)
			return
		}
	}
}

// usedRing returns the first use of the ring that a command accesses, or nil.
func (w *ringWriter) usedRing(c *lmb.Command) *ringUse {
	space, address, size := w.placeOfCommand(c)
	if c.Opcode == gen.OpcodePoint || size == 0 {
		return nil
	}
	for i := range w.options.moves {
		u := &w.options.moves[i]
		first, end := u.address, u.address+u.size
		if !u.isValue {
			first, end = u.ring.begin, u.ring.end
		}
		if u.space == space && address < end && first < address+size {
			return u
		}
	}
	return nil
}

// notePoint notes the tiles that a window shows from a Point on.
func (w *ringWriter) notePoint(c *lmb.Command) {
	if c.Opcode == gen.OpcodePoint {
		route, _ := boards.UnpackTileRoute(c.Mask)
		w.shown[c.Window] = windowTarget{route: route, address: c.Value}
	}
}

func (w *ringWriter) addRing(r *plannedRing) {
	if _, known := w.indexes[r]; known {
		return
	}
	index := uint16(len(w.image.Rings))
	w.indexes[r] = index
	all := r.first - r.begin
	for _, n := range r.steps {
		all |= n
	}
	w.widths[index] = all
	w.image.Rings = append(w.image.Rings, lmb.Ring{Name: fmt.Sprintf("ring%d", index),
		End: (r.end - r.begin) &^ (all&-all - 1), First: r.first - r.begin})
}

// addResets appends the resets to the sequence init.
func (w *ringWriter) addResets() {
	var resets []lmb.Command
	for i := range w.image.Rings {
		resets = append(resets, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeReset,
			Index: uint16(i)}})
	}
	init := lmb.Sequence{Name: segmentInit.String()}
	if s := w.image.Sequences; s[0].Name == init.Name {
		for c := range s[0].All() {
			init.Commands = append(init.Commands, *c)
		}
		s[0] = init
	} else {
		w.image.Sequences = slices.Insert(w.image.Sequences, 0, init)
	}
	w.image.Sequences[0].Commands = append(w.image.Sequences[0].Commands, resets...)
}

// placeOfCommand returns the space and the address of a command, and the bytes that it accesses.
func (w *ringWriter) placeOfCommand(c *lmb.Command) (space spaceKey, address, size uint64) {
	e := lmb.EffectOf(&c.Command)
	if size = e.Size; lmb.HasPayload(&c.Command) {
		size = uint64(len(c.Data)) // Encode sets Amount
	}
	address = uint64(c.Offset)
	if int(c.Window) >= len(w.windows) {
		return space, address, 0
	}
	win := &w.windows[c.Window]
	if win.Kind == gen.WindowKindTlb {
		t := w.shown[c.Window]
		return spaceOfRoute(&t.route), t.address + address, size
	}
	if win.Kind == gen.WindowKindHost {
		return hostSpaceKey, w.hostSpaces[win.bar-hostBarBase].bus + address, size
	}
	return spaceKey{kind: win.Kind, bar: win.bar}, win.base + address, size
}

// movedPart is a part of a command, and the index of the use that moves it (-1: none does).
type movedPart struct {
	command       lmb.Command
	use           int
	space         spaceKey
	address, size uint64
}

// move appends a command of the frame, in parts if a ring moves only a part of it.
func (w *ringWriter) move(c lmb.Command) error {
	w.notePoint(&c)
	space, address, size := w.placeOfCommand(&c)
	isWhole := space == hostSpaceKey && !w.isExactHostWindow(c.Window) &&
		isKind(c.Opcode, gen.OpcodeCopyIn, gen.OpcodeWrite)
	if !isWhole {
		if err := w.emitParts(); err != nil {
			return err
		}
	}
	if c.Opcode == gen.OpcodePoint || size == 0 {
		w.out = append(w.out, c)
		return nil
	}
	for size > 0 {
		use, next := w.useAt(space, address, size)
		isWord := false
		if use < 0 && c.Opcode == gen.OpcodeCopyIn && space == hostSpaceKey && !isWhole &&
			lmb.HasPayload(&c.Command) {
			next, isWord = w.nextWord(space, address, next)
			c.Width = uint8(gcd(uint64(c.Width), next))
		}
		part := c
		if next < size {
			var ok bool
			if part, ok = split(&c, next); !ok {
				return traces.TraceError(0, "%s+0x%x of the frame is one access, but a ring "+
					"covers only some of its bytes; change BEGIN..END of --ring",
					w.windows[c.Window].Name, c.Offset)
			}
		}
		if isWord {
			if n := len(w.out); n == 0 || w.out[n-1].Opcode != gen.OpcodeFence {
				w.out = append(w.out, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
			}
			part.Command = fbs.Command{Opcode: gen.OpcodeWrite, Window: c.Window,
				Width: uint8(next), Offset: part.Offset, Value: traces.Little(part.Data)}
			part.Data = nil
		}
		w.parts = append(w.parts, movedPart{part, use, space, address, next})
		address, size = address+next, size-next
		if isWhole {
			continue
		}
		if err := w.emitParts(); err != nil {
			return err
		}
	}
	return nil
}

// emitParts appends the collected parts in the order in which the rings move. Parts that no ring
// moves come last.
func (w *ringWriter) emitParts() error {
	slices.SortStableFunc(w.parts, func(a, b movedPart) int {
		return cmp.Compare(uint(a.use), uint(b.use)) // -1 is the largest
	})
	for i := range w.parts {
		p := &w.parts[i]
		if err := w.emitMoved(p.command, p.use); err != nil {
			return err
		}
		if err := w.moveWordsOf(&p.command, p.use, p.space, p.address, p.size); err != nil {
			return err
		}
	}
	w.parts = nil
	return nil
}

// nextWord returns the bytes up to the next word of a copy that a ring moves. If the copy begins
// with such a word, it returns the size of the word: it needs a store of its own, because the
// device may look at a position at any time.
func (w *ringWriter) nextWord(space spaceKey, address, size uint64) (next uint64, isWord bool) {
	next = size
	for i := range w.options.moves {
		u := &w.options.moves[i]
		switch {
		case !u.isValue || !u.isStore || w.done[i] || u.space != space || u.address < address ||
			u.address+u.size > address+size:
		case u.address == address:
			return u.size, true
		default:
			next = min(next, u.address-address)
		}
	}
	return next, false
}

// moveWordsOf stores the words of a copied block that rings move once more, after the block.
func (w *ringWriter) moveWordsOf(c *lmb.Command, use int, space spaceKey, address,
	size uint64) error {
	for i := range w.options.moves {
		u := &w.options.moves[i]
		if !isKind(c.Opcode, gen.OpcodeCopyIn, gen.OpcodeWrite) || !u.isValue || !u.isStore ||
			w.done[i] || u.space != space || u.size == size || u.address < address ||
			u.address+u.size > address+size {
			continue
		}
		word := fbs.Command{Opcode: gen.OpcodeWrite, Window: c.Window, Width: uint8(u.size),
			Offset: c.Offset + uint32(u.address-address),
			Value:  u.ring.begin + u.position}
		if u.flipped {
			word.Value |= u.parity
		}
		if err := w.emitMoved(lmb.Command{Command: word}, use); err != nil {
			return err
		}
	}
	return nil
}

// useAt returns the index of the use that moves an address, or -1, and the number of bytes from
// there on for which that is so.
func (w *ringWriter) useAt(space spaceKey, address, size uint64) (use int, next uint64) {
	use, next = -1, size
	for i := range w.options.moves {
		u := &w.options.moves[i]
		switch {
		case u.isValue || u.space != space:
		case address >= u.address && address < u.address+u.size:
			return i, min(size, u.address+u.size-address)
		case u.address > address && u.address < address+size:
			next = min(next, u.address-address)
		}
	}
	return use, next
}

// split returns the first n bytes of a command, and leaves the rest in it.
func split(c *lmb.Command, n uint64) (part lmb.Command, ok bool) {
	part = *c
	isCopy := isKind(c.Opcode, gen.OpcodeCopyIn, gen.OpcodeCopyOut, gen.OpcodeCompare)
	if !isCopy && c.Opcode != gen.OpcodeFill || n%uint64(c.Width) != 0 {
		return part, false
	}
	c.Offset += uint32(n)
	switch {
	case lmb.HasPayload(&c.Command):
		part.Data, c.Data = c.Data[:n], c.Data[n:]
	case c.Opcode == gen.OpcodeFill:
		part.Amount, c.Amount = uint32(n), c.Amount-uint32(n)
	default:
		part.Amount, c.Amount = uint32(n), c.Amount-uint32(n)
		c.Value += n
	}
	return part, true
}

func isKind(op gen.Opcode, list ...gen.Opcode) bool { return slices.Contains(list, op) }

// emitMoved appends a command with what its rings need before it.
func (w *ringWriter) emitMoved(c lmb.Command, use int) error {
	space, address, _ := w.placeOfCommand(&c)
	var before []lmb.Command
	if v := w.valueUse(&c, space, address); v >= 0 {
		u := &w.options.moves[v]
		w.done[v] = true
		w.advance(u)
		before = append(before, w.with(u, gen.PlaceValue))
		recorded := c.Value
		c.Value = (recorded &^ u.parity) - u.position>>u.shift
		if (recorded&u.parity != 0) != u.flipped {
			c.Value |= u.parity
		}
		isCounter := u.parity != 0 && c.Mask+1 == 2*u.parity // it never goes backward
		if c.Opcode == gen.OpcodeExpect && !isCounter {
			c.Mode = uint8(gen.ConditionEqual)
		}
	}
	if use >= 0 {
		u := &w.options.moves[use]
		if !w.done[use] {
			w.advance(u)
		}
		w.done[use] = true
		w.finishInside(use)
		before = append(before, w.with(u, gen.PlaceOffset))
		if err := w.moveOffset(&c, u); err != nil {
			return err
		}
		if c.Opcode != gen.OpcodeExpect && gen.Access(c.Mode) == gen.AccessBulk {
			w.setExact(&c, u)
		}
	}
	w.out = append(append(w.out, before...), c)
	return nil
}

// setExact replaces a bulk copy, which a ring cannot move.
func (w *ringWriter) setExact(c *lmb.Command, u *ringUse) {
	size := uint64(c.Amount)
	if lmb.HasPayload(&c.Command) {
		size = uint64(len(c.Data))
	}
	all := w.widths[w.indexes[u.ring]] | uint64(c.Offset) | size |
		w.image.Windows[c.Window].Offset | 8
	c.Mode, c.Width = uint8(gen.AccessExact), uint8(all&-all)
}

func (w *ringWriter) advance(u *ringUse) {
	for range u.times {
		w.out = append(w.out, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeAdvance,
			Index: w.indexes[u.ring], Value: u.advance}})
	}
}

func (w *ringWriter) with(u *ringUse, place gen.Place) lmb.Command {
	c := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWith, Index: w.indexes[u.ring],
		Mode: uint8(place), Amount: u.shift}}
	if place == gen.PlaceValue {
		c.Mask = u.parity
	}
	return c
}

// valueUse returns the index of the next use that moves the value of a command, or -1.
func (w *ringWriter) valueUse(c *lmb.Command, space spaceKey, address uint64) int {
	isStore := isKind(c.Opcode, gen.OpcodeWrite)
	if !isStore && (c.Opcode != gen.OpcodeExpect || c.Mask == 0) {
		return -1
	}
	for i := range w.options.moves {
		u := &w.options.moves[i]
		if u.isValue && !w.done[i] && u.space == space && u.address == address &&
			u.isStore == isStore && u.size == uint64(c.Width) {
			return i
		}
	}
	return -1
}
