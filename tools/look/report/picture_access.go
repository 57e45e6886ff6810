package report

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

const (
	accessColumnsMax = 1024
	accessRowsMax    = 256
	accessBandsMax   = 32 // address spaces with a band each; all others share one band
	accessTipRanges  = 6  // ranges in the tooltip of a band

	// In pixels.
	bandLabelHeight  = 22 // above a band
	rangeLabelHeight = 12
	rangeGap         = 2 // between two ranges of a band
)

// accessPicture shows the addresses that commands access against the numbers of the commands: a
// column for adjacent commands, a band of rows for each address space. One cell shows one kind of
// access, the last one in accessKinds that occurs there.
type accessPicture struct {
	Columns, Height, RowHeight int
	Bands                      []accessBand
	Cells                      []accessCells
	Sequences                  []accessSequence
	Notes                      []string
	cells                      []uint8 // rows of Columns cells: 0, or 1 + index in accessKinds
	tops                       []int   // of each row, in pixels
}

// accessKinds are the CSS classes and the meanings of the kinds of cells.
var accessKinds = []legendEntry{{"delay", "delays"}, {"written", "writes (host to device)"},
	{"read", "reads (device to host)"}, {"compared", "compares with golden data"},
	{"poll", "polls: waits for a value"}}

// Indexes in accessKinds, plus 1.
const (
	cellDelay = 1 + iota
	cellWritten
	cellRead
	cellCompared
	cellPoll
)

// accessBand is an address space.
type accessBand struct {
	Top, Height int // in pixels, without the label
	Label, Tip  string
	Ranges      []bandRange
	set         rangeSet
	total       Traffic
}

// bandRange is an accessed range of a band. Top and Height are in pixels.
type bandRange struct {
	Range
	Top, Height int
	Label       string // its first address; empty: no room
	row, rows   int    // index of its first row in the picture, number of rows
}

// accessCells are all cells of one kind: Path is the data of an SVG path, a line for each run of
// cells. Count is their number.
type accessCells struct {
	legendEntry
	Path  string
	Count int
}

// accessSequence is where a sequence begins and how wide it is, in percent.
type accessSequence struct {
	Left, Width float64
	Name        string
}

// accessPicture returns the picture of the counted sequences, nil if they access nothing.
func (r *Report) accessPicture() *accessPicture {
	a := r.analysis
	p := &accessPicture{}
	total := 0
	for _, i := range a.counted {
		total += int(a.view.Sequences[i].Count) - 1
	}
	if p.Columns = min(total, accessColumnsMax); p.Columns == 0 || len(a.accessed) == 0 {
		return nil
	}
	bandOf := p.addBands(r)
	p.layOut()
	p.cells = make([]uint8, p.Columns*len(p.tops))
	done := 0
	for _, i := range a.counted {
		s := &a.view.Sequences[i]
		p.Sequences = append(p.Sequences, accessSequence{100 * float64(done) / float64(total),
			100 * float64(s.Count-1) / float64(total), sanitize(a.view.Name(s.Name))})
		for e := range lmb.Walk(a.view, i) {
			column := (done + e.Index - int(s.First)) * p.Columns / total
			switch {
			case e.Command.Opcode == gen.OpcodePoint:
				a.mapPointedWindow(e.Command)
			case e.Size > 0:
				band := &p.Bands[bandOf[a.mappings[e.Command.Window].space]]
				p.mark(band, e, column)
			case e.Command.Opcode == gen.OpcodeDelay:
				p.set(0, column, cellDelay)
			}
		}
		done += int(s.Count) - 1
	}
	p.addPaths()
	return p
}

// addBands adds a band for delays and for each accessed space, and returns the indexes of the
// spaces' bands.
func (p *accessPicture) addBands(r *Report) map[*space]int {
	a := r.analysis
	if delay := a.opcodes[gen.OpcodeDelay]; delay != nil {
		p.Bands = append(p.Bands, accessBand{Label: "delays: " + countText(delay.Count),
			set: rangeSet{list: []Range{{}}}})
	}
	first := len(p.Bands)
	order := slices.Clone(a.accessed)
	slices.SortStableFunc(order,
		func(s, t *space) int { return cmp.Compare(t.total.total(), s.total.total()) })
	own := order[:min(len(order), accessBandsMax)]
	bandOf, rest := map[*space]int{}, -1
	for i, s := range a.accessed {
		at := len(p.Bands)
		isOwn := slices.Contains(own, s)
		if !isOwn && rest >= 0 {
			at = rest
		} else {
			p.Bands = append(p.Bands, accessBand{Label: r.devicePrefix(int(s.key.device)) +
				sanitize(r.Spaces[i].Name)})
		}
		if !isOwn {
			rest = at
		}
		b := &p.Bands[at]
		b.set.list = append(b.set.list, s.ranges.list...)
		b.set.mergedGaps += s.ranges.mergedGaps
		b.total.add(s.total, 1)
		bandOf[s] = at
	}
	if shared := len(order) - len(own); shared > 1 {
		p.Bands[rest].Label = fmt.Sprintf("%d further address spaces", shared)
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: the %d address spaces with the "+
			"most bytes have a band each, and %d share one.", len(own), shared))
	}
	merged := 0
	limit := (accessRowsMax - first) / (len(p.Bands) - first)
	for i := range p.Bands[first:] {
		b := &p.Bands[first+i]
		b.set.compact(limit)
		merged += b.set.mergedGaps
		b.Label += ": " + b.total.text()
		b.Tip = b.tip()
	}
	if merged > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: a band has at most %d ranges, so "+
			"the %s smallest gaps between accessed ranges are drawn as accessed.", limit,
			countText(uint64(merged))))
	}
	return bandOf
}

// tip lists the first ranges of the band.
func (b *accessBand) tip() string {
	text := b.Label
	for i := range b.set.list[:min(len(b.set.list), accessTipRanges)] {
		x := &b.set.list[i]
		text += fmt.Sprintf("; 0x%x to 0x%x, %s", x.First, x.Last, lmb.SizeText(x.Bytes()))
		if x.Area != "" {
			text += " (" + x.Area + ")"
		}
	}
	if more := len(b.set.list) - accessTipRanges; more > 0 {
		text += fmt.Sprintf("; and %d more ranges", more)
	}
	return text
}

// layOut assigns rows to each range of each band, more to larger ranges as far as there is room.
func (p *accessPicture) layOut() {
	rowsOf := func(x *Range, step int) int {
		digits := bits.Len64(x.Bytes() - 1)
		return 1 + digits*digits/(16*step) // step 1: 2 for 32 bytes, 7 for 1 KiB, 26 for 1 MiB
	}
	rows, step := accessRowsMax+1, 0
	for rows > accessRowsMax { // a large step gives each range one row
		rows, step = 0, step+1
		for i := range p.Bands {
			for j := range p.Bands[i].set.list {
				rows += rowsOf(&p.Bands[i].set.list[j], step)
			}
		}
	}
	p.RowHeight = 8
	switch { // even: the middle of a row is between two pixels
	case rows > 128:
		p.RowHeight = 4
	case rows > 48:
		p.RowHeight = 6
	}
	for i := range p.Bands {
		b := &p.Bands[i]
		b.Top = p.Height + bandLabelHeight
		labelEnd := b.Top
		p.Height = b.Top
		for j := range b.set.list {
			x := bandRange{Range: b.set.list[j], Top: p.Height, row: len(p.tops)}
			x.rows = rowsOf(&x.Range, step)
			x.Height = x.rows * p.RowHeight
			if first := x.First != 0 || x.Last != 0; first && x.Top >= labelEnd {
				x.Label, labelEnd = fmt.Sprintf("0x%x", x.First), x.Top+rangeLabelHeight
			}
			for row := range x.rows {
				p.tops = append(p.tops, x.Top+row*p.RowHeight)
			}
			b.Ranges = append(b.Ranges, x)
			p.Height += x.Height + rangeGap
		}
		b.Height = p.Height - rangeGap - b.Top
	}
}

// mark sets the cells of an access.
func (p *accessPicture) mark(b *accessBand, e *lmb.Effect, column int) {
	kind := uint8(cellWritten)
	switch {
	case lmb.CommandKind(e.Command) == lmb.Poll:
		kind = cellPoll
	case e.Compared > 0:
		kind = cellCompared
	case e.Written == 0:
		kind = cellRead
	}
	at, found := slices.BinarySearchFunc(b.Ranges, e.Address,
		func(x bandRange, address uint64) int { return cmp.Compare(x.First, address) })
	if !found {
		at-- // the range begins before the address
	}
	x := &b.Ranges[at]
	last := x.rowOf(min(e.Address+e.Size-1, x.Last))
	for row := x.rowOf(e.Address); row <= last; row++ {
		p.set(row, column, kind)
	}
}

func (x *bandRange) rowOf(address uint64) int {
	high, low := bits.Mul64(address-x.First, uint64(x.rows))
	row, _ := bits.Div64(high, low, x.Bytes())
	return x.row + int(row)
}

func (p *accessPicture) set(row, column int, kind uint8) {
	cell := &p.cells[row*p.Columns+column]
	*cell = max(*cell, kind)
}

func (p *accessPicture) addPaths() {
	for k := range accessKinds {
		kind := uint8(1 + k)
		var path []byte
		count := 0
		for row := range p.tops {
			path, count = p.appendRuns(path, count, row, kind)
		}
		if count > 0 {
			p.Cells = append(p.Cells, accessCells{accessKinds[k], string(path), count})
		}
	}
}

// appendRuns appends a row's runs of cells of one kind to a path.
func (p *accessPicture) appendRuns(path []byte, count, row int, kind uint8) ([]byte, int) {
	cells := p.cells[row*p.Columns : (row+1)*p.Columns]
	end := -1 // of the last run; -1: the row has none yet
	for i := 0; i < len(cells); i++ {
		if cells[i] != kind {
			continue
		}
		start := i
		for i < len(cells) && cells[i] == kind {
			i++
		}
		if end < 0 {
			path = fmt.Appendf(path, "M%d %d", start, p.tops[row]+p.RowHeight/2)
		} else {
			path = append(strconv.AppendInt(append(path, 'm'), int64(start-end), 10), " 0"...)
		}
		path = strconv.AppendInt(append(path, 'h'), int64(i-start), 10)
		count, end = count+i-start, i
	}
	return path, count
}
