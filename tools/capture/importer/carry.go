package importer

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// Carry says that the program stores to the register To what it has loaded from the register From,
// so that the image carries the value from one to the other instead of storing the recorded one.
type Carry struct {
	From, To Range // of one address
	// By the line of a store: the line of its load, as --again has shown. Other stores to To keep
	// their recorded values. Nil: import finds the loads, and each store must have one
	Loads map[int]int
}

// ParseCarry parses FROM=TO, two registers in the form of ParseRange.
func ParseCarry(spec string) (c Carry, err error) {
	from, to, ok := strings.Cut(spec, "=")
	if !ok {
		return c, traces.UsageError("%q must have the form FROM=TO, such as 0x38=0x18f0: a "+
			"register that is loaded, and the one to which its value is stored", spec)
	}
	if c.From, err = ParseRange(from); err == nil {
		c.To, err = ParseRange(to)
	}
	if err == nil && (c.From.First != c.From.Last || c.To.First != c.To.Last ||
		c.From.Bus || c.To.Bus) {
		err = traces.UsageError("%q must name two registers of the device, not ranges or host "+
			"memory", spec)
	}
	return c, err
}

func (c *Carry) String() string {
	return fmt.Sprintf("%s0x%x=%s0x%x", c.From.flagText(), c.From.First, c.To.flagText(),
		c.To.First)
}

// carrier turns loads whose values the program stores later, and these stores, into copies through
// a scratch tensor.
type carrier struct {
	*program
	result   passResult
	sequence int // number of the current sequence
	// For the current Carry
	loads, stores []carriedAccess
}

// carriedAccess is a load or store of a register of a Carry.
type carriedAccess struct {
	i        int // index of the step; -1: outside the part or frame
	line     int
	sequence int
	value    uint64
	tight    bool // the access before is a load of the same register, with another value
}

func (c *carrier) run() (passResult, error) {
	var all []transfer
	if len(c.options.Carry) > 0 {
		c.splitCarried()
	}
	for i := range c.options.Carry {
		list, err := c.transfersOf(&c.options.Carry[i], i)
		if err != nil {
			return c.result, err
		}
		all = append(all, list...)
	}
	if err := c.assignSlots(all); err != nil {
		return c.result, err
	}
	c.ignoreOtherLoads()
	c.findCarries()
	return c.result, nil
}

// splitCarried splits steps of several accesses that contain a register of a Carry.
func (c *carrier) splitCarried() {
	_ = c.steps.rewrite(func(s *step, out *stepList) error {
		if s.op != stepStore && s.op != stepLoad || s.tensorIndex() >= 0 ||
			s.elementCount() == 1 || !c.isCarried(s) {
			out.appendStep(*s)
			return nil
		}
		for k := range s.elementCount() {
			out.appendStep(c.singleAccess(s, k))
		}
		return nil
	})
}

// isCarried reports whether a step accesses a register of a Carry.
func (p *program) isCarried(s *step) bool {
	for i := range p.options.Carry {
		c := &p.options.Carry[i]
		from, _ := p.isInRanges(s, []Range{c.From})
		to, _ := p.isInRanges(s, []Range{c.To})
		if from && s.op != stepStore || to && s.op == stepStore {
			return true
		}
	}
	return false
}

// transfer is a loaded value and its stores.
type transfer struct {
	load   int   // index of the step
	stores []int // indexes of steps
}

// transfersOf returns the transfers of a Carry, the option with this number.
func (c *carrier) transfersOf(o *Carry, number int) ([]transfer, error) {
	c.collect(o, number)
	if len(c.loads) == 0 || len(c.stores) == 0 {
		c.result.addWarning(0, "--carry %s has no effect: the trace has %s of the first register "+
			"and %s to the second", o, english.Count(len(c.loads), "load"),
			english.Count(len(c.stores), "store"))
		return nil, nil
	}
	sources, err := c.sourcesOf(o)
	if err != nil {
		return nil, err
	}
	byLoad := map[int]int{}
	var list []transfer
	carried := 0
	for i, from := range sources {
		if from < 0 {
			continue
		}
		load, store := &c.loads[from], &c.stores[i]
		isWait := load.tight && !slices.Contains(sources, from-1)
		if err := c.checkTransfer(o, load, store, isWait); err != nil {
			return nil, err
		}
		k, known := byLoad[from]
		if !known {
			k = len(list)
			byLoad[from] = k
			list = append(list, transfer{load: load.i})
		}
		list[k].stores = append(list[k].stores, store.i)
		carried++
	}
	c.addSummary("%s of %s carried to %s", english.Count(carried, "value"),
		placeOfRange(&o.From), placeOfRange(&o.To))
	return list, nil
}

func placeOfRange(r *Range) string { return fmt.Sprintf("%s0x%x", r.Place.flagText(), r.First) }

func (c *carrier) addSummary(format string, a ...any) {
	if c.result.summary != "" {
		c.result.summary += "; "
	}
	c.result.summary += fmt.Sprintf(format, a...)
}

// collect finds the accesses of the registers of a Carry, in the order of their lines.
func (c *carrier) collect(o *Carry, number int) {
	c.loads, c.stores, c.sequence = nil, nil, 0
	outside := slices.Clone(c.outsideLoads[number])
	addOutside := func(before int) {
		for len(outside) > 0 && outside[0].line < before {
			c.loads, outside = append(c.loads, outside[0]), outside[1:]
		}
	}
	var last *step
	for i := range c.steps.count {
		s := c.steps.at(i)
		if s.op == stepSequenceStart {
			c.sequence++
		}
		if !s.accessesDevice() {
			continue
		}
		a := carriedAccess{i: i, line: int(s.line), sequence: c.sequence, value: s.value}
		from, _ := c.isInRanges(s, []Range{o.From})
		to, _ := c.isInRanges(s, []Range{o.To})
		switch {
		case from && (s.op == stepLoad || s.op == stepIgnore) && s.tensorIndex() < 0:
			addOutside(a.line)
			a.tight = last != nil && last.op == s.op && last.window == s.window &&
				last.target == s.target && last.offset == s.offset && last.value != s.value
			c.loads = append(c.loads, a)
		case to && s.op == stepStore && s.tensorIndex() < 0:
			addOutside(a.line)
			c.stores = append(c.stores, a)
		}
		last = s
	}
}

// sourcesOf returns the index of the load of each store, or -1.
func (c *carrier) sourcesOf(o *Carry) (sources []int, err error) {
	if o.Loads == nil {
		sources, _, ok := again.Sources(moved(c.loads), moved(c.stores))
		if !ok {
			return nil, c.notEqual(o)
		}
		return sources, nil
	}
	for i := range c.stores {
		line, known := o.Loads[c.stores[i].line]
		from := -1
		if known {
			from = slices.IndexFunc(c.loads, func(a carriedAccess) bool { return a.line == line })
		}
		sources = append(sources, from)
	}
	return sources, nil
}

func moved(list []carriedAccess) (out []again.Moved) {
	for i := range list {
		out = append(out, list[i].moved())
	}
	return out
}

func (a *carriedAccess) moved() again.Moved {
	return again.Moved{At: a.line, A: a.value, B: a.value}
}

// notEqual returns the error for the first store whose value no load returned.
func (c *carrier) notEqual(o *Carry) error {
	s, load := &c.stores[0], &c.loads[0]
	for i := range c.stores {
		s = &c.stores[i]
		for k := range c.loads {
			if c.loads[k].line < s.line {
				load = &c.loads[k]
			}
		}
		if load.line < s.line && load.value != s.value {
			break
		}
	}
	width := c.steps.at(s.i).width
	reason := "lm carries equal values only"
	if how := again.HowDerived(width, load.moved(), s.moved()); how != "" {
		reason = "this is the loaded value" + how + ", as an index of a ring is, and lm cannot " +
			"repeat that yet"
	}
	return traces.TraceError(s.line, "0x%x is stored to %s, but line %d loads 0x%x from %s: %s; "+
		"leave out --carry %s", s.value, placeOfRange(&o.To), load.line, load.value,
		placeOfRange(&o.From), reason, o)
}

// checkTransfer returns an error if an image cannot carry a value.
func (c *carrier) checkTransfer(o *Carry, load, store *carriedAccess, isWait bool) error {
	text := fmt.Sprintf("the value stored to %s is the one that line %d loads from %s",
		placeOfRange(&o.To), load.line, placeOfRange(&o.From))
	if load.i < 0 || load.sequence != store.sequence {
		return traces.TraceError(store.line, "%s, in another sequence or outside the part: begin "+
			"the frame or part at line %d or before", text, load.line)
	}
	l, s := c.steps.at(load.i), c.steps.at(store.i)
	switch {
	case l.width != s.width:
		return traces.TraceError(store.line, "%s, but it has %d bytes and the load has %d: an "+
			"image carries whole accesses only", text, s.width, l.width)
	case isWait || c.isAwaited(l):
		return traces.TraceError(store.line, "%s, and for which the image waits: what only a "+
			"poll saw cannot be carried", text)
	}
	return nil
}

// isAwaited reports whether the image waits for the value of a load.
func (p *program) isAwaited(s *step) bool {
	_, listed := p.listedMask(s)
	waits, _ := p.isInRanges(s, p.options.Wait)
	return listed || waits || s.hasFlag(flagInterrupt)
}

// assignSlots turns the accesses of transfers into copies. A place in the scratch tensor is used
// again after the last store of its value.
func (c *carrier) assignSlots(list []transfer) error {
	slices.SortFunc(list, func(a, b transfer) int { return a.load - b.load })
	width := uint32(0)
	for i := range list {
		width = max(width, uint32(c.steps.at(list[i].load).width))
	}
	var usedUntil []int // for each slot
	for i := range list {
		t := &list[i]
		slot := slices.IndexFunc(usedUntil, func(until int) bool { return until < t.load })
		if slot < 0 {
			slot = len(usedUntil)
			usedUntil = append(usedUntil, 0)
		}
		usedUntil[slot] = slices.Max(t.stores)
		at := int32(uint32(slot) * width)
		load := c.steps.at(t.load)
		load.op, load.operand = stepCarryOut, at
		for _, k := range t.stores {
			s := c.steps.at(k)
			s.op, s.operand = stepCarryIn, at
		}
	}
	c.scratchSize = uint32(len(usedUntil)) * width
	if c.scratchSize > fbs.ScratchMax {
		return traces.TraceError(0, "%d values are carried at the same time, but an image has "+
			"room for %d bytes: import less with --part FROM..TO", len(usedUntil), fbs.ScratchMax)
	}
	if len(list) > 0 {
		c.result.summary += fmt.Sprintf(", in %s of scratch",
			english.Count(int(c.scratchSize), "byte"))
	}
	return nil
}

// ignoreOtherLoads ignores values of carried registers that are not stored: they vary, too.
func (c *carrier) ignoreOtherLoads() {
	others := 0
	for i := range c.steps.count {
		if s := c.steps.at(i); s.op == stepLoad && s.tensorIndex() < 0 && c.isCarried(s) {
			s.op = stepIgnore
			others += int(s.count)
		}
	}
	if others > 0 {
		c.addSummary("%s of these registers ignored", english.Count(others, "other load"))
	}
}

// setCarry makes the copy of a carried value.
func (m *commandBuilder) setCarry(c *lmb.Command, s *step) {
	c.Opcode, c.Mode = gen.OpcodeCopyOut, uint8(gen.AccessExact)
	if s.op == stepCarryIn {
		c.Opcode = gen.OpcodeCopyIn
		m.verdict.carried++
	}
	c.Index, c.Value, c.Amount = 1, uint64(s.operand), uint32(s.width)
}

// scratchTensor returns the tensor through which values are carried, the first of the image.
func (p *program) scratchTensor() lmb.Tensor {
	name := "carried"
	for slices.ContainsFunc(p.tensors, func(t tensor) bool { return t.Name == name }) {
		name += "_"
	}
	return lmb.Tensor{Name: name, Role: gen.RoleScratch, DType: gen.DTypeUint8,
		Shape: []uint32{p.scratchSize}}
}

// noteOutside notes a load of a register of a Carry that is outside the part or frame.
func (l *lifter) noteOutside(a *traces.Access) {
	for i := range l.options.Carry {
		from := &l.options.Carry[i].From
		if p := from.withDefaultBar(l.options.Bar); a.Op == traces.OpLoad && p.HasBar &&
			p.Bar == a.Bar && a.Offset == from.First {
			l.outsideLoads[i] = append(l.outsideLoads[i],
				carriedAccess{i: -1, line: a.Line, value: a.Value})
		}
	}
}

// indexOfTensor returns the number that commands have for an input or output.
func (p *program) indexOfTensor(index int32) uint16 {
	if p.scratchSize > 0 {
		index++
	}
	return 1 + uint16(index)
}
