package oracle

// This file executes the commands of an image (FORMAT.md section 6.2).

import (
	"fmt"
	"math"
	"math/big"

	"lightmetal/boards"
	"lightmetal/tools/check/vectors/vector"
)

// Machine is a machine with the devices that an image needs. Its time is virtual.
type Machine interface {
	// Load and Store access a device or host memory. ok is false if the access is answered with
	// an error.
	Load(space vector.Space, offset uint64, width uint8) (value uint64, ok bool)
	Store(space vector.Space, offset uint64, width uint8, value uint64) (ok bool)

	// LoadBytes and StoreBytes access memory, with accesses of up to `width` bytes.
	LoadBytes(space vector.Space, offset uint64, width uint8, data []byte) (ok bool)
	StoreBytes(space vector.Space, offset uint64, width uint8, data []byte) (ok bool)

	// Fence is a full barrier.
	Fence()

	// IsPresent queries a device.
	IsPresent(device int) bool

	// Now returns the time in nanoseconds. Wait lets time pass. Between two loads of a poll, Wait
	// is called even if the poll does not pause, with 0 nanoseconds.
	Now() int64
	Wait(nanoseconds int64)

	// Device returns the device with an index in the image; `needed` is what the image needs.
	Device(index int, needed vector.Device) vector.Device

	// BusAddress returns the bus address of a window, at which a device reaches its memory; 0 and
	// false if the window has none.
	BusAddress(window int) (address uint64, ok bool)
}

// Driver is a Machine with a driver, which determines at which bus addresses devices reach the
// windows of an image, and may program TLB windows. Without a driver, Player does this through
// registers.
type Driver interface {
	Machine

	// Point programs a TLB window as a Point command says, and returns a code. If isDone is false,
	// Player programs the window.
	Point(c *Command, slot int) (code string, isDone bool)

	// Diagnose returns the code of the failure that a device reports: that of an error of DMA, for
	// example.
	Diagnose(device int) (code string)
}

// Player executes the sequences of an image.
type Player struct {
	// SettleNs is how long, in nanoseconds, Player waits after a failed Expect or Compare if a
	// device masters the bus. The runtime queries the devices again after this wait, because an
	// error of DMA may be reported late. Player does not. FORMAT.md does not define the wait.
	SettleNs int64

	// Command is the index in the image of the command that is being executed.
	Command int

	image   *Image
	machine Machine
	driver  Driver // nil: the machine has none
	limitUs uint64
	arena   []byte
	given   map[int]bool // tensors whose data the caller has set
	slots   []int        // for each Tlb window, the number of its TLB window
	// For each Tlb window, the offset in the BAR of the first byte that it accesses.
	firstOffsets []uint64
	buses        []uint64   // for each window, its bus address; 0: none
	regions      [][]region // for each device, the regions of its outbound translation in use

	rings map[uint16]*ringState // those that are set

	disabled bool
	end      int64 // time at which the run is too late
	// Work budgets in microseconds: between two looks at the clock, and until the next one.
	fullBudget, budget int
	result             vector.Result
}

const done = "done"

// memoryBytes is the memory of the machine that tests assume, for tensors and Host windows.
const memoryBytes = 16 << 30

// PCI device ids.
const (
	idWormhole  = 0x401e
	idBlackhole = 0xb140
)

const hour = 3_600_000_000 // in microseconds

// CheckTimeLimit compares the longest time of each sequence with a limit in microseconds, 0 for the
// limit of FORMAT.md.
func CheckTimeLimit(m *Image, limitUs uint64) *Fault {
	if limitUs == 0 {
		limitUs = hour
	}
	for i, us := range m.LongestUs {
		if us > limitUs {
			return badImage(fmt.Sprint("sequence ", i))
		}
	}
	return nil
}

// Load prepares an image for runs. limitUs is the longest permitted time of a sequence, 0 for the
// limit of FORMAT.md.
func Load(m *Image, machine Machine, limitUs uint64) (*Player, *Fault) {
	p := &Player{image: m, machine: machine, limitUs: limitUs, given: map[int]bool{},
		firstOffsets: make([]uint64, len(m.Windows)), slots: make([]int, len(m.Windows)),
		buses: make([]uint64, len(m.Windows)), regions: make([][]region, len(m.Devices)),
		rings: map[uint16]*ringState{}}
	p.driver, _ = machine.(Driver)
	if limitUs == 0 {
		p.limitUs = hour
	}
	for i := range m.Devices {
		if !isFor(&m.Devices[i], machine.Device(i, m.Devices[i].needed(i))) {
			return nil, &Fault{"wrong-device", fmt.Sprint("device ", i)}
		}
	}
	if fault := CheckTimeLimit(m, limitUs); fault != nil {
		return nil, fault
	}
	if m.Reservation.Arena+m.Reservation.Host > memoryBytes {
		return nil, badImage("memory")
	}
	p.arena = make([]byte, m.Reservation.Arena)
	for _, isFixed := range [...]bool{true, false} {
		for i, w := range m.Windows {
			if (w.Flags&flagFixedBus != 0) != isFixed {
				continue
			}
			if code := p.mapWindow(i); code != done {
				return nil, &Fault{code, fmt.Sprint("window ", i)}
			}
		}
	}
	for i := range m.Commands {
		if fault := p.checkMachine(i); fault != "" {
			return nil, &Fault{fault, fmt.Sprint("command ", i)}
		}
	}
	for i := range m.Devices {
		if code := p.programOutbound(i, p.regions[i]); code != done {
			p.Close()
			return nil, &Fault{code, fmt.Sprint("device ", i)}
		}
	}
	return p, nil
}

// Close ends the DMA of all devices.
func (p *Player) Close() {
	for i := range p.image.Devices {
		p.programOutbound(i, nil)
	}
}

// isFor reports whether a device is one that the image needs.
func isFor(want *Device, got vector.Device) bool {
	if got.Vendor != want.Vendor || got.Device != want.Device ||
		want.Subsystem != 0 && got.Subsystem != want.Subsystem {
		return false
	}
	for i := range want.Bars {
		if got.Bars[i] < want.Bars[i] {
			return false
		}
	}
	return true
}

// checkMachine returns the code with which the machine rejects a command, or an empty string.
func (p *Player) checkMachine(at int) (code string) {
	c := &p.image.Commands[at]
	switch c.Opcode {
	case opRelocate:
		bus := p.buses[c.Index]
		if p.driver == nil && !p.isReachable(c) {
			return "usage"
		}
		if bus == 0 {
			return "no-device"
		}
		sum := bus + c.Value
		if at > 0 && p.image.Commands[at-1].Opcode == opWith {
			sum = bus + p.image.Windows[c.Index].Size
		}
		if sum < bus || sum&^widthBits(c.Width) != 0 {
			return "wrong-device"
		}
	case opPoint:
		if _, ok := p.encode(c); p.driver == nil && !ok {
			return "refused"
		}
	}
	return ""
}

// SetInput sets the data of an input tensor.
func (p *Player) SetInput(tensor int, data []byte) {
	copy(p.Tensor(tensor), data)
	p.given[tensor] = true
}

// Tensor returns the bytes of a tensor in the arena.
func (p *Player) Tensor(tensor int) []byte {
	t := &p.image.Tensors[tensor]
	return p.arena[t.ArenaOffset:][:t.Size]
}

// Run executes a sequence, and "safe" if it fails.
func (p *Player) Run(sequence int) vector.Result {
	if p.disabled {
		return vector.Result{Code: "disabled", Command: -1}
	}
	for i, t := range p.image.Tensors {
		if t.Role == roleInput && t.HasData == 0 && !p.given[i] {
			return vector.Result{Code: "input-missing", Command: -1}
		}
	}
	if !p.hasRingsFor(sequence) {
		return vector.Result{Code: "ring-unset", Command: -1}
	}
	result := p.Execute(sequence, 0)
	safe := p.image.Find("safe")
	if p.disabled = result.Code != done; p.disabled {
		clear(p.rings)
	}
	if p.disabled && safe >= 0 && safe != sequence {
		result.SafeRan, result.Safe = true, p.Execute(safe, 0).Code
	}
	return result
}

// Execute executes one sequence, and not "safe" if it fails. If limitNs is not 0, the run has this
// limit besides that of Load. Then the clock is read after every work budget and at the end of the
// run, as by the runtime, and otherwise only during waits.
func (p *Player) Execute(sequence int, limitNs int64) vector.Result {
	limit := int64(p.limitUs) * 1000
	p.fullBudget = math.MaxInt
	if limitNs != 0 {
		limit, p.fullBudget = min(limit, limitNs), workBudgetUs
	}
	p.end, p.budget = p.machine.Now()+limit, p.fullBudget
	p.result = vector.Result{Command: -1}
	p.result.Code = p.executeCommands(sequence)
	if p.result.Code == done && limitNs != 0 {
		p.result.Code = p.codeOfTime()
	}
	if p.result.Code != done {
		p.result.Command = p.Command
	}
	return p.result
}

// What the runtime charges, in microseconds: a budget, a command with one access, the further
// accesses of a Point that the runtime makes, and what the runtime does after an access.
const (
	workBudgetUs = 900
	commandUs    = 2
	pointUs      = 3
	queryUs      = 10
)

// executeCommands executes the commands of a sequence, except End.
func (p *Player) executeCommands(sequence int) (code string) {
	s := p.image.Sequences[sequence]
	last := int(s.First+s.Count) - 1
	for p.Command = int(s.First); ; {
		if p.budget <= 0 {
			if code := p.codeOfTime(); code != done {
				return code
			}
		}
		at := p.Command
		if at == last {
			return done
		}
		if code := p.executeCommand(p.moved(at)); code != done {
			return code
		}
		p.budget -= commandUs
		p.Command = at + 1
	}
}

// codeOfTime looks at the clock, and returns frame-late if the run takes longer than its limit.
func (p *Player) codeOfTime() (code string) {
	p.budget = p.fullBudget
	if p.machine.Now() > p.end {
		return "frame-late"
	}
	return done
}

// forEachPart calls f for each part of a command between two looks at the clock, with the first
// byte of the part and the first after it. A bulk copy is interrupted only where its accesses stay
// the same: at a multiple of 128 bytes after an address that is a multiple of 32.
func (p *Player) forEachPart(c *Command, f func(first, end uint64) (code string)) (code string) {
	_, base := p.Place(c.Window)
	for first := uint64(0); ; {
		left := uint64(c.Amount) - first
		if accesses := int(left / uint64(c.Width)); accesses < p.budget {
			p.budget -= accesses
			return f(first, first+left)
		}
		part := uint64(p.budget-1) * uint64(c.Width)
		if c.Opcode != opCompare && c.Mode == modeBulk {
			toAlign := -(base + uint64(c.Offset) + first) % 32
			if part >= toAlign+128 {
				part -= (part - toAlign) % 128
			} else {
				part = 0
			}
		}
		p.budget = 1
		if code := f(first, first+part); code != done {
			return code
		}
		if code := p.codeOfTime(); code != done {
			return code
		}
		first += part
	}
}

// Place returns the space of a window, and the offset of its first byte there.
func (p *Player) Place(window uint16) (space vector.Space, offset uint64) {
	w := &p.image.Windows[window]
	switch w.Kind {
	case kindBar:
		return vector.OfBar(int(w.Device), int(w.Bar)), w.Offset
	case kindTlb:
		_, group := p.tlbWindow(window)
		return vector.OfBar(int(w.Device), int(group.Bar)), p.firstOffsets[window]
	case kindConfig:
		return vector.OfConfig(int(w.Device)), 0
	}
	return vector.OfHost(int(window)), 0
}

// load makes one load of a command.
func (p *Player) load(c *Command, offset uint64) (value uint64, code string) {
	space, base := p.Place(c.Window)
	value, ok := p.machine.Load(space, base+offset, c.Width)
	return value, codeOf(ok)
}

// store makes one store of a command.
func (p *Player) store(c *Command, offset, value uint64) (code string) {
	space, base := p.Place(c.Window)
	return codeOf(p.machine.Store(space, base+offset, c.Width, value))
}

// codeOf returns the code of an access.
func codeOf(ok bool) string {
	if !ok {
		return "bus-fault"
	}
	return done
}

func (p *Player) executeCommand(c *Command) (code string) {
	offset := uint64(c.Offset)
	switch c.Opcode {
	case opWrite:
		return p.store(c, offset, c.Value)
	case opModify:
		loaded, code := p.loadChecked(c)
		if code != done {
			return code
		}
		p.budget -= queryUs
		return p.store(c, offset, c.Value|loaded&^c.Mask)
	case opRelocate:
		return p.store(c, offset, p.buses[c.Index]+c.Value)
	case opCopyIn:
		return p.copyIn(c)
	case opFill:
		return p.fill(c)
	case opCopyOut:
		return p.copyOut(c)
	case opExpect:
		return p.expect(c)
	case opCompare:
		return p.compare(c)
	case opPoint:
		return p.point(c)
	case opFence:
		p.machine.Fence()
	case opDelay:
		return p.wait(int64(c.Amount) * 1000)
	case opAdvance:
		p.advance(c.Index, c.Value)
	case opReset:
		p.reset(c.Index)
	case opCall:
		p.budget -= queryUs
		return p.executeCommands(int(c.Index))
	}
	return done
}

// loadChecked makes the load of a Modify or an Expect. If it returns all ones, the device is
// queried.
func (p *Player) loadChecked(c *Command) (value uint64, code string) {
	value, code = p.load(c, uint64(c.Offset))
	if code == done && value == widthBits(c.Width) {
		code = p.query(int(p.image.Windows[c.Window].Device))
	}
	return value, code
}

func (p *Player) query(device int) (code string) {
	if !p.machine.IsPresent(device) {
		return "device-gone"
	}
	return done
}

// operandData returns the bytes in memory that a command uses: of the payload, or of a tensor.
func (p *Player) operandData(c *Command) []byte {
	if c.Index == 0 {
		return p.image.Payload[c.Value:][:c.Amount]
	}
	tensor := int(c.Index) - 1
	t := &p.image.Tensors[tensor]
	if t.Role == roleInput && !p.given[tensor] {
		return p.image.Payload[t.DataOffset:][:t.Size][c.Value:][:c.Amount]
	}
	return p.Tensor(tensor)[c.Value:][:c.Amount]
}

// forEachAccess calls f for each access of a command, with the offset of the access in the window,
// and the offset of its bytes in the memory. It stops at the first code that is not done.
func (p *Player) forEachAccess(c *Command,
	f func(offset, inMemory uint64) (code string)) (code string) {
	return p.forEachPart(c, func(n, end uint64) (code string) {
		for ; n < end; n += uint64(c.Width) {
			offset := uint64(c.Offset) + n
			if c.Opcode != opCompare && c.Mode == modeFixed {
				offset = uint64(c.Offset)
			}
			if code := f(offset, n); code != done {
				return code
			}
		}
		return done
	})
}

func littleEndian(data []byte) (n uint64) {
	for i, b := range data {
		n |= uint64(b) << (8 * i)
	}
	return n
}

func (p *Player) copyIn(c *Command) (code string) {
	data := p.operandData(c)
	if c.Mode == modeBulk {
		space, base := p.Place(c.Window)
		return p.forEachPart(c, func(first, end uint64) string {
			at := base + uint64(c.Offset) + first
			return codeOf(p.machine.StoreBytes(space, at, c.Width, data[first:end]))
		})
	}
	return p.forEachAccess(c, func(offset, inMemory uint64) string {
		return p.store(c, offset, littleEndian(data[inMemory:][:c.Width]))
	})
}

func (p *Player) fill(c *Command) (code string) {
	return p.forEachAccess(c, func(offset, _ uint64) string { return p.store(c, offset, c.Value) })
}

func (p *Player) copyOut(c *Command) (code string) {
	data := p.operandData(c)
	if c.Mode == modeBulk {
		space, base := p.Place(c.Window)
		code = p.forEachPart(c, func(first, end uint64) string {
			at := base + uint64(c.Offset) + first
			return codeOf(p.machine.LoadBytes(space, at, c.Width, data[first:end]))
		})
	} else {
		code = p.forEachAccess(c, func(offset, inMemory uint64) string {
			value, code := p.load(c, offset)
			if code != done {
				return code
			}
			for i := range uint64(c.Width) {
				data[inMemory+i] = byte(value >> (8 * i))
			}
			return done
		})
	}
	if code != done {
		return code
	}
	if data[len(data)-1] == 0xff {
		p.budget -= queryUs
	}
	last := data[max(0, len(data)-int(c.Width)):]
	if !isAllOnes(last) {
		return done
	}
	return p.query(int(p.image.Windows[c.Window].Device))
}

func isAllOnes(data []byte) bool {
	for _, b := range data {
		if b != 0xff {
			return false
		}
	}
	return true
}

func (p *Player) expect(c *Command) (code string) {
	isMet := func(loaded uint64) bool {
		if c.Mode == modeReached {
			return (loaded-c.Value)&c.Mask <= c.Mask>>1
		}
		return (loaded&c.Mask == c.Value) == (c.Mode == modeEqual)
	}
	load := func() (uint64, string) {
		loaded, code := p.loadChecked(c)
		if c.Mode != modeEqual || !isMet(loaded) || loaded == widthBits(c.Width) {
			p.budget -= queryUs
		}
		return loaded, code
	}
	loaded, code := load()
	began := p.machine.Now()
	deadline := began + int64(c.Amount)*1000
	isLast, failure := c.Amount == 0, "expect-failed"
	for code == done && !isMet(loaded) {
		if isLast {
			p.result.HasSeen = true
			p.result.Got, p.result.Want, p.result.Mask = loaded, c.Value, c.Mask
			return p.applyPolicy(c, failure)
		}
		failure = "deadline-passed"
		left := deadline - p.machine.Now()
		pause := int64(c.Index) * 1000
		if c.Index == 0 {
			pause = (p.machine.Now() - began) / 32
		}
		if p.wait(max(0, min(pause, left))) != done {
			failure, isLast = "frame-late", true
		}
		isLast = isLast || p.machine.Now() >= deadline
		loaded, code = load()
	}
	return code
}

func (p *Player) compare(c *Command) (code string) {
	golden, isEqual := p.operandData(c), true
	code = p.forEachAccess(c, func(offset, inMemory uint64) string {
		got, code := p.load(c, offset)
		want := littleEndian(golden[inMemory:][:c.Width])
		if code == done && got != want {
			isEqual, code = false, "compare-failed"
			p.result.Got, p.result.Want, p.result.Mask = got, want, widthBits(c.Width)
			p.result.Element = inMemory / uint64(c.Width)
		}
		return code
	})
	if isEqual {
		return code
	}
	p.result.HasSeen = true
	p.budget -= queryUs
	return p.applyPolicy(c, code)
}

// applyPolicy queries all devices after an Expect or a Compare that does not hold.
func (p *Player) applyPolicy(c *Command, failure string) (code string) {
	clearDetails := func(code string) string {
		p.result.HasSeen = false
		p.result.Got, p.result.Want, p.result.Mask, p.result.Element = 0, 0, 0, 0
		return code
	}
	diagnose := p.query
	if p.driver != nil {
		diagnose = p.driver.Diagnose
	}
	for i := range p.image.Devices {
		if code := diagnose(i); code != done {
			return clearDetails(code)
		}
	}
	if c.Option == optionFail || failure == "frame-late" {
		if p.SettleNs != 0 && p.image.mastersBus() {
			p.machine.Wait(p.SettleNs)
		}
		return failure
	}
	p.budget -= queryUs * len(p.image.Devices)
	p.result.Ignored++
	return clearDetails(done)
}

// wait lets time pass. It returns frame-late if the run takes longer than its limit.
func (p *Player) wait(nanoseconds int64) (code string) {
	p.machine.Wait(nanoseconds)
	return p.codeOfTime()
}

// tlbWindow returns the number and the group of a window's TLB window.
func (p *Player) tlbWindow(window uint16) (slot int, group *boards.WindowGroup) {
	slot = p.slots[window]
	board := p.image.knownBoard(p.image.Windows[window].Device)
	return slot, groupOf(board, slot)
}

// encode returns the contents of the registers with which a Point programs its TLB window.
// Sources: tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md, and tt-kmd, blackhole.c,
// TLB_2M_REG and TLB_4G_REG.
func (p *Player) encode(c *Command) (registers *big.Int, ok bool) {
	w := &p.image.Windows[c.Window]
	_, group := p.tlbWindow(c.Window)
	t, ok, low := unpackTiles(c.Mask), true, uint(0)
	registers = new(big.Int)
	put := func(value uint64, bits uint) {
		ok = ok && value>>bits == 0
		field := new(big.Int).SetUint64(value)
		registers.Or(registers, field.Lsh(field, low))
		low += bits
	}
	isWormhole := p.image.Devices[w.Device].Device == idWormhole
	addressBits := map[uint64]uint{1 << 20: 16, 2 << 20: 15, 16 << 20: 12}[group.Size]
	if !isWormhole {
		addressBits = map[uint64]uint{2 << 20: 43, 4 << 30: 32}[group.Size]
	}
	put(c.Value/group.Size, addressBits)
	for _, coordinate := range [...]uint8{t.X, t.Y, t.XStart, t.YStart} {
		put(uint64(coordinate), 6)
	}
	if isWormhole {
		put(uint64(t.NoC), 1)
		put(uint64(t.Multicast), 1)
		put(uint64(t.Ordering-1), 2)
		put(0, 1) // linked
		put(uint64(t.StaticVC), 1)
		return registers, ok
	}
	put(uint64(t.NoC), 2)
	put(uint64(t.Multicast), 1)
	put(uint64(t.Ordering-1), 2)
	put(0, 1) // linked
	put(uint64(min(t.StaticVC, 1)), 1)
	put(0, 1)
	put(uint64(max(t.StaticVC, 1)-1), 3)
	return registers, ok
}

// point programs a TLB window: Wormhole has one register of 64 bits, Blackhole three of 32 bits.
func (p *Player) point(c *Command) (code string) {
	const configuration = 0x1fc00000 // offset of the registers in BAR 0
	w := &p.image.Windows[c.Window]
	slot, group := p.tlbWindow(c.Window)
	p.firstOffsets[c.Window] = group.Offset + uint64(slot-group.First)*group.Size +
		c.Value&(group.Size-1)
	if p.driver != nil {
		if code, isDone := p.driver.Point(c, slot); isDone {
			p.budget -= queryUs
			return code
		}
	}
	p.budget -= pointUs
	value, _ := p.encode(c)
	bar := vector.OfBar(int(w.Device), 0)
	width, count := uint8(8), 1
	if p.image.Devices[w.Device].Device == idBlackhole {
		width, count = 4, 3
	}
	at := configuration + uint64(slot*count)*uint64(width)
	mask := new(big.Int).SetUint64(widthBits(width))
	p.machine.Fence()
	for i := range count {
		register := new(big.Int).And(value, mask).Uint64()
		if code := codeOf(p.machine.Store(bar, at, width, register)); code != done {
			return code
		}
		value.Rsh(value, 8*uint(width))
		if i < count-1 {
			at += uint64(width)
		}
	}
	_, ok := p.machine.Load(bar, at, width)
	p.machine.Fence()
	return codeOf(ok)
}

// needed returns a device as the image needs it.
func (d *Device) needed(index int) vector.Device {
	return vector.Device{Index: index, Vendor: d.Vendor, Device: d.Device, Subsystem: d.Subsystem,
		Bars: d.Bars}
}
