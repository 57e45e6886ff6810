package metal

import (
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/lmb"
)

// TraceID is the global id of a trace.
type TraceID uint64

// trace is a recorded run of launches, lowered: load puts what does not change
// in place, replay does the rest, as often as wanted.
type trace struct {
	id       TraceID
	launches []*launch // while it is being captured
	load     []lmb.Command
	replay   []lmb.Command
	cores    []CoreCoord
}

// Names of the sequences of a trace when it is bytes.
const loadName, replayName = "load", "replay"

// BeginTraceCapture has EnqueueProgram record programs in a trace, from here to
// EndTraceCapture, and launch nothing.
func BeginTraceCapture(q *CommandQueue) (TraceID, error) {
	d, err := q.enter()
	if err != nil {
		return 0, err
	}
	defer d.leave()
	if d.open != nil {
		return 0, usage("trace %d is being captured", d.open.id)
	}
	d.open = &trace{}
	d.open.id = TraceID(d.newID(d.open))
	return d.open.id, nil
}

// EndTraceCapture ends a trace and loads it.
func EndTraceCapture(q *CommandQueue, id TraceID) error {
	d, err := q.enter()
	if err != nil {
		return err
	}
	defer d.leave()
	if d.open == nil || d.open.id != id {
		return usage("trace %d is not being captured", id)
	}
	if len(d.open.launches) == 0 {
		return usage("trace %d has no program: EnqueueProgram comes first", id)
	}
	t := d.open
	d.open = nil
	d.traces[id] = t
	d.lower(t)
	d.loadTrace(t)
	return nil
}

// lower splits a trace into what is stored once and what each replay stores.
func (d *Device) lower(t *trace) {
	for _, l := range t.launches {
		t.cores = append(t.cores, l.cores...)
	}
	slices.SortFunc(t.cores, compareCores)
	t.cores = slices.Compact(t.cores)
	load, replay := newStream(), newStream()
	load.hold(&d.grid, t.cores)
	load.store(&d.grid, merge(t.cores, t.stays))
	for _, c := range t.cores {
		load.arrive(memory, unicast(d.tile(c)), stateBase)
		replay.held[c] = true
	}
	for _, l := range t.launches {
		replay.launch(&d.grid, l, func(c CoreCoord) []block {
			stays := t.stays(c)
			return slices.DeleteFunc(l.all(c), func(b block) bool {
				return slices.ContainsFunc(stays, func(s block) bool { return s.same(b) })
			})
		})
	}
	t.load, t.replay, t.launches = load.commands, replay.commands, nil
}

// stays lists the blocks of a core that nothing else in the trace overwrites.
func (t *trace) stays(c CoreCoord) (list []block) {
	var all []block
	for _, l := range t.launches {
		all = append(all, l.constant[c]...)
		all = append(all, block{stateBase, make([]byte, circularEndOfState)})
	}
	for _, b := range all {
		fits := b.address != stateBase && !slices.ContainsFunc(all, func(o block) bool {
			return b.span().overlaps(o.span()) && !b.same(o)
		})
		if fits && !slices.ContainsFunc(list, b.same) {
			list = append(list, b)
		}
	}
	return list
}

// circularEndOfState is the size of everything that a run uses up.
const circularEndOfState = constantBase - stateBase

func (b block) same(o block) bool { return b.address == o.address && string(b.data) == string(o.data) }

// loadTrace puts a trace in place.
func (d *Device) loadTrace(t *trace) {
	d.emit(Call{Name: "LoadTrace", Trace: uint64(t.id)}, func(s *stream, sequence func(string) uint16) {
		s.place(t, sequence)
	})
}

// place appends the load of a trace.
func (s *stream) place(t *trace, sequence func(string) uint16) {
	s.evict(t.cores)
	if sequence == nil {
		s.inline(t.load)
	} else {
		s.call(sequence(loadName))
	}
	for _, c := range t.cores {
		s.held[c] = true
	}
	s.resident[t.id] = true
}

// CollectTrace gives a trace as bytes that LoadTrace takes in another process,
// for a device of the same board. Buffers that its kernels use are known by
// address: the other process must have them at the same ones.
func CollectTrace(d *Device, id TraceID) ([]byte, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	t, err := d.findTrace(id)
	if err != nil {
		return nil, err
	}
	return lmb.Encode(&lmb.Image{
		Origin: lmb.Origin{Tool: tool, Source: "trace"}, Targets: targets(d.board), Windows: windows(),
		Sequences: []lmb.Sequence{{Name: loadName, Commands: t.load}, {Name: replayName, Commands: t.replay}},
	})
}

// LoadTrace takes a trace from bytes, which CollectTrace gave, and loads it.
func LoadTrace(q *CommandQueue, data []byte) (TraceID, error) {
	d, err := q.enter()
	if err != nil {
		return 0, err
	}
	defer d.leave()
	if d.open != nil {
		return 0, usage("trace %d is being captured", d.open.id)
	}
	image, err := lmb.Decode(slices.Clone(data))
	if err != nil {
		return 0, &hal.Fault{Code: hal.BadImage, Reason: fmt.Sprintf("trace: %v", err)}
	}
	t, err := d.adopt(image)
	if err != nil {
		return 0, err
	}
	t.id = TraceID(d.newID(t))
	d.traces[t.id] = t
	d.loadTrace(t)
	return t.id, nil
}

// adopt checks that an image is a trace for this device.
func (d *Device) adopt(image *lmb.Image) (*trace, error) {
	q := image.Sequences
	if len(q) != 2 || q[0].Name != loadName || q[1].Name != replayName || len(image.Tensors) != 0 || !slices.Equal(image.Windows, windows()) {
		return nil, &hal.Fault{Code: hal.BadImage, Reason: "the image is no trace of CollectTrace"}
	}
	if got, want := image.Targets, targets(d.board); !slices.Equal(got, want) {
		return nil, &hal.Fault{Code: hal.WrongDevice, Reason: "the trace is for " + got[0].Board + ", the device is " + d.board.Name}
	}
	t := &trace{load: q[0].Commands, replay: q[1].Commands}
	for _, c := range t.load {
		if c.Opcode != gen.OpcodePoint {
			continue
		}
		target, _ := fbs.UnpackTarget(c.Mask)
		cores, ok := d.aimed(target)
		if !ok {
			return nil, &hal.Fault{Code: hal.BadImage, Reason: fmt.Sprintf("the trace stores to (%d,%d), which is no core", target.X, target.Y)}
		}
		t.cores = append(t.cores, cores...)
	}
	slices.SortFunc(t.cores, compareCores)
	t.cores = slices.Compact(t.cores)
	return t, nil
}

// aimed lists the cores that a target reaches.
func (g *grid) aimed(t fbs.Target) ([]CoreCoord, bool) {
	last, ok := g.core(boards.Tile{X: t.X, Y: t.Y})
	first := last
	if t.Multicast && ok {
		first, ok = g.core(boards.Tile{X: t.XStart, Y: t.YStart})
	}
	if !ok {
		return nil, false
	}
	list, err := g.cores(CoreRange{first, last})
	return list, err == nil
}

// EnqueueTrace replays a trace and does not wait.
func EnqueueTrace(q *CommandQueue, id TraceID, blocking bool) error {
	d, err := q.enter()
	if err != nil {
		return err
	}
	defer d.leave()
	return d.replayTrace("EnqueueTrace", id, blocking)
}

// ReplayTrace replays a trace. Blocking or not, what is enqueued afterwards
// comes after it, and in an image there is no difference.
func ReplayTrace(q *CommandQueue, id TraceID, blocking bool) error {
	d, err := q.enter()
	if err != nil {
		return err
	}
	defer d.leave()
	return d.replayTrace("ReplayTrace", id, blocking)
}

func (d *Device) replayTrace(name string, id TraceID, blocking bool) error {
	if d.open != nil {
		return usage("trace %d is being captured", d.open.id)
	}
	t, err := d.findTrace(id)
	if err != nil {
		return err
	}
	d.emit(Call{Name: name, Trace: uint64(id)}, func(s *stream, sequence func(string) uint16) {
		if !s.resident[id] { // another program has used its cores since
			s.place(t, sequence)
		}
		if sequence == nil {
			s.inline(t.replay)
		} else {
			s.call(sequence(replayName))
		}
		s.evict(t.cores)
		s.resident[id] = true
	})
	return d.wait(blocking)
}

// evict notes that cores get other contents: traces that use them are no
// longer in place.
func (s *stream) evict(cores []CoreCoord) {
	for id, other := range s.users {
		if _, shared := common(cores, other); shared {
			delete(s.resident, id)
		}
	}
}

// ReleaseTrace ends a trace's life.
func ReleaseTrace(d *Device, id TraceID) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if _, err := d.findTrace(id); err != nil {
		return err
	}
	d.traces[id] = nil
	delete(d.alive, uint64(id))
	d.record(Call{Name: "ReleaseTrace", Trace: uint64(id)})
	return nil
}

func (d *Device) findTrace(id TraceID) (*trace, error) {
	t, known := d.traces[id]
	switch {
	case t != nil:
		return t, nil
	case known:
		return nil, usage("trace %d is released", id)
	case d.open != nil && d.open.id == id:
		return nil, usage("trace %d is still being captured", id)
	}
	return nil, usage("trace %d is unknown on this device", id)
}
