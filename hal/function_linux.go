package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2).
const (
	configCommand       = 0x04 // R/W u16
	configCommandMemory = 1 << 1
	configCommandMaster = 1 << 2
	configStatus        = 0x06 // R/W1C u16
	configBar0          = 0x10 // R/W u32 each
	configBars          = 6
	configHeader        = configBar0 + 4*configBars

	// A transfer of the device's own went wrong: parity error of data it asked
	// for, target abort, master abort, poisoned data.
	configStatusDMA = 1<<8 | 1<<12 | 1<<13 | 1<<15

	barIO      = 1 << 0 // an I/O port range
	barType    = 3 << 1
	barType64  = 2 << 1 // this register and the next are one address
	barAddress = ^uint64(0xf)
)

// function is a PCI function, whichever way the kernel hands it out.
type function struct {
	lane     lane
	identity Identity
	address  string // 0000:01:00.0
	bars     [configBars]pciBar
	config   configSpace
	header   [8]byte // of configuration space, where Alive reads to
	mappings []mapping
	host     hostMemory
	masters  bool   // Master switched it on
	taken    bool   // a Map has come
	refusal  error  // of the first Map, which those that follow give too
	stale    uint16 // bits of the status register that were set before

	tlb       *boards.TLB // nil where the device has no movable windows
	registers Aperture    // of the TLB, from the first window's on
	windows   []Aperture  // by slot; the whole hardware window, size 0 where it is free

	outbound    *boards.Outbound // nil where the device has the addresses of the bus
	translation Aperture         // onto its registers, size 0 where nothing is shown
	shown       []region
}

// lane is what differs between the ways.
type lane interface {
	// take makes the device this program's, before its first window is
	// mapped: decoding on, mastering off, what was left going reset.
	take() error
	// combines tells whether a BAR can be mapped write-combining.
	combines(bar uint8) bool
	// mapBar maps whole pages from an offset in what the lane maps a BAR from.
	mapBar(bar uint8, wc bool, offset uint64, size int) ([]byte, error)
	// expose gives host memory, which may be of huge pages, an address that
	// the device reaches it at.
	expose(mem []byte, huge bool) (bus uint64, err error)
}

type pciBar struct {
	bus    uint64 // address other devices reach it at, 0: none yet
	size   uint64 // 0 where it is absent or an I/O port range
	offset uint64 // of its first byte in what is mapped, where it begins inside a page
}

// mapping is some pages of a BAR. Two mappings of one page with different
// memory types do not go together (on x86 the kernel refuses the second, or
// makes it uncached: arch/x86/mm/pat/memtype.c), and the kernel builds the page
// table of a mapping at once. So only the pages of a window are mapped.
type mapping struct {
	bar   uint8
	wc    bool
	first uint64 // of mem in what the lane maps
	mem   []byte
}

// identify fills in which device it is, and what is known of such devices.
func (d *function) identify(l lane, name string, vendor, device uint16) {
	d.lane = l
	d.identity.Name, d.identity.Vendor, d.identity.Device = name, vendor, device
	if board := boards.ByID(vendor, device); board != nil {
		d.tlb, d.outbound = board.TLB, board.Outbound
	}
}

// folder is the function's in sysfs.
func (d *function) folder() string { return sysfs + "/" + d.address }

func (d *function) Identity() Identity { return d.identity }

// Map implements Device.
func (d *function) Map(w fbs.Window) (Aperture, error) {
	if err := d.take(); err != nil {
		return Aperture{}, err
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
	return Aperture{}, &Fault{Internal, d.identity.Name + ": window of unknown kind " + strconv.Itoa(int(w.Kind))}
}

// take makes the device this program's, once.
func (d *function) take() error {
	if !d.taken {
		d.taken, d.refusal = true, d.lane.take()
	}
	return d.refusal
}

// mapBar makes a range of a BAR accessible. Write-combining is a wish.
func (d *function) mapBar(bar uint8, wc bool, offset, size uint64) (Aperture, error) {
	if err := d.checkBar(bar, offset, size); err != nil {
		return Aperture{}, err
	}
	page := uint64(unix.Getpagesize())
	first := d.bars[bar].offset + offset
	m, err := d.mapPages(bar, wc && d.lane.combines(bar), first&^(page-1), first+size)
	if err != nil {
		return Aperture{}, err
	}
	a := MappedAperture(m.mem, first-m.first, size, -1, m.wc)
	if d.bars[bar].bus != 0 {
		a.Bus = d.bars[bar].bus + offset
	}
	return a, nil
}

func (d *function) checkBar(bar uint8, offset, size uint64) error {
	what := d.identity.Name + ": BAR " + strconv.Itoa(int(bar))
	if bar >= configBars || d.bars[bar].size == 0 {
		return &Fault{WrongDevice, what + " does not exist or is not memory; is the image for this device?"}
	}
	if has := d.bars[bar].size; size == 0 || offset > has || size > has-offset {
		return &Fault{WrongDevice, what + " has 0x" + hex(has) + " bytes, the window needs 0x" + hex(size) + " at 0x" + hex(offset) +
			"; is the image for this device, and did the firmware grant the whole BAR?"}
	}
	return nil
}

// mapPages gives a mapping that covers the bytes first to last-1: one that is
// there, or a new one.
func (d *function) mapPages(bar uint8, wc bool, first, last uint64) (*mapping, error) {
	for i := range d.mappings {
		m := &d.mappings[i]
		if m.bar == bar && m.wc == wc && m.first <= first && last <= m.first+uint64(len(m.mem)) {
			return m, nil
		}
	}
	mem, err := d.lane.mapBar(bar, wc, first, int(last-first))
	if err != nil {
		return nil, err
	}
	d.mappings = append(d.mappings, mapping{bar, wc, first, mem})
	return &d.mappings[len(d.mappings)-1], nil
}

// mapHost reserves host memory that the device reaches.
func (d *function) mapHost(size uint64) (Aperture, error) {
	mem, huge, err := d.host.take(d.identity.Name, size)
	if err != nil {
		return Aperture{}, err
	}
	a := MappedAperture(mem, 0, size, -1, false)
	a.Bus, err = d.lane.expose(mem, huge)
	if err == nil && d.outbound != nil {
		a.Bus, err = d.show(a.Bus, uint64(len(mem)))
	}
	return a, err
}

// mapTLB reserves a hardware window and maps the whole of it, so that Point
// can move the aperture inside.
func (d *function) mapTLB(w fbs.Window) (Aperture, error) {
	if err := d.mapRegisters(); err != nil {
		return Aperture{}, err
	}
	slot := d.tlb.Choose(w.Slot, w.Size, &d.identity.Bars, func(slot int) bool { return d.windows[slot].size != 0 })
	if slot < 0 {
		return Aperture{}, noWindow(d.identity.Name, w.Size)
	}
	g := d.tlb.Group(slot)
	a, err := d.mapBar(g.Bar, w.Flags&fbs.FlagWriteCombining != 0, g.Start(slot), g.Size)
	if err != nil {
		return Aperture{}, err
	}
	return d.keepWindow(a, slot, w.Size), nil
}

func noWindow(name string, size uint64) error {
	return &Fault{NoDevice, name + fbs.Text(": no hardware window of %x bytes is left; the image has too many, or too large, Tlb windows for this device", size)}
}

// keepWindow notes the whole of a hardware window, and gives the aperture of
// size bytes that moves in it.
func (d *function) keepWindow(a Aperture, slot int, size uint64) Aperture {
	a.slot = slot
	a.Bus = 0 // it moves with every Point
	d.windows[slot] = a
	a.size = size
	return a
}

// needTLB makes room for all windows of the device, once.
func (d *function) needTLB() error {
	if d.tlb == nil {
		return &Fault{WrongDevice, d.identity.Name + ": the image moves windows and the device has none that move; is the image for this device?"}
	}
	if d.windows == nil {
		last := &d.tlb.Groups[len(d.tlb.Groups)-1]
		d.windows = make([]Aperture, last.First+last.Count)
	}
	return nil
}

// mapRegisters maps the registers that aim the hardware windows, once.
func (d *function) mapRegisters() (err error) {
	if err = d.needTLB(); err == nil && d.registers.size == 0 {
		d.registers, err = d.mapBar(d.tlb.ConfigBar, false, d.tlb.ConfigOffset, d.tlb.ConfigStride*uint64(len(d.windows)))
	}
	return err
}

// Point implements Device. The first fence keeps earlier stores from landing
// where the window points next; the load shows that the registers have taken
// the configuration, and the last fence keeps later accesses behind it.
func (d *function) Point(a *Aperture, t fbs.Target, address uint64) Code {
	window, inside, code := d.window(a, address)
	if code != OK {
		return code
	}
	words, ok := d.tlb.Encode(d.tlb.Group(a.slot), t, address-inside)
	if !ok {
		return Refused
	}
	fence()
	register := uint64(a.slot) * d.tlb.ConfigStride
	for _, word := range words[:d.tlb.ConfigWords] {
		d.registers.Store(register, d.tlb.ConfigWidth, word)
		register += uint64(d.tlb.ConfigWidth)
	}
	d.registers.Load(register-uint64(d.tlb.ConfigWidth), d.tlb.ConfigWidth)
	fence()
	a.base = window.base + uintptr(inside)
	return OK
}

// window is the hardware window behind an aperture. Where that is larger, the
// aperture moves inside it.
func (d *function) window(a *Aperture, address uint64) (window *Aperture, inside uint64, code Code) {
	if a.slot < 0 || a.slot >= len(d.windows) || d.windows[a.slot].size == 0 {
		return nil, 0, Internal
	}
	window = &d.windows[a.slot]
	inside = address & (window.size - 1)
	if inside+a.size > window.size {
		return nil, 0, Refused
	}
	return window, inside, OK
}

// Master implements BusMaster. Bits of the status register that are set before
// the device masters the bus, and stay, say nothing of what it does then.
func (d *function) Master(on bool) error {
	if on {
		d.config.Store(configStatus, 2, configStatusDMA)
		status, _ := d.config.Load(configStatus, 2)
		d.stale = uint16(status)
		d.translate(true)
	}
	d.masters = on
	err := d.command(configCommandMaster, on)
	if !on {
		d.translate(false)
	}
	return err
}

// command sets or clears a bit of the command register and sees that it stays.
func (d *function) command(bit uint64, on bool) error {
	if d.config.denied != nil {
		return d.config.denied
	}
	was, code := d.config.Load(configCommand, 2)
	want := was &^ bit
	if on {
		want |= bit
	}
	if code == OK && was != want {
		code = d.config.Store(configCommand, 2, want)
	}
	if code != OK {
		return &Fault{code, d.identity.Name + ": the command register in configuration space cannot be stored to (only root may, and not under kernel lockdown)"}
	}
	is, _ := d.config.Load(configCommand, 2)
	switch {
	case is == 0xffff:
		return &Fault{DeviceGone, d.identity.Name + ": configuration space reads all ones"}
	case is&bit == want&bit:
		return nil
	case bit == configCommandMemory:
		return &Fault{NoDevice, d.identity.Name + ": memory decoding stays off; `lspci -vv` and `dmesg` may say why"}
	case on:
		return &Fault{MasterOff, d.identity.Name + ": bus mastering stays off, so that the device cannot reach memory; `lspci -vv` and `dmesg` may say why"}
	}
	return &Fault{Internal, d.identity.Name + ": bus mastering stays on, so that the device may still write to memory; reset it"}
}

// Alive implements Device.
func (d *function) Alive() bool {
	n, err := system.pread(d.config.fd, d.header[:], d.config.start)
	return err == nil && n == len(d.header) && get(d.header[:2]) != 0xffff && d.header[configCommand]&configCommandMemory != 0
}

// Diagnose implements BusMaster.
func (d *function) Diagnose() Code {
	switch {
	case !d.Alive():
		return DeviceGone
	case d.masters && d.header[configCommand]&configCommandMaster == 0:
		return MasterOff
	case d.masters && uint16(get(d.header[configStatus:]))&configStatusDMA&^d.stale != 0:
		return DMAFault
	}
	return OK
}

func (d *function) Now() int64 { return now() }

func (d *function) Sleep(nanoseconds int64) { sleep(nanoseconds) }

// rest has the device leave memory alone, before any of that is given back.
func (d *function) rest() error {
	if d.masters {
		return d.Master(false)
	}
	return nil
}

// unmap gives back what was mapped of the device.
func (d *function) unmap() (err error) {
	for _, m := range d.mappings {
		if e := system.munmap(m.mem); e != nil && err == nil {
			err = failed("munmap", d.identity.Name, e)
		}
	}
	d.mappings, d.windows, d.registers, d.translation, d.shown = nil, nil, Aperture{}, Aperture{}, nil
	return err
}

// closeAll closes files that are open, and leaves -1.
func closeAll(files ...*int) {
	for _, fd := range files {
		if *fd >= 0 {
			_ = system.close(*fd)
			*fd = -1
		}
	}
}

// mapConfig opens configuration space for loads and stores.
func (d *function) mapConfig(size uint64) (Aperture, error) {
	if d.config.denied != nil {
		return Aperture{}, d.config.denied
	}
	if d.config.size < size {
		return Aperture{}, &Fault{WrongDevice, d.identity.Name + ": configuration space has " + strconv.FormatUint(d.config.size, 10) +
			" bytes, the window needs " + strconv.FormatUint(size, 10)}
	}
	return NewAperture(&d.config, size, -1), nil
}

// configSpace carries accesses to configuration space, which is a part of a
// file. The kernel makes one access of one, two or four aligned bytes as wide
// as it is asked for (drivers/pci/pci-sysfs.c, pci_read_config;
// drivers/vfio/pci/vfio_pci_config.c, vfio_config_do_rw).
type configSpace struct {
	fd     int
	start  int64 // in the file
	size   uint64
	denied error   // why nothing can be stored, nil where it can
	buffer [8]byte // here, so that no access allocates
}

func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := system.pread(s.fd, s.buffer[:width], s.start+int64(offset))
	if code := configCode(n, width, err); code != OK {
		return 0, code
	}
	return get(s.buffer[:width]), OK
}

func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	if s.denied != nil {
		return Denied
	}
	put(s.buffer[:width], value)
	n, err := system.pwrite(s.fd, s.buffer[:width], s.start+int64(offset))
	return configCode(n, width, err)
}

// configCode is the code of an access: a device that was removed answers
// ENODEV, lockdown EPERM, and a user without CAP_SYS_ADMIN gets the first 64
// bytes only.
func configCode(n int, width uint8, err error) Code {
	switch {
	case err == unix.ENODEV:
		return DeviceGone
	case err == unix.EPERM:
		return Denied
	case err != nil:
		return IO
	case n != int(width):
		return Denied
	}
	return OK
}
