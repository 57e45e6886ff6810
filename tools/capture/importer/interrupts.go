package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// interruptFinder leaves out the accesses of Options.Omit, and rejects stores of the recorded
// machine's interrupt addresses: in a replay, the device would store there.
type interruptFinder struct {
	*program
	result  passResult
	omitted int
	// What is rejected, in the order of the trace
	stores  []interruptStore
	unclear int // stores of values that may be interrupt addresses
	first   step
}

// interruptStore is an interrupt address, and the registers that belong to it.
type interruptStore struct {
	line   int
	text   string // what is known of it
	table  bool   // of MSI-X
	ranges []Range
}

func (f *interruptFinder) run() (passResult, error) {
	var all []interruptStore
	if len(f.options.Omit) > 0 {
		f.checkSteps()
		all = f.stores
		f.stores, f.unclear = nil, 0
		if err := f.steps.rewrite(f.omit); err != nil {
			return f.result, err
		}
		f.result.summary = english.Count(f.omitted, "access") + " left out"
	}
	f.checkSteps()
	f.warnPartlyOmitted(all)
	if len(f.stores) > 0 {
		return f.result, f.reject()
	}
	f.warnUnclear()
	return f.result, nil
}

func (f *interruptFinder) checkSteps() {
	for i := range f.steps.count {
		f.checkStep(i)
	}
}

// warnPartlyOmitted warns about the first interrupt of which some stores are left out, others not.
// Those that are still rejected need no warning.
func (f *interruptFinder) warnPartlyOmitted(all []interruptStore) {
	for _, o := range all {
		if slices.ContainsFunc(f.stores, o.isSame) {
			continue
		}
		for i := range f.steps.count {
			s := f.steps.at(i)
			if s.op != stepStore || s.target >= 0 {
				continue
			}
			if in, _ := f.isInRanges(s, o.ranges); in {
				f.result.addWarning(int(s.line), "--omit leaves out line %d, but not this store "+
					"to %s, which belongs to the same interrupt: leave out all of %s", o.line,
					f.placeText(s), rangesText([]interruptStore{o}))
				return
			}
		}
	}
}

func (s interruptStore) isSame(other interruptStore) bool { return s.line == other.line }

func (f *interruptFinder) omit(s *step, out *stepList) error {
	if !s.accessesDevice() {
		out.appendStep(*s)
		return nil
	}
	omitted, all := f.isInRanges(s, f.options.Omit)
	switch n := s.elementCount(); {
	case !omitted:
		out.appendStep(*s)
	case all:
		f.omitted += int(s.count)
	default:
		for k := range n {
			one := f.singleAccess(s, k)
			_ = f.omit(&one, out)
		}
	}
	return nil
}

func (f *interruptFinder) checkStep(i int) {
	s := f.steps.at(i)
	if s.op != stepStore || s.target >= 0 {
		return
	}
	if asData, _ := f.isInRanges(s, f.options.AsData); asData {
		return
	}
	if t := f.msix; t != nil {
		for k := range s.elementCount() {
			if f.checkTable(t, s, k) {
				return
			}
		}
	}
	if s.elementCount() > 1 || s.hasFlag(flagMemory) || s.width < 4 ||
		!traces.IsInterruptAddress(s.value&math.MaxUint32) || !isUpperAddress(s.value>>32) {
		return
	}
	if !f.checkShape(i) {
		if f.unclear++; f.unclear == 1 {
			f.first = *s
		}
	}
}

// isUpperAddress reports whether a word may be the upper half of an interrupt address: 0, or bits
// of an extended APIC id.
func isUpperAddress(word uint64) bool { return word&0xff == 0 }

const msixEntrySize = 16 // address, data and vector control

// checkTable rejects a store of an address or of data to the MSI-X table. Only stores to the
// vector control, and zeros, are harmless.
func (f *interruptFinder) checkTable(t *traces.MSIXTable, s *step, k uint32) bool {
	w := &f.windows[s.window]
	at := w.base + uint64(s.offset) + uint64(k)*uint64(s.width) - t.Offset
	if w.bar != t.Bar || at >= t.Size || at%msixEntrySize >= 12 || f.valueOf(s, k) == 0 {
		return false
	}
	first := t.Offset + at&^(msixEntrySize-1)
	f.stores = append(f.stores, interruptStore{int(s.lineOf(k)),
		fmt.Sprintf("0x%x, stored to %s, is in the device's MSI-X table (%s)", f.valueOf(s, k),
			f.placeText(s), t), true, []Range{f.barRange(s, first, first+msixEntrySize-1)}})
	return true
}

func (f *interruptFinder) barRange(s *step, first, last uint64) Range {
	r := Range{First: first, Last: last}
	if bar := f.windows[s.window].bar; bar != f.options.Bar {
		r.Place = Place{HasBar: true, Bar: bar}
	}
	return r
}

// checkShape rejects an interrupt address if what belongs to it is stored right after it: the
// upper half of the address and the data, as in an MSI-X table or in the registers IMWR of a
// DesignWare eDMA. There, data follows its addresses, and has 16 bits for each of two channels.
func (f *interruptFinder) checkShape(i int) bool {
	s := f.steps.at(i)
	words := f.wordsBehind(i)
	if words[1] == nil || !isUpperAddress(uint64(*words[1])) {
		return false
	}
	at := f.windows[s.window].base + uint64(s.offset)
	if at%msixEntrySize == 0 && words[2] != nil && *words[2] <= 0xffff &&
		(words[3] == nil || *words[3] <= 1) {
		f.stores = append(f.stores, interruptStore{int(s.line),
			fmt.Sprintf("0x%x, stored to %s, and the data 0x%x behind it are an entry of an "+
				"MSI-X table", uint32(s.value), f.placeText(s), *words[2]),
			true, []Range{f.barRange(s, at, at+msixEntrySize-1)}})
		return true
	}
	for k := uint64(2); k < uint64(len(words)); k++ {
		w := words[k]
		if w == nil || *w == 0 || *w>>16 != 0 && *w>>16 != *w&0xffff {
			continue
		}
		f.stores = append(f.stores, interruptStore{int(s.line),
			fmt.Sprintf("0x%x, stored to %s, and the data 0x%x, stored 0x%x bytes behind it, are "+
				"an interrupt of a DMA engine, as in the registers IMWR of a DesignWare eDMA",
				uint32(s.value), f.placeText(s), *w, 4*k),
			false, []Range{f.barRange(s, at, at+7), f.barRange(s, at+4*k, at+4*k+3)}})
		return true
	}
	return false
}

// wordsBehind returns the words that the program stored within the next 16 accesses to the 24
// bytes from the address of step i on; nil: none.
func (f *interruptFinder) wordsBehind(i int) (words [6]*uint32) {
	const accesses = 16
	first := f.steps.at(i)
	for n := 0; n < accesses && i < f.steps.count; i++ {
		s := f.steps.at(i)
		if !s.accessesDevice() {
			continue
		}
		n++
		if s.op != stepStore || s.window != first.window || s.target >= 0 || s.count > 1 ||
			s.offset < first.offset {
			continue
		}
		for at := uint32(0); at < uint32(s.width); at += 4 {
			k := (s.offset - first.offset + at) / 4
			if k < uint32(len(words)) && words[k] == nil {
				word := uint32(s.value >> (8 * at))
				words[k] = &word
			}
		}
	}
	return words
}

// reject returns the error for all stores that are rejected, with the flags for all of them.
func (f *interruptFinder) reject() error {
	s := &f.stores[0]
	also := ", and the store that unmasks this interrupt must be left out, too"
	if s.table {
		also = " with what masks the vectors"
	}
	list := rangesText(f.stores)
	return traces.TraceError(s.line, "%s: in a replay, the device would store to the interrupt "+
		"controller of the recorded machine; --omit %s leaves out these accesses%s; "+
		"--as-data %s keeps the values", s.text, list, also, list)
}

// rangesText returns the ranges of all stores in the form that flags accept.
func rangesText(stores []interruptStore) string {
	var all, merged []Range
	for i := range stores {
		all = append(all, stores[i].ranges...)
	}
	slices.SortFunc(all, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Bar, b.Bar), cmp.Compare(a.First, b.First))
	})
	for _, r := range all {
		if n := len(merged) - 1; n >= 0 && r.Place == merged[n].Place &&
			r.First <= merged[n].Last+1 {
			merged[n].Last = max(merged[n].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	var list []string
	for _, r := range merged {
		list = append(list, fmt.Sprintf("%s0x%x-0x%x", r.Place.flagText(), r.First, r.Last))
	}
	return strings.Join(list, ",")
}

func (f *interruptFinder) warnUnclear() {
	if f.unclear == 0 {
		return
	}
	s, more := &f.first, ""
	if f.unclear > 1 {
		more = fmt.Sprintf(" (the first of %d such values)", f.unclear)
	}
	place := f.placeText(s)
	f.result.addWarning(int(s.line), "0x%x, stored to %s%s, is in the range of x86's interrupt "+
		"addresses: if it is one, the device stores there in a replay; --omit %[2]s leaves the "+
		"accesses out, --as-data %[2]s keeps them without this warning", s.value, place, more)
}
