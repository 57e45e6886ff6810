package report

import (
	"encoding/binary"
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

// Report is what an image does, counted without running it. Its JSON is stable.
// Expects count as one load, the least they make, and a bulk copy as accesses of
// its width. Numbers that do not fit 64 bits are the largest that do.
type Report struct {
	Image     string     `json:"image"`
	ID        string     `json:"id"` // see ImageID
	Bytes     uint64     `json:"bytes"`
	Origin    string     `json:"origin"`
	Counted   string     `json:"counted"` // what the numbers below are of
	Devices   []Device   `json:"devices"`
	Sequences []Sequence `json:"sequences"`
	Opcodes   []Opcode   `json:"opcodes"`
	Windows   []Window   `json:"windows"`
	Spaces    []Space    `json:"spaces"`
	Tiles     []Tile     `json:"tiles"`
	Tensors   []Used     `json:"tensors"`
	Segments  []Segment  `json:"segments"`
	of        int        // the sequence that is counted, or Whole
	view      *fbs.View  // the image, for its listing
}

// Traffic is bytes moved between host and device.
type Traffic struct {
	Written  uint64 `json:"written"`
	Read     uint64 `json:"read"`     // to an output, or loaded by an expect or a modify
	Compared uint64 `json:"compared"` // loaded and compared with golden data
}

// Device is a device that the image is for.
type Device struct {
	Board string `json:"board"`
	Title string `json:"title"` // for people, empty where the board is not known
	ID    string `json:"pci"`
	board *boards.Board
}

// Sequence is one run of a sequence; what it calls is in the numbers.
type Sequence struct {
	Name     string `json:"name"`
	Commands uint64 `json:"commands"` // as it lies in the file, End left out
	Executed uint64 `json:"executed"` // in one run
	Loads    uint64 `json:"loads"`
	Stores   uint64 `json:"stores"`
	Traffic         // with devices; host memory apart
	Host     uint64 `json:"host_bytes"`
	WaitUs   uint64 `json:"wait_max_us"` // all deadlines and delays
}

// Opcode is all commands of one kind.
type Opcode struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	Traffic
	Accesses [4]uint64 `json:"accesses"` // of 1, 2, 4 and 8 bytes, bulk copies left out
	// bytes of bulk copies, whose accesses may be wider than the command says
	Bulk uint64 `json:"bulk"`
}

// Window is a window of the image.
type Window struct {
	Index    int    `json:"index"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Device   int    `json:"device"`
	Place    string `json:"place"` // "BAR 0 + 0x0", "movable"
	Size     uint64 `json:"size"`
	Commands uint64 `json:"commands"`
	Points   uint64 `json:"points"` // how often it is pointed
	Traffic
}

// Tile is what goes to and comes from one tile, in NoC 0 coordinates where the
// board is known. A multicast counts on every tile that it reaches.
type Tile struct {
	Device int    `json:"device"`
	X      uint8  `json:"x"`
	Y      uint8  `json:"y"`
	Kind   string `json:"kind"` // empty where the board is not known
	Traffic
}

// Tensor is an input or an output.
type Tensor struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	DType   string   `json:"dtype"`
	Shape   []uint32 `json:"shape"`
	Bytes   uint64   `json:"bytes"`
	HasData bool     `json:"has_data"`
}

// Used is a tensor and its traffic.
type Used struct {
	Tensor
	Moved uint64 `json:"moved"` // bytes that commands copy from or to it
}

// Segment is a run of payload in the file.
type Segment struct {
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
	CRC32C string `json:"crc32c"`
}

// Whole makes Analyze count every command of the file once.
const Whole = -1

// progressEvery is the number of commands between two calls of progress.
const progressEvery = 1 << 16

// Analyze counts what an image does: a sequence, with what it calls as often
// as it calls it, or every command once where sequence is Whole. progress, if
// it is not nil, is called now and then with the number of commands that are done.
func Analyze(view *fbs.View, sequence int, progress func(done int)) *Report {
	a := newAnalysis(view)
	weights := a.weights(sequence)
	for i := range view.Sequences {
		a.countSequence(i, weights[i], progress)
	}
	a.finish(sequence)
	return &a.report
}

// ImageID names the content of an image: the checksum of its envelope, which
// has the checksums of its payload in it.
func ImageID(file []byte) string {
	const checksum = 12 // FORMAT.md 1.1
	if len(file) < checksum+4 {
		return ""
	}
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(file[checksum:]))
}

// analysis is a Report while it grows.
type analysis struct {
	view    *fbs.View
	image   *lmb.Image // without commands, for names
	report  Report
	opcodes [gen.OpcodeEnd + 1]Opcode
	aims    []aim // by window: what it shows, in the sequence under way
	spaces  map[spaceKey]*space
	tiles   map[tileKey]Traffic
}

func newAnalysis(view *fbs.View) *analysis {
	a := &analysis{
		view: view, image: lmb.Header(view), spaces: map[spaceKey]*space{},
		tiles: map[tileKey]Traffic{}, aims: make([]aim, len(view.Windows)),
	}
	for i := range view.Devices {
		t := &view.Devices[i]
		device := Device{Board: a.image.Devices[i].Board,
			ID:    fmt.Sprintf("%04x:%04x", t.Vendor, t.Device),
			board: boards.FindByID(t.Vendor, t.Device)}
		if device.board != nil {
			device.Title = chips.Of(device.board).Title
		}
		a.report.Devices = append(a.report.Devices, device)
	}
	for i := range view.Windows {
		a.addWindow(i)
	}
	a.addTensors()
	return a
}

func (a *analysis) addWindow(index int) {
	w := &a.view.Windows[index]
	window := Window{Index: index, Name: a.image.Windows[index].Name,
		Kind: lower(gen.EnumNamesWindowKind[w.Kind]), Device: int(w.Device), Size: w.Size}
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
		a.placeFixedWindow(index)
	}
	a.report.Windows = append(a.report.Windows, window)
}

func (a *analysis) addTensors() {
	a.report.Tensors, a.report.Segments, a.report.Opcodes = []Used{}, []Segment{}, []Opcode{}
	for _, t := range Tensors(a.image) {
		a.report.Tensors = append(a.report.Tensors, Used{Tensor: t})
	}
	for _, s := range a.view.Segments {
		a.report.Segments = append(a.report.Segments,
			Segment{s.Offset, s.Size, fmt.Sprintf("%08x", s.Crc32c)})
	}
}

// Tensors are the inputs and outputs of an image.
func Tensors(image *lmb.Image) []Tensor {
	list := []Tensor{}
	for _, t := range image.Tensors {
		list = append(list, Tensor{t.Name, lmb.RoleName(t.Role),
			lmb.DTypes[t.DType], t.Shape, t.Size(), t.Data != nil})
	}
	return list
}

// weights returns how often each sequence is executed in what is counted.
func (a *analysis) weights(sequence int) []uint64 {
	if sequence == Whole {
		return slices.Repeat([]uint64{1}, len(a.view.Sequences))
	}
	weights := make([]uint64, len(a.view.Sequences))
	weights[sequence] = 1
	s := &a.view.Sequences[sequence]
	for _, c := range a.view.Commands[s.First : s.First+s.Count] {
		if c.Opcode == gen.OpcodeCall {
			weights[c.Index]++
		}
	}
	return weights
}

func (a *analysis) countSequence(index int, weight uint64, progress func(done int)) {
	s := &a.view.Sequences[index]
	for i := s.First; weight > 0 && i < s.First+s.Count-1; i++ { // End does nothing to a device
		a.countCommand(&a.view.Commands[i], weight)
		if progress != nil && i%progressEvery == 0 {
			progress(int(i))
		}
	}
}

// Counts is what one run of each sequence does at most, calls included.
func Counts(view *fbs.View) []Sequence {
	counts, calls := make([]Sequence, len(view.Sequences)),
		make([]map[uint16]uint64, len(view.Sequences))
	for i, s := range view.Sequences {
		counts[i], calls[i] = Sequence{Name: view.Name(s.Name), Commands: uint64(s.Count) - 1},
			map[uint16]uint64{}
		for at := s.First; at < s.First+s.Count-1; at++ {
			c := &view.Commands[at]
			e := lmb.EffectOf(c)
			one := Sequence{Executed: 1, Loads: e.Loads, Stores: e.Stores, WaitUs: e.WaitUs,
				Traffic: trafficOf(&e)}
			// a command without a window moves nothing
			if view.Windows[c.Window].Kind == gen.WindowKindHost {
				one.Host, one.Traffic = e.Moved(), Traffic{}
			}
			counts[i].add(&one, 1)
			if c.Opcode == gen.OpcodeCall {
				calls[i][c.Index]++
			}
		}
	}
	for i := range counts { // what is called calls nothing
		for callee, times := range calls[i] {
			counts[i].add(&counts[callee], times)
		}
	}
	return counts
}

func (a *analysis) countCommand(c *fbs.Command, weight uint64) {
	e := lmb.EffectOf(c)
	traffic := trafficOf(&e)
	o := &a.opcodes[c.Opcode]
	o.Count = sum(o.Count, weight)
	o.Traffic.add(traffic, weight)
	switch {
	case e.Bulk:
		o.Bulk = sum(o.Bulk, times(e.Moved(), weight))
	case e.Loads+e.Stores > 0:
		n := &o.Accesses[bits.TrailingZeros8(c.Width)]
		*n = sum(*n, times(e.Loads+e.Stores, weight))
	}
	a.countTensor(c, weight)
	switch {
	case c.Opcode == gen.OpcodePoint:
		a.report.Windows[c.Window].Points = sum(a.report.Windows[c.Window].Points, weight)
		a.followPoint(c)
	case e.Size > 0:
		w := &a.report.Windows[c.Window]
		w.Commands = sum(w.Commands, weight)
		w.Traffic.add(traffic, weight)
		a.addTraffic(&a.aims[c.Window], uint64(c.Offset), e.Size, traffic.by(weight))
	}
}

func (a *analysis) countTensor(c *fbs.Command, weight uint64) {
	_, in := lmb.FromInput(c)
	if c.Opcode == gen.OpcodeCopyOut || in {
		t := &a.report.Tensors[c.Index-1]
		t.Moved = sum(t.Moved, times(uint64(c.Amount), weight))
	}
}

// add adds count runs of another sequence.
func (s *Sequence) add(of *Sequence, count uint64) {
	s.Executed = sum(s.Executed, times(of.Executed, count))
	s.Loads = sum(s.Loads, times(of.Loads, count))
	s.Stores = sum(s.Stores, times(of.Stores, count))
	s.WaitUs = sum(s.WaitUs, times(of.WaitUs, count))
	s.Host = sum(s.Host, times(of.Host, count))
	s.Traffic.add(of.Traffic, count)
}

func (a *analysis) finish(sequence int) {
	r := &a.report
	r.of, r.view = sequence, a.view
	r.Counted = "every command of the file once"
	if sequence != Whole {
		r.Counted = "one run of " + a.image.Sequences[sequence].Name + ", calls included"
	}
	r.Sequences = Counts(a.view)
	for op := gen.OpcodeWrite; op < gen.OpcodeEnd; op++ {
		if o := &a.opcodes[op]; o.Count > 0 {
			o.Name = lmb.OpcodeName(op)
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

func (t *Traffic) total() uint64 { return sum(sum(t.Written, t.Read), t.Compared) }

func (t *Traffic) by(weight uint64) Traffic {
	return Traffic{times(t.Written, weight), times(t.Read, weight), times(t.Compared, weight)}
}

func (t *Traffic) add(other Traffic, weight uint64) {
	t.Written = sum(t.Written, times(other.Written, weight))
	t.Read = sum(t.Read, times(other.Read, weight))
	t.Compared = sum(t.Compared, times(other.Compared, weight))
}

// sum and times stay at the largest number instead of running over: a file may
// call a million deadlines a million times.
func sum(a, b uint64) uint64 {
	if total, carry := bits.Add64(a, b, 0); carry == 0 {
		return total
	}
	return math.MaxUint64
}

func times(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

func lower(name string) string { return strings.ToLower(name) }
