package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"
)

// On a terminal, the data of a tensor look as NumPy prints them.

const (
	// abbreviateAbove is the number of elements above which only the edges are shown.
	abbreviateAbove = 1000
	// edgeElements is the number of elements that are then shown at each end of a dimension.
	edgeElements = 3
	// omissionMark is printed in place of the elements that are not shown.
	omissionMark = "..."
)

// tensorPrinter prints nested lists of elements.
type tensorPrinter struct {
	*elements
	data       []byte
	abbreviate bool
	width      int // number of characters of the longest element that is shown
	columns    int
	out        strings.Builder
}

// formatForScreen returns the type of a tensor and its elements in nested brackets. If there are
// many and `all` is false, it shows only those at the edges of each dimension.
func (e *elements) formatForScreen(data []byte, all bool, columns int) string {
	count := len(data) / int(fbs.DTypeSize(e.dtype))
	p := &tensorPrinter{elements: e, data: data, columns: columns,
		abbreviate: !all && count > abbreviateAbove}
	p.visitShown(0, 0, count, func(first int) {
		p.width = max(p.width, utf8.RuneCountInString(p.elementText(first)))
	})
	fmt.Fprintf(&p.out, "%s\n", lmb.TypeText(e.dtype, e.shape))
	p.printPart(0, 0, count)
	p.out.WriteString("\n")
	return p.out.String()
}

func (p *tensorPrinter) elementText(element int) string {
	size := int(fbs.DTypeSize(p.dtype))
	return npy.Words(p.dtype, p.data[element*size:][:size])[0]
}

// shownIndexes returns the indexes of a dimension that are shown; -1 is in place of those that are
// not.
func (p *tensorPrinter) shownIndexes(dimension int) (list []int) {
	n := int(p.shape[dimension])
	for i := 0; i < n; i++ {
		if p.abbreviate && n > 2*edgeElements && i == edgeElements {
			list = append(list, -1)
			i = n - edgeElements
		}
		list = append(list, i)
	}
	return list
}

// visitShown calls `do` for each shown element of a part of the tensor: count elements, of which
// the first has the index `first`, in the dimensions from `dimension` on.
func (p *tensorPrinter) visitShown(dimension, first, count int, do func(element int)) {
	if dimension == len(p.shape) {
		do(first)
		return
	}
	part := count / int(p.shape[dimension])
	for _, i := range p.shownIndexes(dimension) {
		if i >= 0 {
			p.visitShown(dimension+1, first+i*part, part, do)
		}
	}
}

// printPart prints a part of the tensor; the parameters are those of visitShown.
func (p *tensorPrinter) printPart(dimension, first, count int) {
	switch dimension {
	case len(p.shape):
		p.out.WriteString(p.elementText(first))
		return
	case len(p.shape) - 1:
		p.printRow(dimension, first)
		return
	}
	part := count / int(p.shape[dimension])
	p.out.WriteString("[")
	for n, i := range p.shownIndexes(dimension) {
		if n > 0 {
			p.out.WriteString("\n" + strings.Repeat(" ", dimension+1))
		}
		if i < 0 {
			p.out.WriteString(omissionMark)
		} else {
			p.printPart(dimension+1, first+i*part, part)
		}
	}
	p.out.WriteString("]")
}

// printRow prints the last dimension, on several lines if it is long.
func (p *tensorPrinter) printRow(dimension, first int) {
	p.out.WriteString("[")
	column := dimension + 1
	for n, i := range p.shownIndexes(dimension) {
		word := omissionMark
		if i >= 0 {
			word = fmt.Sprintf("%*s", p.width, p.elementText(first+i))
		}
		switch {
		case n == 0:
		case column+1+len(word)+1 > p.columns: // with a space before and a bracket after
			p.out.WriteString("\n" + strings.Repeat(" ", dimension+1))
			column = dimension + 1
		default:
			p.out.WriteString(" ")
			column++
		}
		p.out.WriteString(word)
		column += len(word)
	}
	p.out.WriteString("]")
}
