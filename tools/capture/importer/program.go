package importer

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// window is a window of the image.
type window struct {
	lmb.Window
	bar  uint8
	base uint64 // of its first byte in the BAR, as recorded
}

// program is what the recorded one did: steps, and what they refer to. The lifter
// makes it, and one pass after the other takes and rewrites it; what else a pass
// counts is its own.
type program struct {
	o       Options // never written
	board   *boards.Board
	chip    *chips.Chip
	steps   steps
	data    arena    // of runs
	masks   []uint64 // of polls
	aims    []aim
	windows []window
	bars    [6]uint64 // end of what is used in each BAR
	names   []string  // of marks
	tensors []tensor  // of the pass of that name
	hosts   []hostSpace
	late    [][]hostStore // of stepHost
	running []hold        // tiles whose cores were released

	matched map[Range]bool // those of Poll and Ignore that met a load

	loads, stores int // in the trace
}

// read says what was read.
func (p *program) read(t *traces.Trace) outcome {
	text := fmt.Sprintf("%s: %s, %s%s", english.Count(t.Lines, "line"),
		english.Count(p.loads, "load"), english.Count(p.stores, "store"),
		ignoredText(t.Ignored))
	return outcome{text, t.Warnings}
}

func ignoredText(list []traces.Count) (text string) {
	const shownMax = 4
	for i, c := range list {
		if i == shownMax {
			return text + fmt.Sprintf("; %d more kinds of lines", len(list)-i)
		}
		text += fmt.Sprintf("; left out %d %s", c.N, c.Name)
	}
	return text
}

// image puts the commands into an image.
func (p *program) image(t *traces.Trace, sequences []lmb.Sequence) (*lmb.Image, error) {
	if len(p.windows) == 0 {
		return nil, traces.Refuse(0, "no access to the device is left to replay")
	}
	image := &lmb.Image{
		Origin: lmb.Origin{Tool: p.o.Tool, Source: p.o.Source},
		Devices: []lmb.Device{{
			Board:  p.board.Name,
			Vendor: cmp.Or(t.Vendor, p.board.Vendor), Device: cmp.Or(t.Device, p.board.Device),
			Bars: p.barSizes(), Subsystem: p.o.Subsystem,
		}},
		Tensors:   p.imageTensors(),
		Sequences: sequences,
	}
	if safe := p.safeCommands(); len(safe) > 0 {
		image.Sequences = append(image.Sequences, lmb.Sequence{Name: "safe", Commands: safe})
	}
	if t := &image.Devices[0]; boards.FindByID(t.Vendor, t.Device) == nil {
		image.Rules = lmb.RulesOf(p.board, 0, t.Bars)
	}
	for _, w := range p.windows {
		if w.Kind == gen.WindowKindBar {
			w.Size = min(image.Devices[0].Bars[w.bar]-w.base, fbs.WindowSizeMax)
		}
		image.Windows = append(image.Windows, w.Window)
	}
	if len(image.Windows) > fbs.WindowsMax || len(image.Tensors) > fbs.TensorsMax {
		return nil, traces.Usage("%d windows and %d tensors are more than an image may have "+
			"(%d each)",
			len(image.Windows), len(image.Tensors), fbs.WindowsMax)
	}
	return image, nil
}

// barSizes is the least size of each BAR that is used: the board's, or where
// the recorded device had more, the next power of two.
func (p *program) barSizes() (sizes [6]uint64) {
	for i, end := range p.bars {
		if end == 0 {
			continue
		}
		if !p.o.Generic {
			sizes[i] = p.board.BarSizes[i]
		}
		for sizes[i] < end {
			sizes[i] = cmp.Or(sizes[i]*2, 16)
		}
	}
	return sizes
}

// addressRegisters lists the registers that take addresses of host memory. What the
// recorded program had there is not in the trace, and its addresses are not
// those of the replay, so no image can be made of a store to them, unless
// Options.Host gives that memory. Zero, and
// addresses between first and last, are not of host memory.
var addressRegisters = []struct {
	board       string
	bar         uint8
	offset      uint64 // of 8 bytes
	first, last uint64
	name        string
}{
	{"nvme", 0, 0x28, 0, 0, "ASQ (admin submission queue base address)"}, // NVM Express 1.4, 3.1.9
	{"nvme", 0, 0x30, 0, 0, "ACQ (admin completion queue base address)"}, // NVM Express 1.4, 3.1.10
	// QEMU docs/specs/edu.rst; the range is edu's own buffer
	{"edu", 0, 0x80, 0x40000, 0x40fff, "the DMA source address"},
	{"edu", 0, 0x88, 0x40000, 0x40fff, "the DMA destination address"},
}

// takesAddresses reports whether a register is one of them.
func takesAddresses(board string, bar uint8, offset uint64) bool {
	for _, h := range addressRegisters {
		if h.board == board && h.bar == bar && offset >= h.offset && offset < h.offset+8 {
			return true
		}
	}
	return false
}

func hostMemoryReason(b *boards.Board, a *traces.Access) string {
	for _, h := range addressRegisters {
		if h.board != b.Name || h.bar != a.Bar || a.Offset+uint64(a.Width) <= h.offset ||
			a.Offset >= h.offset+8 || a.Op != traces.OpStore {
			continue
		}
		if a.Value != 0 && (a.Value < h.first || a.Value > h.last) {
			return fmt.Sprintf("store of 0x%x to %s: a replay needs host memory there, "+
				"which the trace lacks; name its file with --host", a.Value, h.name)
		}
	}
	return ""
}

// Summarize counts what is in a trace, and says what of it no image can carry
// out; that is known where the board is, and the region of a trace of QEMU. The
// error is an *Error.
func Summarize(r io.Reader, o Options) (*traces.Summary, error) {
	return traces.Summarize(r, o.source(), func(a *traces.Access) string {
		if a.Width >= 4 && slices.ContainsFunc(o.Host,
			func(h HostSpec) bool { return a.Value-h.Bus < uint64(len(h.Data)) }) {
			return ""
		}
		return hostMemoryReason(o.Board, a)
	})
}
