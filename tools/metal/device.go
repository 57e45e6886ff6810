package metal

import (
	"time"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
)

// Device is a chip that calls go to. CreateDevice makes one.
type Device struct {
	// Deadline is how long a launched program may take, at replay too, before
	// it counts as hung: at most 71 minutes. It is set before the launch.
	Deadline time.Duration

	// RecordingOff makes LightMetalBeginCapture do nothing, so that a program
	// can keep its calls of it and be built once. The build tag nolightmetal
	// takes recording out altogether.
	RecordingOff bool

	// Source stands in the origin of images: what was captured.
	Source string

	grid
	dram, l1 allocator
	queue    CommandQueue
	lastID   uint64 // global ids count up from 1, over all kinds of objects
	alive    map[uint64]any
	traces   map[TraceID]*trace // nil: released
	open     *trace             // being captured, between BeginTraceCapture and EndTraceCapture
	capture  *capture           // between LightMetalBeginCapture and LightMetalEndCapture
	machine  *machine           // what computes, nil: nothing does
	closed   bool
}

// CommandQueue orders the calls that have an effect on the device. There is
// one a device, and what is enqueued is carried out in order.
type CommandQueue struct{ device *Device }

// CreateDevice gives a chip of a board (Wormhole or Blackhole), with on behind
// it; on may be nil, and then nothing is computed. The caller closes on after
// CloseDevice.
func CreateDevice(board *boards.Board, on hal.Device) (_ *Device, err error) {
	defer fail.Catch(&err)
	if board == nil || chips.Of(board).Grid == nil || board.TLB == nil {
		refuse("a board with a grid of cores is needed: wormhole or blackhole")
	}
	d := &Device{Deadline: time.Second, grid: newGrid(board), alive: map[uint64]any{},
		traces: map[TraceID]*trace{}}
	l1, dram := chips.Of(board).Grid.FindMemory(chips.Tensix, 0, 1),
		chips.Of(board).Grid.FindMemory(chips.DRAM, 0, 1)
	d.l1 = allocator{name: "L1", limit: span{dataBase, l1.Last + 1}}
	// Address 0 stays free, so that a kernel can take it for none.
	d.dram = allocator{name: "DRAM", limit: span{align, dram.Last + 1}}
	d.queue.device = d
	if on != nil {
		if id := on.Identity(); id.Vendor != board.Vendor || id.Device != board.Device {
			fail.With(hal.WrongDevice, "%s is %04x:%04x, %s is %04x:%04x", id.Name, id.Vendor,
				id.Device, board.Name, board.Vendor, board.Device)
		}
		d.machine = newMachine(d, on)
	}
	return d, nil
}

// CommandQueue gives the device's queue.
func (d *Device) CommandQueue() *CommandQueue { return &d.queue }

// Board tells which chip the device is.
func (d *Device) Board() *boards.Board { return d.board }

// GridSize is the number of columns and rows of cores.
func (d *Device) GridSize() CoreCoord { return CoreCoord{len(d.columns), len(d.rows)} }

// WorkerCore gives the tile of a core as kernels name it: x | y << 8.
func (d *Device) WorkerCore(c CoreCoord) (_ uint32, err error) {
	defer fail.Catch(&err)
	d.cores(c)
	return word(d.tile(c)), nil
}

// DRAMBanks is the number of DRAM banks that interleaved buffers go round.
func (d *Device) DRAMBanks() int { return len(d.banks) }

// word is a tile as kernels name it.
func word(t chips.Tile) uint32 { return uint32(t.X) | uint32(t.Y)<<8 }

// CloseDevice releases everything that is left on a device. Nothing may be
// called on it afterwards.
func CloseDevice(d *Device) (err error) {
	defer fail.Catch(&err)
	d.use()
	if d.capture != nil {
		refuse("a capture has begun on this device; call LightMetalEndCapture before CloseDevice")
	}
	d.closed = true
	if d.machine != nil {
		d.machine.run()
	}
	return nil
}

// use refuses a call on a device that is not there, or closed.
func (d *Device) use() {
	if d == nil {
		refuse("the device is nil")
	}
	if d.closed {
		refuse("the device is closed")
	}
}

// use gives the device of a queue, for a call on it.
func (q *CommandQueue) use() *Device {
	if q == nil || q.device == nil {
		refuse("the command queue is nil, or has no device")
	}
	q.device.use()
	return q.device
}

// newID gives the next global id. 2^64 of them do not wrap.
func (d *Device) newID(object any) uint64 {
	d.lastID++
	d.alive[d.lastID] = object
	return d.lastID
}

// check refuses an object, which has an id of some device, that is not one of this.
func (d *Device) check(kind string, id uint64, object any) {
	switch {
	case d.alive[id] == object:
	case id == 0 || id > d.lastID:
		refuse("%s %d is unknown on this device", kind, id)
	case d.alive[id] != nil:
		refuse("%s %d belongs to another device", kind, id)
	default:
		refuse("%s %d is released", kind, id)
	}
}

// refuse ends the call under way, which gives this as its error.
func refuse(format string, a ...any) { fail.With(hal.Usage, format, a...) }
