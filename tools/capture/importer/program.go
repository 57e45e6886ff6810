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

type window struct {
	lmb.Window
	bar  uint8
	base uint64 // offset of its first byte in the recorded BAR
}

// program is the recorded program as steps and the tables that they refer to. The lifter makes it,
// and each pass rewrites it; counts of a pass are fields of that pass.
type program struct {
	options        Options // read-only
	board          *boards.Board
	chip           *chips.Chip
	homes          *tileHomes // nil: the chip has no tiles
	steps          stepList
	runData        runArena // bytes of runs
	masks          []uint64 // masks of polls
	targets        []windowTarget
	windows        []window
	barEnds        [6]uint64 // end of the accessed range of each BAR
	markNames      []string  // names of marks
	tensors        []tensor  // filled by the pass tensors
	hostSpaces     []hostSpace
	hostStoreLists [][]hostStore  // stores of each step with the operation stepHostStores
	startedTargets []startedCores // targets whose cores the program started

	msix        *traces.MSIXTable // nil: not known
	hasVectors  bool              // the program enabled interrupt vectors
	medianPause int64             // between two accesses, in nanoseconds

	outsideLoads  map[int][]carriedAccess // by Carry: loads outside the part or frame
	scratchSize   uint32                  // bytes of the scratch tensor; 0: the image has none
	likelyCarries []likelyCarry

	// In a search for frames: changes of host memory of which nothing shows who made them
	searchUndecided []undecidedRange

	matchedRanges map[Range]bool // ranges of the options that contain an access

	loads, stores int // numbers in the trace
}

func (p *program) reportRead(t *traces.Trace) passResult {
	text := fmt.Sprintf("%s: %s, %s%s", english.Count(t.Lines, "line"),
		english.Count(p.loads, "load"), english.Count(p.stores, "store"),
		ignoredText(t.Ignored))
	return passResult{text, t.Warnings}
}

func ignoredText(list []traces.Count) (text string) {
	const shownMax = 4
	for i, c := range list {
		if i == shownMax {
			return text + fmt.Sprintf("; left out %d more kinds of lines", len(list)-i)
		}
		text += fmt.Sprintf("; left out %d %s", c.N, c.Name)
	}
	return text
}

func (p *program) buildImage(t *traces.Trace, sequences []lmb.Sequence) (*lmb.Image, error) {
	if len(p.windows) == 0 {
		return nil, traces.TraceError(0, "nothing to replay: "+
			"the trace contains no access to the device, or all of them were left out")
	}
	image := &lmb.Image{
		Origin: lmb.Origin{Tool: p.options.Tool, Source: p.options.Source},
		Devices: []lmb.Device{{
			Board:  p.board.Name,
			Vendor: cmp.Or(t.Vendor, p.board.Vendor), Device: cmp.Or(t.Device, p.board.Device),
			Bars: p.barSizes(), Subsystem: p.options.Subsystem,
			Interrupts: t.Vectors.Kind, Vectors: t.Vectors.Count,
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
		return nil, traces.UsageError("the image would have %d windows and %d tensors, "+
			"but may have at most %d of each; import a part with --part FROM..TO",
			len(image.Windows), len(image.Tensors), fbs.WindowsMax)
	}
	return image, nil
}

// barSizes returns the minimum size of each BAR that is accessed: the board's, or the next power of
// two if the recorded device had a larger BAR.
func (p *program) barSizes() (sizes [6]uint64) {
	for i, end := range p.barEnds {
		if end == 0 {
			continue
		}
		if !p.options.BarSizesAreLimits {
			sizes[i] = p.board.BarSizes[i]
		}
		for sizes[i] < end {
			sizes[i] = cmp.Or(sizes[i]*2, 16)
		}
	}
	return sizes
}

// addressRegisters lists the registers that hold addresses of host memory. The trace has neither
// the contents of this memory nor valid addresses for a replay. So no image can contain a store to
// these registers, unless Options.Host provides the memory. Zero, and addresses from `first` to
// `last`, are not in host memory.
var addressRegisters = []struct {
	board       string
	bar         uint8
	offset      uint64 // register of 8 bytes
	first, last uint64
	name        string
}{
	{"nvme", 0, 0x28, 0, 0, "ASQ (admin submission queue base address)"}, // NVM Express 1.4, 3.1.9
	{"nvme", 0, 0x30, 0, 0, "ACQ (admin completion queue base address)"}, // NVM Express 1.4, 3.1.10
	// QEMU docs/specs/edu.rst; the range is edu's own buffer
	{"edu", 0, 0x80, 0x40000, 0x40fff, "the DMA source address"},
	{"edu", 0, 0x88, 0x40000, 0x40fff, "the DMA destination address"},
}

func isAddressRegister(board string, bar uint8, offset uint64) bool {
	for _, h := range addressRegisters {
		if h.board == board && h.bar == bar && offset >= h.offset && offset < h.offset+8 {
			return true
		}
	}
	return false
}

func missingHostMemoryReason(b *boards.Board, a *traces.Access) string {
	for _, h := range addressRegisters {
		if h.board != b.Name || h.bar != a.Bar || a.Offset+uint64(a.Width) <= h.offset ||
			a.Offset >= h.offset+8 || a.Op != traces.OpStore {
			continue
		}
		if a.Value != 0 && (a.Value < h.first || a.Value > h.last) {
			return fmt.Sprintf("store of 0x%x to %s: a replay needs host memory there, "+
				"which the trace lacks; add a file of this memory with --host", a.Value, h.name)
		}
	}
	return ""
}

// Summarize counts what is in a trace, and lists what no image can execute. The latter needs the
// board and, for QEMU, the memory regions. The error is an *Error.
func Summarize(r io.Reader, o Options) (*traces.Summary, error) {
	return traces.Summarize(r, o.traceSource(), func(a *traces.Access) string {
		if a.Width >= 4 && slices.ContainsFunc(o.Host,
			func(h HostSpec) bool { return a.Value-h.Bus < uint64(len(h.Data)) }) {
			return ""
		}
		return missingHostMemoryReason(o.Board, a)
	})
}
