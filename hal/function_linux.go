package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// device is a function with the methods of a Device. Lanes hold functions, and so
// have none of those methods.
type device struct{ *function }

// function is a PCI function, whichever way the kernel hands it out, to which a
// lane gives parts.
type function struct {
	backend backend
	scheme  string // of lane, as it stands in names
	locator string // what follows it there, of PCI in small letters
	byIDs   bool   // rest is ids and no address
	// by a driver of the kernel's beside us, which has it master the bus all the time
	sharedWithDriver bool
	identity         Identity
	address          string             // 0000:01:00.0
	boundDriver      string             // driver of the kernel's that has it, empty where none does
	barStarts        [configBars]uint64 // of BARs, where the processor has them
	config           configSpace
	lastHeader       uint64 // the first 8 bytes of configuration space, as Alive read them
	// gives back what was taken, but for host memory; the last comes first
	cleanups     []func() error
	hostMemory   [][]byte // host memory
	hugePageRest []byte   // of its last huge page
	busMaster    bool     // Master switched it on
	acquired     bool     // a Map has come
	acquireError error    // of the first Map, which those that follow give too
	staleStatus  uint64   // bits of the status register that were set before

	dmaFaulted func() bool // tells faults that the status register does not; nil: nothing does

	tlb          *boards.TLB // nil where the device has no movable windows
	tlbRegisters uintptr     // of the TLB, mapped, from the first window's on
	tlbWindows   []Aperture  // by slot; the whole hardware window, size 0 where it is free

	outbound          *boards.Outbound // nil where the device has the addresses of the bus
	outboundRegisters Aperture         // onto its registers, size 0 where nothing is shown
	outboundRegions   []outboundRegion
	nextOutbound      uint64 // where the next one may begin
}

// lane is what differs between the ways.
type backend interface {
	// open looks for what the device is, and stores nothing to it.
	probe() error
	// take makes the device this program's, before its first window is
	// mapped: decoding on, mastering off, what was left going reset.
	acquire() error
	// mapFile maps a range of a BAR, by mapRange. Write-combining is a wish.
	mapBarRange(bar uint8, wc bool, offset, size uint64) (Aperture, error)
	// host gives the address that the device reaches whole pages of host memory
	// at, and keeps them where they are, which huge ones are.
	mapForDevice(mem []byte, huge bool) (bus uint64, err error)
	// window reserves a hardware window of at least a size and maps all of it;
	// slot -1: none is left.
	allocateWindow(prefer uint16, size uint64, wc bool) (slot int, a Aperture, err error)
	// point is Point, of a window that no registers aim.
	programWindow(a *Aperture, t fbs.TileRange, address uint64) Code
	// reach is Reach, of a device of the same lane.
	assignBusAddress(a *Aperture, owner *function) error
}

// folder is the function's in sysfs.
func (d *function) sysfsDir() string { return sysfsDevices + "/" + d.address }

// Identity implements Device.
func (d *device) Identity() Identity {
	identity := d.identity
	identity.Address = d.address
	return identity
}

// Map implements Device.
func (d *device) Map(w fbs.Window) (Aperture, error) {
	if !d.acquired {
		d.acquired, d.acquireError = true, d.backend.acquire()
	}
	if d.acquireError != nil {
		return Aperture{}, d.acquireError
	}
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w.Bar, w.Flags&fbs.FlagWriteCombining != 0, w.Offset, w.Size)
	case gen.WindowKindTlb:
		return d.mapTLB(w)
	case gen.WindowKindConfig:
		return d.mapConfig(w.Size)
	case gen.WindowKindHost:
		return d.mapHost(w.Size)
	}
	return Aperture{}, NewFault(Internal, d.identity.Name+": window of unknown kind "+
		strconv.Itoa(int(w.Kind)))
}

// mapBar makes a range of a BAR accessible.
func (d *function) mapBar(bar uint8, wc bool, offset, size uint64) (a Aperture, err error) {
	what := d.identity.Name + ": BAR " + strconv.Itoa(int(bar))
	if bar >= configBars || d.identity.Bars[bar] == 0 {
		return a, NewFault(WrongDevice, what+
			" does not exist or is not memory; is the image for this device?")
	}
	if has := d.identity.Bars[bar]; size == 0 || offset > has || size > has-offset {
		return a, NewFault(WrongDevice, what+
			fbs.Text(" has %x bytes, the window needs %x at %x", has, size, offset)+
			"; is the image for this device, and did the firmware grant the whole BAR?")
	}
	return d.backend.mapBarRange(bar, wc, offset, size)
}

// mapRange maps a range of a file until Close: only the pages that it needs. Two
// mappings of one page with different memory types do not go together (on x86 the
// kernel refuses the second, or makes it uncached: arch/x86/mm/pat/memtype.c), and
// the kernel builds the page table of a mapping at once.
func (d *function) mapRange(fd int, offset, size uint64, path string) (Aperture, error) {
	inside := offset % uint64(unix.Getpagesize())
	mem, err := syscalls.mmap(fd, int64(offset-inside), int(inside+size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EINVAL {
		return Aperture{}, NewFault(NoDevice,
			"mmap "+path+": "+err.Error()+
				"; do other windows, or other processes, map the same pages with another memory "+
				"type?")
	}
	if err != nil {
		return Aperture{}, callFault("mmap", path, err)
	}
	d.deferClose(func() error { return callFault("munmap", d.identity.Name, syscalls.munmap(mem)) })
	return MappedAperture(mem, inside, size, -1), nil
}

// mapTLB reserves a hardware window and maps the whole of it, so that Point
// can move the aperture inside.
func (d *function) mapTLB(w fbs.Window) (Aperture, error) {
	if d.tlb == nil {
		return Aperture{}, NewFault(WrongDevice,
			d.identity.Name+
				": the image moves windows and the device has none that move; is the image for "+
				"this device?")
	}
	if d.tlbWindows == nil {
		last := &d.tlb.Groups[len(d.tlb.Groups)-1]
		d.tlbWindows = make([]Aperture, last.First+last.Count)
	}
	slot, a, err := d.backend.allocateWindow(w.Slot, w.Size, w.Flags&fbs.FlagWriteCombining != 0)
	if err == nil && slot < 0 {
		err = NewFault(NoDevice, d.identity.Name+
			fbs.Text(": no hardware window of %x bytes is left; the image has too many, or too "+
				"large, Tlb windows for this device", w.Size))
	}
	if err != nil {
		return Aperture{}, err
	}
	a.Slot, a.Bus = slot, 0 // it moves with every Point
	d.tlbWindows[slot] = a
	a.Size = w.Size
	return a, nil
}

// window implements lane, where registers aim windows: they are mapped with the first.
func (d *function) allocateWindow(prefer uint16, size uint64, wc bool) (slot int, a Aperture,
	err error) {
	if d.tlbRegisters == 0 {
		if a, err = d.mapBar(d.tlb.ConfigBar, false, d.tlb.ConfigOffset,
			d.tlb.ConfigStride*uint64(len(d.tlbWindows))); err != nil {
			return -1, a, err
		}
		d.tlbRegisters = a.Base
	}
	slot = d.tlb.ChooseWindow(prefer, size, &d.identity.Bars,
		func(slot int) bool { return d.tlbWindows[slot].Size != 0 })
	if slot >= 0 {
		g := d.tlb.GroupOf(slot)
		a, err = d.mapBar(g.Bar, wc, g.WindowOffset(slot), g.Size)
	}
	return slot, a, err
}

// Aim implements Device. In a hardware window that is larger, the aperture moves
// inside. Tenstorrent's driver sets no static virtual channel but channel 0 of a
// device that numbers them (tt-kmd wormhole.c, blackhole.c).
func (d *device) EncodeWindow(a *Aperture, t fbs.TileRange, address uint64,
	c *fbs.Command) (registers, home uintptr, code Code) {
	if a.Slot < 0 || a.Slot >= len(d.tlbWindows) || d.tlbWindows[a.Slot].Size == 0 {
		return 0, 0, Internal
	}
	window := &d.tlbWindows[a.Slot]
	inside := address & (window.Size - 1)
	words, ok := d.tlb.EncodeWindow(d.tlb.GroupOf(a.Slot), t, address-inside)
	if !ok || inside+a.Size > window.Size || d.sharedWithDriver &&
		t.StaticVC > d.tlb.Fields[boards.UseStaticVC] {
		return 0, 0, Refused
	}
	c.Offset, c.Width, c.Amount = uint32(uint64(a.Slot)*d.tlb.ConfigStride), d.tlb.ConfigWidth,
		uint32(inside)
	c.Value, c.Mask = words[0], words[1]
	return d.tlbRegisters, window.Base, OK
}

// Point implements Device.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code {
	return d.backend.programWindow(a, t, address)
}

// point implements lane: who has registers from Aim does it without.
func (d *function) programWindow(*Aperture, fbs.TileRange, uint64) Code { return Internal }

// Reach implements Device. Tiles have addresses of their own for their device's
// Host windows, and none for anything else; a driver gives its device's alone.
func (d *device) AssignBusAddress(a *Aperture, of Device) error {
	owner, ok := of.(*device)
	switch {
	case !ok:
	case d.outbound != nil || d.sharedWithDriver:
		ok = owner.function == d.function && (d.sharedWithDriver || a.isHost)
	default:
		ok = owner.scheme == d.scheme && (owner.outbound == nil || !a.isHost)
	}
	if !ok {
		return NewFault(Usage, d.identity.Name+" cannot reach memory of "+of.Identity().Name+
			"; open both as pci:, or both as vfio:; tiles reach nothing but their device's own "+
			"Host windows, and nothing else reaches those")
	}
	return d.backend.assignBusAddress(a, owner.function)
}

// Master implements Device. Bits of the status register that are set before
// the device masters the bus, and stay, say nothing of what it does then. A
// driver has its device master the bus all the time.
func (d *device) SetBusMaster(on bool) (err error) {
	if !on && !d.busMaster {
		return nil // who may not store to configuration space need not
	}
	if on {
		if !d.sharedWithDriver {
			d.config.Store(configStatus, 2, configStatusDMA)
		}
		d.staleStatus, _ = d.config.Load(configStatus, 2)
		err = d.programOutbound(true)
	}
	if !d.sharedWithDriver && err == nil {
		err = d.setCommandBit(configCommandMaster, on)
	}
	d.busMaster = on || err != nil // what has not stopped is asked to again
	if !on && CodeOf(err) != DeviceGone {
		if e := d.programOutbound(false); err == nil {
			err = e
		}
	}
	return err
}

// Alive implements Device.
func (d *device) Alive() bool {
	header, code := d.config.Load(0, 8)
	d.lastHeader = header
	return code == OK && uint16(header) != 0xffff &&
		header>>(8*configCommand)&configCommandMemory != 0
}

// Diagnose implements Device.
func (d *device) Diagnose() Code {
	switch {
	case !d.Alive():
		return DeviceGone
	case d.busMaster && d.lastHeader>>(8*configCommand)&configCommandMaster == 0:
		return MasterOff
	case d.busMaster && (d.lastHeader>>(8*configStatus)&configStatusDMA&^d.staleStatus != 0 ||
		d.dmaFaulted != nil && d.dmaFaulted()):
		return DMAFault
	}
	return OK
}

// Close implements Device. The device leaves memory alone before any of that is
// given back. Memory decoding stays on: what the image started may still run.
func (d *device) Close() error {
	err := d.SetBusMaster(false)
	for at := len(d.cleanups) - 1; at >= 0; at-- {
		if e := d.cleanups[at](); err == nil {
			err = e
		}
	}
	for _, mem := range d.hostMemory {
		_ = syscalls.munmap(mem) // of anonymous memory cannot fail
	}
	d.cleanups, d.hostMemory, d.hugePageRest, d.outboundRegisters.Size, d.config.fd = nil, nil, nil,
		0, -1
	return err
}

// later has Close give something back, before all that was taken until now.
func (d *function) deferClose(undo func() error) { d.cleanups = append(d.cleanups, undo) }

// keepOpen opens a file until Close.
func (d *function) openUntilClose(path string, flags int) (fd int, err error) {
	if fd, err = syscalls.open(path, flags); err == nil {
		d.closeFileLater(fd)
	}
	return fd, err
}

func (d *function) closeFileLater(fd int) {
	d.deferClose(func() error { _ = syscalls.close(fd); return nil })
}
