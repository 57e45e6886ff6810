// Package again compares recordings of the same work. Where they agree, an image may expect what
// was recorded; a difference is explained, or there is no image.
package again

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/align"
)

// Place is a register: what an access loads or stores.
type Place struct {
	Offset uint64 `json:"offset"` // in the BAR, in bytes; the address in host memory
	Bar    uint8  `json:"bar"`
	Width  uint8  `json:"width"` // in bytes
	// Of host memory: address of the last byte, in the recording that is imported
	Last uint64 `json:"last,omitempty"`
}

func placeOf(a *traces.Access) Place {
	return Place{Offset: a.Offset, Bar: a.Bar, Width: a.Width}
}

// String returns the place as flags of lm import name it.
func (p Place) String() string {
	if p.Last != 0 {
		return fmt.Sprintf("bus:0x%x-0x%x", p.Offset, p.Last)
	}
	return fmt.Sprintf("bar%d+0x%x", p.Bar, p.Offset)
}

// Kind says what a difference is.
type Kind string

// The kinds of differences. No image can repeat one of the last four.
const (
	Varies    Kind = "varies"    // a load has another value, and no store depends on it
	Waits     Kind = "waits"     // the program loaded a register another number of times
	Input     Kind = "input"     // a store is data of a named input
	Address   Kind = "address"   // a store has the bus address of the recording's host memory
	Missing   Kind = "missing"   // a store that only one recording has
	Carried   Kind = "carried"   // a store has a value that a register returned before
	Returned  Kind = "returned"  // a number of the program's choice, which the device returns
	Gone      Kind = "gone"      // all loads of one recording returned only 1 bits
	Derived   Kind = "derived"   // a store has a value that follows from what a register returned
	Interrupt Kind = "interrupt" // a store has an interrupt address of the recording machine
	Unknown   Kind = "unknown"   // a store has another value, for no reason that is known
)

// Difference is a place at which two recordings differ in the same way.
type Difference struct {
	Kind  Kind  `json:"kind"`
	Place Place `json:"place"`
	Count int   `json:"count"`
	// Lines and values of the first, in both recordings. Of Waits, A and B count the loads.
	LineA  int    `json:"line_a"`
	LineB  int    `json:"line_b"`
	A      uint64 `json:"a"`
	B      uint64 `json:"b"`
	Source string `json:"source,omitempty"` // Carried, Derived: the register that was loaded
	How    string `json:"how,omitempty"`    // Derived: what follows the source in messages
}

// Comparison is how another recording differs from the one that is imported.
type Comparison struct {
	Stores      int          `json:"stores"`    // that both have
	Unaligned   int          `json:"unaligned"` // that only one has
	Loads       int          `json:"loads"`     // that both have
	Agreed      int          `json:"agreed"`    // of these, with the same value
	Transfers   int          `json:"transfers"` // of host memory, that both have
	Differences []Difference `json:"differences"`
	Moves       []Move       `json:"-"` // registers that stores carry values to
	// By the line of a load in the imported recording: the register, whose value varies there
	Varying map[int]Place `json:"-"`
}

// Move says that stores to a place have the values that loads of another place returned.
type Move struct {
	From, To Place
	Loads    map[int]int // lines of stores and their loads, in the recording that is imported
}

const unalignedMax = 100 // one of that many stores may be in only one recording

// Compare compares the imported recording `a` with another recording `b` of the same work. isInput
// reports whether a place of `a` lies wholly in data of a named input.
//
// Stores are aligned by place, in order. Between two aligned stores, the loads of each register are
// compared in order. The error names the first lines that cannot be aligned.
func Compare(a, b *Recording, isInput func(p Place) bool) (*Comparison, error) {
	c := &comparer{a: a.Accesses, b: b.Accesses, isInput: isInput, found: map[Difference]int{},
		host: blocks{a: a, b: b, inB: map[uint64]uint64{}, inA: map[uint64]uint64{}},
		last: map[Place]pair{}, moves: map[Place]*Move{},
		to: &Comparison{Differences: []Difference{}, Varying: map[int]Place{}}}
	stores, err := c.align()
	if err != nil {
		return nil, err
	}
	c.loads, c.stores = c.pairLoads(stores), c.storesByPlace(stores)
	from := pair{}
	for _, s := range append(stores, pair{len(c.a), len(c.b)}) {
		c.compareLoads(from, s)
		c.addMissing(from, s)
		if s.a < len(c.a) {
			c.compareStores(&c.a[s.a], &c.b[s.b])
		}
		from = pair{s.a + 1, s.b + 1}
	}
	if err := c.compareHost(); err != nil {
		return nil, err
	}
	for _, lines := range []pair{{a: onlyOnes(c.a)}, {b: onlyOnes(c.b)}} {
		if lines != (pair{}) {
			c.add(Difference{Kind: Gone}, lines.a, lines.b, 0, 0)
		}
	}
	return c.to, nil
}

// onlyOnes returns the line of the first load if all loads returned only 1 bits, as of a device
// that is gone; otherwise 0.
func onlyOnes(list []traces.Access) (line int) {
	for i := range list {
		a := &list[i]
		if a.Op != traces.OpLoad {
			continue
		}
		if a.Value != ^uint64(0)>>(64-8*a.Width) {
			return 0
		}
		line = cmp.Or(line, a.Line)
	}
	return line
}

// addMissing adds the stores between two aligned stores.
func (c *comparer) addMissing(from, to pair) {
	for i := from.a; i < to.a; i++ {
		if a := &c.a[i]; a.Op == traces.OpStore {
			c.add(Difference{Kind: Missing, Place: placeOf(a)}, a.Line, 0, a.Value, 0)
		}
	}
	for i := from.b; i < to.b; i++ {
		if b := &c.b[i]; b.Op == traces.OpStore {
			c.add(Difference{Kind: Missing, Place: placeOf(b)}, 0, b.Line, 0, b.Value)
		}
	}
}

// pair is an index or a line in each recording.
type pair struct{ a, b int }

type comparer struct {
	a, b    []traces.Access
	isInput func(p Place) bool
	host    blocks
	last    map[Place]pair // for each register, the last load of both recordings
	// Loads that belong together, and aligned stores
	loads, stores map[Place][]Moved
	moves         map[Place]*Move // by the place of the stores; nil: they carry no values
	found         map[Difference]int
	to            *Comparison
}

// align returns the stores that both recordings have.
func (c *comparer) align() (list []pair, err error) {
	storesA, placesA := storesOf(c.a)
	storesB, placesB := storesOf(c.b)
	first := pair{}
	for _, p := range align.Common(placesA, placesB) {
		list = append(list, pair{storesA[p.A], storesB[p.B]})
		if first == (pair{p.A, p.B}) {
			first = pair{p.A + 1, p.B + 1}
		}
	}
	all := len(storesA) + len(storesB)
	c.to.Stores, c.to.Unaligned = len(list), all-2*len(list)
	if c.to.Unaligned*unalignedMax > all {
		return nil, traces.TraceError(0, "%d of %d stores are in only one of the two recordings, "+
			"the first %s: these are not recordings of the same work", c.to.Unaligned, all,
			c.linesOf(storesA, storesB, first))
	}
	return list, nil
}

func storesOf(list []traces.Access) (stores []int, places []Place) {
	for i := range list {
		if list[i].Op == traces.OpStore {
			stores, places = append(stores, i), append(places, placeOf(&list[i]))
		}
	}
	return stores, places
}

// linesOf describes a store of each recording.
func (c *comparer) linesOf(a, b []int, at pair) string {
	end := func(list []traces.Access, stores []int, i int) string {
		if i >= len(stores) {
			return "the end"
		}
		return fmt.Sprintf("line %d", list[stores[i]].Line)
	}
	return fmt.Sprintf("at %s of this recording and %s of the other", end(c.a, a, at.a),
		end(c.b, b, at.b))
}

// compareLoads compares the loads between two aligned stores of each recording.
func (c *comparer) compareLoads(from, to pair) {
	loads := map[Place]*[2][]int{}
	var order []Place
	collect := func(side int, list []traces.Access, from, to int) {
		for i := from; i < to; i++ {
			if list[i].Op != traces.OpLoad {
				continue
			}
			p := placeOf(&list[i])
			if loads[p] == nil {
				loads[p] = new([2][]int)
				order = append(order, p)
			}
			loads[p][side] = append(loads[p][side], i)
		}
	}
	collect(0, c.a, from.a, to.a)
	collect(1, c.b, from.b, to.b)
	for _, p := range order {
		c.compareRegister(p, loads[p][0], loads[p][1])
	}
}

// compareRegister compares the loads of a register between two stores. If their number differs, or
// a value before the last, the program waited for the last value.
func (c *comparer) compareRegister(p Place, inA, inB []int) {
	n, all := min(len(inA), len(inB)), inA
	waits := len(inA) != len(inB)
	for i := range n - 1 {
		waits = waits || c.a[inA[i]].Value != c.b[inB[i]].Value
	}
	if waits {
		first := pair{}
		if len(inA) > 0 {
			first.a = c.a[inA[0]].Line
		}
		if len(inB) > 0 {
			first.b = c.b[inB[0]].Line
		}
		c.add(Difference{Kind: Waits, Place: p}, first.a, first.b, uint64(len(inA)),
			uint64(len(inB)))
		n = min(n, 1)
		inA, inB = inA[len(inA)-n:], inB[len(inB)-n:]
	}
	for i := range n {
		a, b := &c.a[inA[i]], &c.b[inB[i]]
		c.last[p] = pair{inA[i], inB[i]}
		c.to.Loads++
		if a.Value == b.Value {
			c.to.Agreed++
			continue
		}
		c.add(Difference{Kind: Varies, Place: p}, a.Line, b.Line, a.Value, b.Value)
		// Then the value that the earlier loads awaited is not known, either.
		for _, load := range all {
			c.to.Varying[c.a[load].Line] = p
		}
	}
}

func (c *comparer) compareStores(a, b *traces.Access) {
	if a.Value == b.Value {
		return
	}
	d := Difference{Kind: Unknown, Place: placeOf(a)}
	move := c.moveTo(d.Place)
	carried := false
	if move != nil {
		_, carried = move.Loads[a.Line]
	}
	switch {
	case c.isInput(d.Place):
		d.Kind = Input
	case a.Width >= 4 && c.host.areOne(a.Value, b.Value):
		d.Kind = Address
	case carried:
		d.Kind, d.Source = Carried, move.From.String()
	case traces.IsInterruptAddress(a.Value) && traces.IsInterruptAddress(b.Value):
		d.Kind = Interrupt
	default:
		if from, how := c.derivedFrom(a, b); how != "" {
			d.Kind, d.Source, d.How = Derived, from.String(), how
		}
	}
	c.add(d, a.Line, b.Line, a.Value, b.Value)
}

// add counts equal differences, and keeps the lines and values of the first.
func (c *comparer) add(d Difference, lineA, lineB int, a, b uint64) {
	i, known := c.found[d]
	if !known {
		i = len(c.to.Differences)
		c.found[d] = i
		d.LineA, d.LineB, d.A, d.B = lineA, lineB, a, b
		c.to.Differences = append(c.to.Differences, d)
	}
	c.to.Differences[i].Count++
}

// Err returns an error if a store differs for a reason that no image can repeat.
func (c *Comparison) Err() error {
	i := slices.IndexFunc(c.Differences, func(d Difference) bool {
		return slices.Contains([]Kind{Gone, Derived, Interrupt, Unknown}, d.Kind)
	})
	if i < 0 {
		return nil
	}
	d := &c.Differences[i]
	text := fmt.Sprintf("line %d of the other recording stores 0x%x to %s, but this one 0x%x",
		d.LineB, d.B, d.Place, d.A)
	switch d.Kind {
	case Gone:
		return traces.TraceError(d.LineA, "all loads of %s returned only ones: its device was gone",
			map[bool]string{true: "the other recording", false: "this recording"}[d.LineA == 0])
	case Derived:
		text += fmt.Sprintf(": this is the value of %s%s; if the device ignores it, leave the "+
			"store out with --omit %s", d.Source, d.How, d.Place)
	case Interrupt:
		text += fmt.Sprintf(": these are addresses of the recording machine's interrupt "+
			"controller; leave out the store, and what unmasks the interrupt, with --omit %s",
			d.Place)
	default:
		text += fmt.Sprintf(": if it is data, name it with --input, or keep this one with "+
			"--as-data %s; never a bus address: that needs recordings with host memory", d.Place)
	}
	return traces.TraceError(d.LineA, "%s", text)
}
