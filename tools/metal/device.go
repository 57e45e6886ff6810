package metal

import (
	"time"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
)

// Device is a chip on which calls take effect. CreateDevice returns one.
type Device struct {
	// Deadline is the time that a launched program may take, also in a replay, before the run
	// fails: at most 71 minutes. It applies to later launches.
	Deadline time.Duration

	// RecordingOff makes LightMetalBeginCapture do nothing, so that one build of a program can run
	// with and without recording. The build tag nolightmetal removes recording from the build.
	RecordingOff bool

	// Source describes what was captured. Images contain it as their origin.
	Source string

	grid
	dram, l1 allocator
	queue    CommandQueue
	lastID   uint64             // last global id; all kinds of objects share one count from 1
	alive    map[uint64]any     // objects that have not been released, by global id
	traces   map[TraceID]*trace // traces that have ended; nil: released
	open     *trace             // trace that is being captured, else nil
	capture  *capture           // recording of calls, else nil
	machine  *machine           // executes calls; nil: nothing is computed
	closed   bool
}

// CommandQueue is the queue of the calls that have an effect on the device. Each device has one
// queue, which executes calls in the order in which they were enqueued.
type CommandQueue struct{ device *Device }

// CreateDevice returns a chip of a board (Wormhole or Blackhole). Calls take effect on the device
// `on`, which the caller closes after CloseDevice. If it is nil, nothing is computed.
func CreateDevice(board *boards.Board, on hal.Device) (_ *Device, err error) {
	defer fail.Catch(&err)
	if board == nil || chips.ForBoard(board).Grid == nil || board.TLB == nil {
		refuse("the board must have a grid of cores; use wormhole or blackhole")
	}
	d := &Device{Deadline: time.Second, grid: newGrid(board), alive: map[uint64]any{},
		traces: map[TraceID]*trace{}}
	l1, dram := chips.ForBoard(board).Grid.FindMemory(chips.Tensix, 0, 1),
		chips.ForBoard(board).Grid.FindMemory(chips.DRAM, 0, 1)
	d.l1 = allocator{name: "L1", limit: span{dataBase, l1.Last + 1}}
	// Address 0 stays free, so that kernels can use the address 0 for "no buffer".
	d.dram = allocator{name: "DRAM", limit: span{align, dram.Last + 1}}
	d.queue.device = d
	if on != nil {
		if id := on.Identity(); id.Vendor != board.Vendor || id.Device != board.Device {
			fail.With(hal.WrongDevice, "device %s has PCI ids %04x:%04x, but board %s has "+
				"%04x:%04x", id.Name, id.Vendor, id.Device, board.Name, board.Vendor, board.Device)
		}
		d.machine = newMachine(d, on)
	}
	return d, nil
}

// CommandQueue returns the command queue of the device.
func (d *Device) CommandQueue() *CommandQueue { return &d.queue }

// Board returns the board of the device.
func (d *Device) Board() *boards.Board { return d.board }

// GridSize returns the number of columns (X) and rows (Y) of cores.
func (d *Device) GridSize() CoreCoord { return CoreCoord{len(d.columns), len(d.rows)} }

// WorkerCore returns the coordinates of a core's tile as kernels encode them: x | y << 8.
func (d *Device) WorkerCore(c CoreCoord) (_ uint32, err error) {
	defer fail.Catch(&err)
	d.cores(c)
	return word(d.tile(c)), nil
}

// DRAMBanks returns the number of DRAM banks, over which the pages of interleaved buffers are
// distributed.
func (d *Device) DRAMBanks() int { return len(d.banks) }

// word returns the coordinates of a tile as kernels encode them: x | y << 8.
func word(t chips.Tile) uint32 { return uint32(t.X) | uint32(t.Y)<<8 }

// CloseDevice executes all pending calls and closes the device. Every later call with the device
// returns an error.
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

// use fails if the device is nil or closed.
func (d *Device) use() {
	if d == nil {
		refuse("the device is nil")
	}
	if d.closed {
		refuse("the device is closed")
	}
}

// use returns the device of the queue. It fails if there is none, or if it is closed.
func (q *CommandQueue) use() *Device {
	if q == nil || q.device == nil {
		refuse("the command queue is nil, or has no device")
	}
	q.device.use()
	return q.device
}

// newID adds an object to alive and returns its global id. The ids never wrap around.
func (d *Device) newID(object any) uint64 {
	d.lastID++
	d.alive[d.lastID] = object
	return d.lastID
}

// check fails if the object with this id is not an object of this device, or was released. kind
// names the kind of object in the error.
func (d *Device) check(kind string, id uint64, object any) {
	switch {
	case d.alive[id] == object:
	case id == 0 || id > d.lastID:
		refuse("%s %d is unknown on this device", kind, id)
	case d.alive[id] != nil:
		refuse("%s %d belongs to another device", kind, id)
	default:
		refuse("%s %d was released", kind, id)
	}
}

// refuse ends the current exported call, which returns this error with the code hal.Usage.
func refuse(format string, a ...any) { fail.With(hal.Usage, format, a...) }
