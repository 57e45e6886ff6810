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
	lane     lane
	kind     string // of lane, as it stands in names
	rest     string // what follows it there, of PCI in small letters
	byIDs    bool   // rest is ids and no address
	driven   bool   // by a driver of the kernel's beside us, which has it master the bus all the time
	identity Identity
	address  string             // 0000:01:00.0
	owner    string             // driver of the kernel's that has it, empty where none does
	starts   [configBars]uint64 // of BARs, where the processor has them
	config   configSpace
	header   uint64         // the first 8 bytes of configuration space, as Alive read them
	undo     []func() error // gives back what was taken, but for host memory; the last comes first
	memory   [][]byte       // host memory
	spare    []byte         // of its last huge page
	masters  bool           // Master switched it on
	taken    bool           // a Map has come
	refusal  error          // of the first Map, which those that follow give too
	stale    uint64         // bits of the status register that were set before

	faulted func() bool // tells faults that the status register does not; nil: nothing does

	tlb       *boards.TLB // nil where the device has no movable windows
	registers uintptr     // of the TLB, mapped, from the first window's on
	windows   []Aperture  // by slot; the whole hardware window, size 0 where it is free

	outbound    *boards.Outbound // nil where the device has the addresses of the bus
	translation Aperture         // onto its registers, size 0 where nothing is shown
	shown       []region
	shownTo     uint64 // where the next one may begin
}

// lane is what differs between the ways.
type lane interface {
	// open looks for what the device is, and stores nothing to it.
	open() error
	// take makes the device this program's, before its first window is
	// mapped: decoding on, mastering off, what was left going reset.
	take() error
	// mapFile maps a range of a BAR, by mapRange. Write-combining is a wish.
	mapFile(bar uint8, wc bool, offset, size uint64) (Aperture, error)
	// host gives the address that the device reaches whole pages of host memory
	// at, and keeps them where they are, which huge ones are.
	host(mem []byte, huge bool) (bus uint64, err error)
	// window reserves a hardware window of at least a size and maps all of it;
	// slot -1: none is left.
	window(prefer uint16, size uint64, wc bool) (slot int, a Aperture, err error)
	// point is Point, of a window that no registers aim.
	point(a *Aperture, t fbs.Target, address uint64) Code
	// reach is Reach, of a device of the same lane.
	reach(a *Aperture, owner *function) error
}

// folder is the function's in sysfs.
func (d *function) folder() string { return sysfs + "/" + d.address }

// Identity implements Device.
func (d *device) Identity() Identity {
	identity := d.identity
	identity.Address = d.address
	return identity
}

// Map implements Device.
func (d *device) Map(w fbs.Window) (Aperture, error) {
	if !d.taken {
		d.taken, d.refusal = true, d.lane.take()
	}
	if d.refusal != nil {
		return Aperture{}, d.refusal
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
	return Aperture{}, NewFault(Internal, d.identity.Name+": window of unknown kind "+strconv.Itoa(int(w.Kind)))
}

// mapBar makes a range of a BAR accessible.
func (d *function) mapBar(bar uint8, wc bool, offset, size uint64) (a Aperture, err error) {
	what := d.identity.Name + ": BAR " + strconv.Itoa(int(bar))
	if bar >= configBars || d.identity.Bars[bar] == 0 {
		return a, NewFault(WrongDevice, what+" does not exist or is not memory; is the image for this device?")
	}
	if has := d.identity.Bars[bar]; size == 0 || offset > has || size > has-offset {
		return a, NewFault(WrongDevice, what+fbs.Text(" has %x bytes, the window needs %x at %x", has, size, offset)+
			"; is the image for this device, and did the firmware grant the whole BAR?")
	}
	return d.lane.mapFile(bar, wc, offset, size)
}

// mapRange maps a range of a file until Close: only the pages that it needs. Two
// mappings of one page with different memory types do not go together (on x86 the
// kernel refuses the second, or makes it uncached: arch/x86/mm/pat/memtype.c), and
// the kernel builds the page table of a mapping at once.
func (d *function) mapRange(fd int, offset, size uint64, path string) (Aperture, error) {
	inside := offset % uint64(unix.Getpagesize())
	mem, err := system.mmap(fd, int64(offset-inside), int(inside+size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EINVAL {
		return Aperture{}, NewFault(NoDevice, "mmap "+path+": "+err.Error()+"; do other windows, or other processes, map the same pages with another memory type?")
	}
	if err != nil {
		return Aperture{}, failed("mmap", path, err)
	}
	d.later(func() error { return failed("munmap", d.identity.Name, system.munmap(mem)) })
	return MappedAperture(mem, inside, size, -1), nil
}

// mapTLB reserves a hardware window and maps the whole of it, so that Point
// can move the aperture inside.
func (d *function) mapTLB(w fbs.Window) (Aperture, error) {
	if d.tlb == nil {
		return Aperture{}, NewFault(WrongDevice, d.identity.Name+": the image moves windows and the device has none that move; is the image for this device?")
	}
	if d.windows == nil {
		last := &d.tlb.Groups[len(d.tlb.Groups)-1]
		d.windows = make([]Aperture, last.First+last.Count)
	}
	slot, a, err := d.lane.window(w.Slot, w.Size, w.Flags&fbs.FlagWriteCombining != 0)
	if err == nil && slot < 0 {
		err = NewFault(NoDevice, d.identity.Name+fbs.Text(": no hardware window of %x bytes is left; the image has too many, or too large, Tlb windows for this device", w.Size))
	}
	if err != nil {
		return Aperture{}, err
	}
	a.Slot, a.Bus = slot, 0 // it moves with every Point
	d.windows[slot] = a
	a.Size = w.Size
	return a, nil
}

// window implements lane, where registers aim windows: they are mapped with the first.
func (d *function) window(prefer uint16, size uint64, wc bool) (slot int, a Aperture, err error) {
	if d.registers == 0 {
		if a, err = d.mapBar(d.tlb.ConfigBar, false, d.tlb.ConfigOffset, d.tlb.ConfigStride*uint64(len(d.windows))); err != nil {
			return -1, a, err
		}
		d.registers = a.Base
	}
	slot = d.tlb.Choose(prefer, size, &d.identity.Bars, func(slot int) bool { return d.windows[slot].Size != 0 })
	if slot >= 0 {
		g := d.tlb.Group(slot)
		a, err = d.mapBar(g.Bar, wc, g.Start(slot), g.Size)
	}
	return slot, a, err
}

// Aim implements Device. In a hardware window that is larger, the aperture moves
// inside. Tenstorrent's driver sets no static virtual channel but channel 0 of a
// device that numbers them (tt-kmd wormhole.c, blackhole.c).
func (d *device) Aim(a *Aperture, t fbs.Target, address uint64, c *fbs.Command) (registers, home uintptr, code Code) {
	if a.Slot < 0 || a.Slot >= len(d.windows) || d.windows[a.Slot].Size == 0 {
		return 0, 0, Internal
	}
	window := &d.windows[a.Slot]
	inside := address & (window.Size - 1)
	words, ok := d.tlb.Encode(d.tlb.Group(a.Slot), t, address-inside)
	if !ok || inside+a.Size > window.Size || d.driven && t.StaticVC > d.tlb.Fields[boards.UseStaticVC] {
		return 0, 0, Refused
	}
	c.Offset, c.Width, c.Amount = uint32(uint64(a.Slot)*d.tlb.ConfigStride), d.tlb.ConfigWidth, uint32(inside)
	c.Value, c.Mask = words[0], words[1]
	return d.registers, window.Base, OK
}

// Point implements Device.
func (d *device) Point(a *Aperture, t fbs.Target, address uint64) Code {
	return d.lane.point(a, t, address)
}

// point implements lane: who has registers from Aim does it without.
func (d *function) point(*Aperture, fbs.Target, uint64) Code { return Internal }

// Reach implements Device. Tiles have addresses of their own for their device's
// Host windows, and none for anything else; a driver gives its device's alone.
func (d *device) Reach(a *Aperture, of Device) error {
	owner, ok := of.(*device)
	switch {
	case !ok:
	case d.outbound != nil || d.driven:
		ok = owner.function == d.function && (d.driven || a.host)
	default:
		ok = owner.kind == d.kind && (owner.outbound == nil || !a.host)
	}
	if !ok {
		return NewFault(Usage, d.identity.Name+" cannot reach memory of "+of.Identity().Name+"; open both as pci:, or both as vfio:; tiles reach nothing but their device's own Host windows, and nothing else reaches those")
	}
	return d.lane.reach(a, owner.function)
}

// Master implements Device. Bits of the status register that are set before
// the device masters the bus, and stay, say nothing of what it does then. A
// driver has its device master the bus all the time.
func (d *device) Master(on bool) (err error) {
	if !on && !d.masters {
		return nil // who may not store to configuration space need not
	}
	if on {
		if !d.driven {
			d.config.Store(configStatus, 2, configStatusDMA)
		}
		d.stale, _ = d.config.Load(configStatus, 2)
		err = d.programOutbound(true)
	}
	if !d.driven && err == nil {
		err = d.command(configCommandMaster, on)
	}
	d.masters = on || err != nil // what has not stopped is asked to again
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
	d.header = header
	return code == OK && uint16(header) != 0xffff && header>>(8*configCommand)&configCommandMemory != 0
}

// Diagnose implements Device.
func (d *device) Diagnose() Code {
	switch {
	case !d.Alive():
		return DeviceGone
	case d.masters && d.header>>(8*configCommand)&configCommandMaster == 0:
		return MasterOff
	case d.masters && (d.header>>(8*configStatus)&configStatusDMA&^d.stale != 0 || d.faulted != nil && d.faulted()):
		return DMAFault
	}
	return OK
}

// Close implements Device. The device leaves memory alone before any of that is
// given back. Memory decoding stays on: what the image started may still run.
func (d *device) Close() error {
	err := d.Master(false)
	for at := len(d.undo) - 1; at >= 0; at-- {
		if e := d.undo[at](); err == nil {
			err = e
		}
	}
	for _, mem := range d.memory {
		_ = system.munmap(mem) // of anonymous memory cannot fail
	}
	d.undo, d.memory, d.spare, d.translation.Size, d.config.fd = nil, nil, nil, 0, -1
	return err
}

// later has Close give something back, before all that was taken until now.
func (d *function) later(undo func() error) { d.undo = append(d.undo, undo) }

// keepOpen opens a file until Close.
func (d *function) keepOpen(path string, flags int) (fd int, err error) {
	if fd, err = system.open(path, flags); err == nil {
		d.closeLater(fd)
	}
	return fd, err
}

func (d *function) closeLater(fd int) { d.later(func() error { _ = system.close(fd); return nil }) }
