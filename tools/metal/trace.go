package metal

import (
	"encoding/binary"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// TraceID is the global id of a trace.
type TraceID uint64

// trace is a captured list of launches. Its commands are in two parts: load stores everything that
// no launch changes, and replay executes the launches. replay may run many times after one load.
type trace struct {
	id       TraceID
	launches []*launch // launches so far; nil after the capture of the trace
	load     []lmb.Command
	replay   []lmb.Command
	cores    []CoreCoord // cores on which programs are launched
}

// Names of the sequences of a trace in an image (CollectTrace).
const loadName, replayName = "load", "replay"

// BeginTraceCapture begins a trace. Until EndTraceCapture, EnqueueProgram adds programs to the
// trace and does not launch them.
func BeginTraceCapture(q *CommandQueue) (_ TraceID, err error) {
	defer fail.Catch(&err)
	d := q.use()
	if d.open != nil {
		refuse("trace %d is not complete; call EndTraceCapture first", d.open.id)
	}
	d.open = &trace{}
	d.open.id = TraceID(d.newID(d.open))
	return d.open.id, nil
}

// EndTraceCapture ends the capture of a trace and loads the trace.
func EndTraceCapture(q *CommandQueue, id TraceID) (err error) {
	defer fail.Catch(&err)
	d := q.use()
	if d.open == nil || d.open.id != id {
		refuse("trace %d was not begun by BeginTraceCapture, or has already ended", id)
	}
	if len(d.open.launches) == 0 {
		refuse("trace %d has no program; call EnqueueProgram before EndTraceCapture", id)
	}
	t := d.open
	d.open = nil
	d.traces[id] = t
	d.lower(t)
	d.loadTrace(t)
	return nil
}

// lower converts the launches of a trace to commands: it sets load and replay.
func (d *Device) lower(t *trace) {
	changing := map[CoreCoord]map[uint64]bool{}
	for _, l := range t.launches {
		t.cores = append(t.cores, l.cores...)
	}
	slices.SortFunc(t.cores, compareCores)
	t.cores = slices.Compact(t.cores)
	load, replay := newStream(), newStream()
	for _, c := range t.cores {
		changing[c] = t.changing(c)
		replay.held[c] = true
	}
	load.hold(&d.grid, t.cores)
	load.store(&d.grid, merge(t.cores, func(c CoreCoord) (list []block) {
		for _, l := range t.launches {
			for _, b := range l.constant[c] {
				list = append(list,
					b.cut(0, func(address uint64) bool { return !changing[c][address] })...)
			}
		}
		return list
	}))
	for _, c := range t.cores {
		load.arrive(memory, unicast(d.tile(c)), stateBase)
	}
	for _, l := range t.launches {
		replay.launch(&d.grid, l, func(c CoreCoord) (list []block) {
			for _, b := range l.constant[c] {
				list = append(list, b.cut(gapMax,
					func(address uint64) bool { return changing[c][address] })...)
			}
			return append(list, l.state[c])
		})
	}
	t.load, t.replay, t.launches = load.commands, replay.commands, nil
}

// changing returns the addresses of the words of core c that a replay must store again: words that
// have different values in different launches, and words that a kernel changes.
func (t *trace) changing(c CoreCoord) map[uint64]bool {
	values, changing := map[uint64]uint32{}, map[uint64]bool{}
	for _, l := range t.launches {
		for _, b := range l.constant[c] {
			for i := 0; i < len(b.data); i += 4 {
				address, value := b.address+uint64(i), binary.LittleEndian.Uint32(b.data[i:])
				if before, ok := values[address]; ok && before != value {
					changing[address] = true
				}
				values[address] = value
			}
		}
		for _, s := range l.zeroed[c] {
			for address := s.first; address < s.end; address += 4 {
				changing[address] = true
			}
		}
	}
	return changing
}

// gapMax is the largest number of bytes between two ranges that are stored together with the
// ranges. Storing so many bytes costs about as much as a further command.
const gapMax = 64

// cut returns the words of b for which `wanted` returns true, as blocks. A block also contains the
// words between two wanted ranges if these are at most gap bytes apart.
func (b block) cut(gap int, wanted func(address uint64) bool) (list []block) {
	end := -1 // of the run before, in b
	for i := 0; i < len(b.data); i += 4 {
		if !wanted(b.address + uint64(i)) {
			continue
		}
		if end < 0 || i-end > gap {
			list = append(list, block{address: b.address + uint64(i)})
			end = i
		}
		last := &list[len(list)-1]
		last.data = append(last.data, b.data[end:i+4]...)
		end = i + 4
	}
	return list
}

// loadTrace loads a trace on the device, and records this as a call.
func (d *Device) loadTrace(t *trace) {
	for _, s := range d.streams(Call{Name: "LoadTrace", Trace: uint64(t.id)}) {
		s.load(t)
	}
}

func (s *stream) load(t *trace) {
	s.take(t.cores)
	s.sequence(t, loadName, t.load)
	s.resident[t.id] = t.cores
}

// replay appends the replay of a trace. If another program has used the cores of the trace since
// its last load, replay appends a load first.
func (s *stream) replay(t *trace) {
	if s.resident[t.id] == nil {
		s.load(t)
	}
	s.sequence(t, replayName, t.replay)
}

// sequence appends a part of a trace: in an image that is being recorded, a call of a sequence,
// otherwise the commands themselves. name is loadName or replayName.
func (s *stream) sequence(t *trace, name string, commands []lmb.Command) {
	if s.capture == nil {
		s.commands = append(s.commands, commands...)
	} else {
		index := s.capture.sequence(t.id, name, commands)
		s.commands = append(s.commands,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCall, Index: index}})
	}
	for _, c := range t.cores {
		s.held[c] = true
	}
	s.lost()
}

// CollectTrace returns a trace as bytes, for LoadTrace in another process and a device of the same
// board. The trace contains the addresses of the buffers that its kernels use: the other process
// must have these buffers at the same addresses.
func CollectTrace(d *Device, id TraceID) (_ []byte, err error) {
	defer fail.Catch(&err)
	d.use()
	t := d.findTrace(id)
	return lmb.Encode(&lmb.Image{
		Origin: lmb.Origin{Tool: tool, Source: "trace"}, Devices: targets(d.board),
		Windows: windows(),
		Sequences: []lmb.Sequence{{Name: loadName, Commands: t.load},
			{Name: replayName, Commands: t.replay}},
	})
}

// LoadTrace loads a trace from bytes that CollectTrace returned.
func LoadTrace(q *CommandQueue, data []byte) (_ TraceID, err error) {
	defer fail.Catch(&err)
	d := q.use()
	if d.open != nil {
		refuse("trace %d is not complete; call EndTraceCapture first", d.open.id)
	}
	image, err := lmb.Decode(slices.Clone(data))
	if err != nil {
		fail.With(hal.BadImage, "trace: %v", err)
	}
	t := d.adopt(image)
	t.id = TraceID(d.newID(t))
	d.traces[t.id] = t
	d.loadTrace(t)
	return t.id, nil
}

// adopt returns the trace that an image contains. It fails if the image is not a trace for this
// board.
func (d *Device) adopt(image *lmb.Image) *trace {
	q := image.Sequences
	if len(q) != 2 || q[0].Name != loadName || q[1].Name != replayName || len(image.Tensors) != 0 ||
		!slices.Equal(image.Windows, windows()) {
		fail.With(hal.BadImage, "the image is not a trace that CollectTrace made")
	}
	if got, want := image.Devices, targets(d.board); !slices.Equal(got, want) {
		fail.With(hal.WrongDevice, "the trace is for the board %s, but the device is the board %s",
			got[0].Board,
			d.board.Name)
	}
	t := &trace{load: q[0].Commands, replay: q[1].Commands}
	for _, c := range slices.Concat(t.load, t.replay) {
		if c.Opcode == gen.OpcodeCall {
			fail.With(hal.BadImage, "the trace calls a sequence, so CollectTrace did not make it")
		}
		if c.Opcode != gen.OpcodePoint {
			continue
		}
		target, _ := boards.UnpackTileRoute(c.Mask)
		cores, ok := d.aimed(target)
		if !ok {
			fail.With(hal.BadImage, "the trace uses core (%d,%d), "+
				"which this device does not have", target.X,
				target.Y)
		}
		t.cores = append(t.cores, cores...)
	}
	slices.SortFunc(t.cores, compareCores)
	t.cores = slices.Compact(t.cores)
	return t
}

// aimed returns the cores of a route. ok is false if one of them does not exist.
func (g *grid) aimed(t fbs.TileRoute) (list []CoreCoord, ok bool) {
	last, ok := g.core(chips.Tile{X: t.X, Y: t.Y})
	first := last
	if t.Multicast && ok {
		first, ok = g.core(chips.Tile{X: t.XStart, Y: t.YStart})
	}
	if ok {
		ok = fail.Try(func() { list = g.cores(CoreRange{first, last}) }) == nil
	}
	return list, ok
}

// EnqueueTrace is the same as ReplayTrace.
func EnqueueTrace(q *CommandQueue, id TraceID, blocking bool) error {
	return fail.Try(func() { q.replayTrace("EnqueueTrace", id, blocking) })
}

// ReplayTrace replays a trace. Whether it blocks or not, calls that are enqueued later take effect
// after the end of the trace. In an image blocking makes no difference.
func ReplayTrace(q *CommandQueue, id TraceID, blocking bool) error {
	return fail.Try(func() { q.replayTrace("ReplayTrace", id, blocking) })
}

// replayTrace replays a trace. name is the name of the exported call.
func (q *CommandQueue) replayTrace(name string, id TraceID, blocking bool) {
	d := q.use()
	if d.open != nil {
		refuse("trace %d is not complete; call EndTraceCapture first", d.open.id)
	}
	t := d.findTrace(id)
	for _, s := range d.streams(Call{Name: name, Trace: uint64(id)}) {
		s.replay(t)
	}
	d.wait(blocking)
}

// take is called when the memory of cores gets other contents: traces that use these cores must be
// loaded again before a replay.
func (s *stream) take(cores []CoreCoord) {
	s.launched = append(s.launched, cores...)
	slices.SortFunc(s.launched, compareCores)
	s.launched = slices.Compact(s.launched)
	for id, other := range s.resident {
		if _, shared := common(cores, other); shared {
			delete(s.resident, id)
		}
	}
}

// ReleaseTrace releases a trace. Later calls with its id return an error.
func ReleaseTrace(d *Device, id TraceID) (err error) {
	defer fail.Catch(&err)
	d.use()
	d.findTrace(id)
	d.traces[id] = nil
	delete(d.alive, uint64(id))
	d.record(Call{Name: "ReleaseTrace", Trace: uint64(id)})
	return nil
}

// findTrace returns the trace with an id. It fails if the trace does not exist, is being captured,
// or was released.
func (d *Device) findTrace(id TraceID) *trace {
	t, known := d.traces[id]
	switch {
	case t != nil:
		return t
	case known:
		refuse("trace %d was released", id)
	case d.open != nil && d.open.id == id:
		refuse("trace %d is not complete; call EndTraceCapture first", id)
	}
	refuse("trace %d is unknown on this device", id)
	return nil
}
