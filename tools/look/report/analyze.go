package report

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Report counts what an image does, without running it. Its JSON is stable. An Expect counts as one
// load, which is the minimum, and a bulk copy as accesses of its width. A number that does not fit
// into 64 bits is reported as the largest 64-bit number.
type Report struct {
	Image           string      `json:"image"`
	Checksum        string      `json:"image_checksum"` // fbs.View.ID
	SHA256          string      `json:"sha256"`         // of the file without its signature
	Bytes           uint64      `json:"bytes"`
	Origin          string      `json:"origin"`
	Counted         string      `json:"counted"` // which commands the numbers below count, as text
	Devices         []Device    `json:"devices"`
	Sequences       []Sequence  `json:"sequences"`
	Opcodes         []Opcode    `json:"opcodes"`
	Windows         []Window    `json:"windows"`
	Rings           []Ring      `json:"rings,omitempty"`
	Spaces          []Space     `json:"spaces"`
	Tiles           []Tile      `json:"tiles"`
	Tensors         []TensorUse `json:"tensors"`
	Segments        []Segment   `json:"segments"`
	countedSequence int         // index of the sequence that is counted, or WholeFile
	view            *fbs.View   // the image; the page prints its listing
	analysis        *analysis   // the page walks the counted sequences again
}

// Traffic counts the bytes that commands move between host and device.
type Traffic struct {
	Written  uint64 `json:"written"`
	Read     uint64 `json:"read"`     // copied to an output, or loaded by an Expect or a Modify
	Compared uint64 `json:"compared"` // loaded and compared with golden data
}

// Device is a device that the image is for.
type Device struct {
	Board string `json:"board"`
	Title string `json:"title"` // name of the board for people; empty: the board is unknown
	ID    string `json:"pci"`
	board *boards.Board
}

// Ring is a position that rises from run to run, from First, and wraps from End to Begin.
type Ring struct {
	Name  string `json:"name"`
	Begin uint64 `json:"begin"`
	End   uint64 `json:"end"`
	First uint64 `json:"first"`
}

// Sequence counts one run of a sequence, including the sequences that it calls.
type Sequence struct {
	Name      string `json:"name"`
	Commands  uint64 `json:"commands"` // commands of the sequence in the file, without End
	Executed  uint64 `json:"executed"` // commands that one run executes, calls included
	Loads     uint64 `json:"loads"`
	Stores    uint64 `json:"stores"`
	Traffic          // between host and devices; HostBytes counts host memory
	HostBytes uint64 `json:"host_bytes"`
	WaitUs    uint64 `json:"wait_max_us"` // sum of all deadlines and delays
}

// Opcode counts the commands with one opcode.
type Opcode struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	Traffic
	Accesses [4]uint64 `json:"accesses"` // accesses of 1, 2, 4 and 8 bytes, without bulk copies
	// bytes of bulk copies, whose accesses may be wider than the command says
	BulkBytes uint64 `json:"bulk"`
}

// Window counts the commands that access a window of the image.
type Window struct {
	Index    int    `json:"index"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Device   int    `json:"device"`
	Place    string `json:"place"` // such as "BAR 0 + 0x0" or "movable"
	Size     uint64 `json:"size"`
	Commands uint64 `json:"commands"`
	Points   uint64 `json:"points"` // number of Point commands
	Traffic
}

// Tile counts the traffic of one tile of a device. The coordinates are those of NoC 0 if the board
// is known. The bytes of a multicast count for every tile that it reaches.
type Tile struct {
	Device int    `json:"device"`
	X      uint8  `json:"x"`
	Y      uint8  `json:"y"`
	Kind   string `json:"kind"` // empty: the board is unknown
	Traffic
}

// Tensor describes an input, an output or scratch.
type Tensor struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	DType   string   `json:"dtype"`
	Shape   []uint32 `json:"shape"`
	Bytes   uint64   `json:"bytes"`
	HasData bool     `json:"has_data"`
}

// TensorUse is a tensor with the number of bytes that commands copy from or to it.
type TensorUse struct {
	Tensor
	Moved uint64 `json:"moved"` // bytes copied from or to the tensor
}

// Segment is a contiguous part of the payload in the file.
type Segment struct {
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
	CRC32C string `json:"crc32c"`
}

// WholeFile makes Analyze count every command of the file once.
const WholeFile = -1

// progressInterval is the number of commands between two calls of the function progress.
const progressInterval = 1 << 16

// Analyze counts what an image does. If sequence is WholeFile, every command of the file counts
// once. Otherwise Analyze counts one run of the sequence with this index: a called sequence counts
// once for each call. If progress is not nil, Analyze calls it from time to time with the number of
// commands that are done.
func Analyze(view *fbs.View, sequence int, progress func(done int)) *Report {
	a := newAnalysis(view)
	weights := slices.Repeat([]uint64{1}, len(view.Sequences))
	if sequence != WholeFile {
		weights = lmb.RunCounts(view, sequence)
	}
	for i, weight := range weights {
		if weight > 0 {
			a.counted = append(a.counted, i)
			a.countSequence(i, weight, progress)
		}
	}
	a.finishReport(sequence)
	return &a.report
}

// analysis is the state of Analyze: the unfinished Report and the data for it.
type analysis struct {
	view    *fbs.View
	image   *lmb.Image // without commands, for names
	report  Report
	opcodes map[gen.Opcode]*Opcode // by lmb.CommandKind
	// for each window: what it maps, in the sequence that is counted
	mappings []mapping
	spaces   map[spaceKey]*space
	tiles    map[tileKey]Traffic
	counted  []int    // sequences that are counted
	accessed []*space // in the order of Report.Spaces
}

func newAnalysis(view *fbs.View) *analysis {
	a := &analysis{
		view: view, image: lmb.Header(view), spaces: map[spaceKey]*space{},
		tiles: map[tileKey]Traffic{}, opcodes: map[gen.Opcode]*Opcode{},
		mappings: make([]mapping, len(view.Windows)),
	}
	for i := range view.Devices {
		t := &view.Devices[i]
		device := Device{Board: a.image.Devices[i].Board,
			ID:    fmt.Sprintf("%04x:%04x", t.Vendor, t.Device),
			board: boards.FindByID(t.Vendor, t.Device)}
		if device.board != nil {
			device.Title = chips.ForBoard(device.board).Title
		}
		a.report.Devices = append(a.report.Devices, device)
	}
	for i := range view.Windows {
		a.addWindow(i)
	}
	for _, r := range a.image.Rings {
		a.report.Rings = append(a.report.Rings, Ring(r))
	}
	a.addTensors()
	return a
}

func (a *analysis) addWindow(index int) {
	w := &a.view.Windows[index]
	window := Window{Index: index, Name: a.image.Windows[index].Name,
		Kind: lowercase(gen.EnumNamesWindowKind[w.Kind]), Device: int(w.Device), Size: w.Size}
	switch w.Kind {
	case gen.WindowKindBar:
		window.Place = fmt.Sprintf("BAR %d + 0x%x", w.Bar, w.Offset)
	case gen.WindowKindTlb:
		window.Place = "movable"
	case gen.WindowKindHost:
		window.Place = "host memory"
		if bus := fbs.FixedBusAddress(w); bus != 0 {
			window.Place = fmt.Sprintf("host memory at bus address 0x%x", bus)
		}
	case gen.WindowKindConfig:
		window.Place = "configuration space"
	}
	if w.Kind != gen.WindowKindTlb {
		a.mapFixedWindow(index)
	}
	a.report.Windows = append(a.report.Windows, window)
}

func (a *analysis) addTensors() {
	a.report.Tensors, a.report.Segments, a.report.Opcodes = []TensorUse{}, []Segment{}, []Opcode{}
	for _, t := range Tensors(a.image) {
		a.report.Tensors = append(a.report.Tensors, TensorUse{Tensor: t})
	}
	for _, s := range a.view.Segments {
		a.report.Segments = append(a.report.Segments,
			Segment{s.Offset, s.Size, fmt.Sprintf("%08x", s.Crc32c)})
	}
}

// Tensors describes all tensors of an image.
func Tensors(image *lmb.Image) []Tensor {
	list := []Tensor{}
	for _, t := range image.Tensors {
		list = append(list, Tensor{t.Name, lmb.RoleName(t.Role),
			lmb.DTypes[t.DType], t.Shape, t.Size(), t.Data != nil})
	}
	return list
}

func (a *analysis) countSequence(index int, weight uint64, progress func(done int)) {
	for e := range lmb.Walk(a.view, index) {
		a.countCommand(e, weight)
		if progress != nil && e.Index%progressInterval == 0 {
			progress(e.Index)
		}
	}
}

// SequenceCounts returns, for each sequence, what one run of it does, calls included.
func SequenceCounts(view *fbs.View) []Sequence {
	counts := make([]Sequence, len(view.Sequences))
	for i, s := range view.Sequences {
		counts[i] = Sequence{Name: view.Name(s.Name), Commands: uint64(s.Count) - 1}
		for e := range lmb.Walk(view, i) {
			one := Sequence{Executed: 1, Loads: e.Loads, Stores: e.Stores,
				WaitUs: e.WaitUs, Traffic: trafficOf(e)}
			if e.Size > 0 && e.Window.Kind == gen.WindowKindHost {
				one.HostBytes, one.Traffic = e.Moved(), Traffic{}
			}
			counts[i].addRuns(&one, 1)
		}
	}
	for i := range counts { // a called sequence contains no Call
		for callee, times := range lmb.RunCounts(view, i) {
			if callee != i {
				counts[i].addRuns(&counts[callee], times)
			}
		}
	}
	return counts
}

func (a *analysis) countCommand(e *lmb.Effect, weight uint64) {
	c, traffic := e.Command, trafficOf(e)
	o := a.opcodes[lmb.CommandKind(c)]
	if o == nil {
		o = &Opcode{Name: lmb.OpcodeName(lmb.CommandKind(c))}
		a.opcodes[lmb.CommandKind(c)] = o
	}
	o.Count = cappedSum(o.Count, weight)
	o.Traffic.add(traffic, weight)
	switch {
	case e.Bulk:
		o.BulkBytes = cappedSum(o.BulkBytes, cappedProduct(e.Moved(), weight))
	case e.Loads+e.Stores > 0:
		n := &o.Accesses[bits.TrailingZeros8(c.Width)]
		*n = cappedSum(*n, cappedProduct(e.Loads+e.Stores, weight))
	}
	a.countTensor(c, weight)
	switch {
	case c.Opcode == gen.OpcodePoint:
		a.report.Windows[c.Window].Points = cappedSum(a.report.Windows[c.Window].Points, weight)
		a.mapPointedWindow(c)
	case e.Size > 0:
		w := &a.report.Windows[c.Window]
		w.Commands = cappedSum(w.Commands, weight)
		w.Traffic.add(traffic, weight)
		a.addTraffic(&a.mappings[c.Window], e, traffic.multipliedBy(weight))
	}
}

func (a *analysis) countTensor(c *fbs.Command, weight uint64) {
	if tensor, ok := lmb.TensorOf(c); ok {
		t := &a.report.Tensors[tensor]
		t.Moved = cappedSum(t.Moved, cappedProduct(uint64(c.Amount), weight))
	}
}

// addRuns adds count runs of another sequence.
func (s *Sequence) addRuns(of *Sequence, count uint64) {
	s.Executed = cappedSum(s.Executed, cappedProduct(of.Executed, count))
	s.Loads = cappedSum(s.Loads, cappedProduct(of.Loads, count))
	s.Stores = cappedSum(s.Stores, cappedProduct(of.Stores, count))
	s.WaitUs = cappedSum(s.WaitUs, cappedProduct(of.WaitUs, count))
	s.HostBytes = cappedSum(s.HostBytes, cappedProduct(of.HostBytes, count))
	s.Traffic.add(of.Traffic, count)
}

func (a *analysis) finishReport(sequence int) {
	r := &a.report
	r.countedSequence, r.view, r.analysis = sequence, a.view, a
	r.Counted = "every command of the file once"
	if sequence != WholeFile {
		r.Counted = "one run of " + a.image.Sequences[sequence].Name + ", calls included"
	}
	r.Sequences = SequenceCounts(a.view)
	for _, kind := range lmb.CommandKinds {
		if o := a.opcodes[kind]; o != nil {
			r.Opcodes = append(r.Opcodes, *o)
		}
	}
	a.finishSpaces()
	a.finishTiles()
	o := &a.image.Origin
	r.Origin = strings.Join(slices.DeleteFunc([]string{o.Tool, o.Source},
		func(s string) bool { return s == "" }), " from ")
}

func trafficOf(e *lmb.Effect) Traffic { return Traffic{e.Written, e.Read, e.Compared} }

func (t *Traffic) total() uint64 { return cappedSum(cappedSum(t.Written, t.Read), t.Compared) }

func (t *Traffic) multipliedBy(weight uint64) Traffic {
	return Traffic{cappedProduct(t.Written, weight), cappedProduct(t.Read, weight),
		cappedProduct(t.Compared, weight)}
}

func (t *Traffic) add(other Traffic, weight uint64) {
	t.Written = cappedSum(t.Written, cappedProduct(other.Written, weight))
	t.Read = cappedSum(t.Read, cappedProduct(other.Read, weight))
	t.Compared = cappedSum(t.Compared, cappedProduct(other.Compared, weight))
}

// cappedSum and cappedProduct return the largest number instead of overflowing: an image may call a
// sequence with a million deadlines a million times.
func cappedSum(a, b uint64) uint64 {
	if total, carry := bits.Add64(a, b, 0); carry == 0 {
		return total
	}
	return math.MaxUint64
}

func cappedProduct(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

func lowercase(name string) string { return strings.ToLower(name) }
