package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"
)

// This file prints the data of a tensor for a terminal, as NumPy does.

const (
	// abbreviatedFrom is the number of elements above which only the edges are shown.
	abbreviatedFrom = 1000
	// edgeElements is how many elements are shown at each end of a dimension then.
	edgeElements = 3
	// omitted stands for the elements that are not shown.
	omitted = "..."
)

// tensorPrinter prints nested lists of elements.
type tensorPrinter struct {
	*elements
	data       []byte
	abbreviate bool
	width      int // of an element: the longest one that is shown
	columns    int
	out        strings.Builder
}

// formatForScreen returns the type of a tensor and its elements in nested brackets. If there are
// many and all is false, it shows only those at the edges of each dimension.
func (e *elements) formatForScreen(data []byte, all bool, columns int) string {
	count := len(data) / int(fbs.DTypeSize(e.dtype))
	p := &tensorPrinter{elements: e, data: data, columns: columns,
		abbreviate: !all && count > abbreviatedFrom}
	p.visit(0, 0, count, func(first int) {
		p.width = max(p.width, utf8.RuneCountInString(p.word(first)))
	})
	fmt.Fprintf(&p.out, "%s\n", lmb.TypeText(e.dtype, e.shape))
	p.list(0, 0, count)
	p.out.WriteString("\n")
	return p.out.String()
}

func (p *tensorPrinter) word(element int) string {
	size := int(fbs.DTypeSize(p.dtype))
	return npy.Words(p.dtype, p.data[element*size:][:size])[0]
}

// shown returns the indexes of a dimension that are shown; -1 stands for those that are not.
func (p *tensorPrinter) shown(dimension int) (list []int) {
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

// visit calls do for each element that is shown, of a part of the tensor: that of count elements
// from first on, with the dimensions from dimension on.
func (p *tensorPrinter) visit(dimension, first, count int, do func(element int)) {
	if dimension == len(p.shape) {
		do(first)
		return
	}
	part := count / int(p.shape[dimension])
	for _, i := range p.shown(dimension) {
		if i >= 0 {
			p.visit(dimension+1, first+i*part, part, do)
		}
	}
}

// list prints a part of the tensor, as visit visits it.
func (p *tensorPrinter) list(dimension, first, count int) {
	switch dimension {
	case len(p.shape):
		p.out.WriteString(p.word(first))
		return
	case len(p.shape) - 1:
		p.row(dimension, first)
		return
	}
	part := count / int(p.shape[dimension])
	p.out.WriteString("[")
	for n, i := range p.shown(dimension) {
		if n > 0 {
			p.out.WriteString("\n" + strings.Repeat(" ", dimension+1))
		}
		if i < 0 {
			p.out.WriteString(omitted)
		} else {
			p.list(dimension+1, first+i*part, part)
		}
	}
	p.out.WriteString("]")
}

// row prints the last dimension, on several lines if it is long.
func (p *tensorPrinter) row(dimension, first int) {
	p.out.WriteString("[")
	column := dimension + 1
	for n, i := range p.shown(dimension) {
		word := omitted
		if i >= 0 {
			word = fmt.Sprintf("%*s", p.width, p.word(first+i))
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
