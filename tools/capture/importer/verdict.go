package importer

import (
	"fmt"
	"strings"

	"lightmetal/tools/image/english"
)

// loadHistory is what the trace shows of a register whose loads are compared.
type loadHistory struct {
	value   uint64
	count   int
	changed bool
}

// verdict counts the comparisons of an image by what the trace shows of their registers: a value
// that has changed, or that was seen once, may differ in a replay.
type verdict struct {
	registers               map[loadKey]*loadHistory
	same, changed, seenOnce int // numbers of expects
	ignored                 int // loads whose values are not compared
	behindInterrupts        int // polls of the first load after an interrupt
	carried                 int // stores of values that the image has loaded
}

func (m *commandBuilder) noteLoads() {
	m.verdict.registers = map[loadKey]*loadHistory{}
	for i := range m.steps.count {
		s := m.steps.at(i)
		if s.op != stepLoad || s.hasFlag(flagMemory) || s.tensorIndex() >= 0 {
			continue
		}
		key := loadKey{m.registerOf(s), s.width}
		h := m.verdict.registers[key]
		if h == nil {
			h = &loadHistory{value: s.value}
			m.verdict.registers[key] = h
		}
		h.count += int(s.count)
		h.changed = h.changed || (s.value^h.value)&m.significantMask(s) != 0
	}
}

// addExpect counts an expect of the value that a load returned.
func (m *commandBuilder) addExpect(s *step) {
	v := &m.verdict
	h := v.registers[loadKey{m.registerOf(s), s.width}]
	switch {
	case h == nil || h.count == 1:
		v.seenOnce++
	case h.changed:
		v.changed++
	default:
		v.same++
	}
}

// verdictText returns the line at the end of the report.
func (m *commandBuilder) verdictText() string {
	var kinds, list clauses
	v := &m.verdict
	recordings := ""
	if n := m.options.repeated; n > 0 {
		recordings = fmt.Sprintf(" in %d recordings", 1+n)
	}
	kinds.addIfAny(v.same, "%s on registers that never changed%s", english.Number(v.same),
		recordings)
	kinds.addIfAny(v.changed, "%s on registers that changed", english.Number(v.changed))
	kinds.addIfAny(v.seenOnce, "%s on registers seen once", english.Number(v.seenOnce))
	list.addIfAny(v.same+v.changed+v.seenOnce, "%s: %s",
		english.Count(v.same+v.changed+v.seenOnce, "expect"), strings.Join(kinds, ", "))
	list.addIfAny(m.compares, "%s of memory", english.Count(m.compares, "compare"))
	list.addIfAny(v.ignored, "%s ignored", english.Count(v.ignored, "value"))
	waits := english.Count(m.polls, "wait")
	if v.behindInterrupts > 0 {
		waits += " (" + english.Number(v.behindInterrupts) + " behind interrupts)"
	}
	list.addIfAny(m.polls, "%s", waits)
	list.addIfAny(v.carried, "%s carried", english.Number(v.carried))
	return strings.Join(list, "; ")
}
