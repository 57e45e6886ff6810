package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// sysfs has one folder a PCI function (Linux, Documentation/PCI/sysfs-pci.rst).
var sysfs = "/sys/bus/pci/devices"

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2).
const (
	configCommand       = 0x04 // R/W u16
	configCommandMemory = 1 << 1
	configBar0          = 0x10 // R/W u32 each
	configBars          = 6
	configHeader        = configBar0 + 4*configBars

	barIO      = 1 << 0 // an I/O port range
	barType    = 3 << 1
	barType64  = 2 << 1 // this register and the next are one address
	barAddress = ^uint64(0xf)

	resourceMemory = 0x200 // IORESOURCE_MEM in the third column of `resource`
)

// pci is a function that is driven through the files in its sysfs folder.
type pci struct {
	identity Identity
	folder   string
	bars     [configBars]pciBar
	config   int          // file of its configuration space, read only
	header   [8]byte      // of it, where Alive reads to
	access   *configSpace // the same file for Config windows, nil before the first
	mappings []pciMapping

	tlb       *boards.TLB // nil where the device has no movable windows
	registers Aperture    // of the TLB, from the first window's on
	windows   []Aperture  // by slot; the whole hardware window, size 0 where it is free
}

type pciBar struct {
	start uint64 // address the processor reaches it at
	bus   uint64 // address other devices reach it at
	size  uint64 // 0 where it is absent or an I/O port range
}

// pciMapping is some pages of a BAR. Two mappings of one page with different
// memory types do not go together (on x86 the kernel refuses the second, or
// makes it uncached: arch/x86/mm/pat/memtype.c), and the kernel builds the page
// table of a mapping at once. So only the pages of a window are mapped.
type pciMapping struct {
	bar   uint8
	wc    bool
	first uint64 // of mem in the file
	mem   []byte
}

func openPCI(name string, n pciName) (Device, error) {
	address, err := findPCI(name, n)
	if err != nil {
		return nil, err
	}
	d := &pci{folder: sysfs + "/" + address, config: -1}
	d.identity.Name = name
	if err := d.open(address); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *pci) open(address string) (err error) {
	if d.identity.Vendor, d.identity.Device, err = readIDs(d.folder); err != nil {
		return err
	}
	if board := boards.ByID(d.identity.Vendor, d.identity.Device); board != nil {
		d.tlb = board.TLB
	}
	if err := d.readResources(); err != nil {
		return err
	}
	enabled, err := d.enable(address)
	if err != nil {
		return err
	}
	if d.config, err = unix.Open(d.folder+"/config", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return failed("open", d.folder+"/config", err)
	}
	return d.readHeader(enabled)
}

// readResources takes the size and address of each BAR from `resource`: a line
// each of first address, last address and flags.
func (d *pci) readResources() error {
	path := d.folder + "/resource"
	text, err := readFile(path)
	if err != nil {
		return err
	}
	for i := range d.bars {
		var line string
		line, text = cut(text, '\n')
		first, line := cut(line, ' ')
		last, flags := cut(line, ' ')
		start, ok1 := parse0x(first)
		end, ok2 := parse0x(last)
		kind, ok3 := parse0x(flags)
		if !ok1 || !ok2 || !ok3 || end < start {
			return &Fault{NoDevice, path + ": line " + strconv.Itoa(i+1) + " is not two addresses and flags"}
		}
		if kind&resourceMemory != 0 && end != 0 {
			d.bars[i] = pciBar{start: start, bus: start, size: end - start + 1}
			d.identity.Bars[i] = d.bars[i].size
		}
	}
	return nil
}

// enable makes the function answer to memory accesses; enabled is how that
// went. It does not do so under a kernel driver, which would be disturbed. The
// exception is pci-stub, which only keeps others away, from `enable` too.
func (d *pci) enable(address string) (enabled, err error) {
	var target [256]byte
	n, err := unix.Readlink(d.folder+"/driver", target[:])
	if err != nil {
		return writeFile(d.folder+"/enable", "1\n"), nil
	}
	driver := base(string(target[:n]))
	unbind := "`echo " + address + " > /sys/bus/pci/drivers/" + driver + "/unbind`"
	if driver == "pci-stub" {
		return &Fault{NoDevice, d.identity.Name + ": memory decoding is off and pci-stub keeps it off; release the device with " + unbind}, nil
	}
	return nil, &Fault{NoDevice, d.identity.Name + ": the kernel driver " + driver + " owns the device; release it with " + unbind}
}

// base is what follows the last slash of a path.
func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// readHeader checks that the function answers, and takes the bus addresses of
// its BARs: `resource` has those of the processor, which a host bridge may
// translate (Linux, pci_resource_to_user). A user who may not enable a device
// can still use one that is enabled.
func (d *pci) readHeader(enabled error) error {
	var header [configHeader]byte
	n, err := unix.Pread(d.config, header[:], 0)
	if err != nil {
		return failed("read", d.folder+"/config", err)
	}
	if n < len(header) {
		return &Fault{NoDevice, d.folder + "/config: " + strconv.Itoa(n) + " bytes, a PCI header has more"}
	}
	switch {
	case get(header[:2]) == 0xffff:
		return &Fault{DeviceGone, d.identity.Name + ": configuration space reads all ones; reset the device or its slot, then `echo 1 > /sys/bus/pci/rescan`"}
	case header[configCommand]&configCommandMemory != 0:
		d.readBars(header[configBar0:])
		return nil
	case enabled != nil:
		return enabled
	}
	return &Fault{NoDevice, d.identity.Name + ": memory decoding stays off; `lspci -vv` and `dmesg` may say why"}
}

func (d *pci) readBars(registers []byte) {
	for i := range d.bars {
		address := get(registers[4*i:][:4])
		if address&(barIO|barType) == barType64 && i+1 < configBars {
			address |= get(registers[4*i+4:][:4]) << 32
		}
		// Zero where the address is kept elsewhere (Enhanced Allocation).
		if address&barAddress != 0 {
			d.bars[i].bus = address & barAddress
		}
	}
}

func (d *pci) Identity() Identity { return d.identity }

// Map implements Device. A Host window is refused: no buffer can be handed to
// the device without an IOMMU, and this lane has none.
func (d *pci) Map(w fbs.Window) (Aperture, error) {
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w.Bar, w.Flags&fbs.FlagWriteCombining != 0, w.Offset, w.Size)
	case gen.WindowKindTlb:
		return d.mapTLB(w)
	case gen.WindowKindConfig:
		return d.mapConfig(w.Size)
	case gen.WindowKindHost:
		return Aperture{}, &Fault{NoDevice, d.identity.Name + ": the image needs host memory that the device can reach, which is not supported on a pci: device yet"}
	}
	return Aperture{}, &Fault{Internal, d.identity.Name + ": window of unknown kind " + strconv.Itoa(int(w.Kind))}
}

// mapBar makes a range of a BAR accessible. Write-combining is a wish: only
// prefetchable BARs have a file for it.
func (d *pci) mapBar(bar uint8, wc bool, offset, size uint64) (Aperture, error) {
	if err := d.checkBar(bar, offset, size); err != nil {
		return Aperture{}, err
	}
	page := uint64(unix.Getpagesize())
	inFile := d.bars[bar].start%page + offset // the file begins at the page that the BAR begins in
	m, err := d.mapPages(bar, wc, inFile&^(page-1), inFile+size)
	if err != nil {
		return Aperture{}, err
	}
	a := MappedAperture(m.mem, inFile-m.first, size, -1, m.wc)
	a.Bus = d.bars[bar].bus + offset
	return a, nil
}

func (d *pci) checkBar(bar uint8, offset, size uint64) error {
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

// mapPages gives a mapping that covers the bytes first to last-1 of the file of
// a BAR: one that is there, or a new one.
func (d *pci) mapPages(bar uint8, wc bool, first, last uint64) (*pciMapping, error) {
	for i := range d.mappings {
		m := &d.mappings[i]
		if m.bar == bar && m.wc == wc && m.first <= first && last <= m.first+uint64(len(m.mem)) {
			return m, nil
		}
	}
	path := d.folder + "/resource" + strconv.Itoa(int(bar))
	if wc {
		path += "_wc"
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if wc && err == unix.ENOENT {
		return d.mapPages(bar, false, first, last)
	}
	if err != nil {
		return nil, failed("open", path, err)
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(fd, int64(first), int(last-first), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f := failed("mmap", path, err)
		if err == unix.EINVAL {
			f.Reason += "; do other windows, or other processes, map the same pages with another memory type?"
		}
		return nil, f
	}
	d.mappings = append(d.mappings, pciMapping{bar, wc, first, mem})
	return &d.mappings[len(d.mappings)-1], nil
}

// mapTLB reserves a hardware window and maps the whole of it, so that Point
// can move the aperture inside.
func (d *pci) mapTLB(w fbs.Window) (Aperture, error) {
	if err := d.mapRegisters(); err != nil {
		return Aperture{}, err
	}
	slot := d.tlb.Choose(w.Slot, w.Size, &d.identity.Bars, func(slot int) bool { return d.windows[slot].size != 0 })
	if slot < 0 {
		return Aperture{}, &Fault{NoDevice, d.identity.Name + fbs.Text(": no hardware window of %x bytes is left; the image has too many, or too large, Tlb windows for this device", w.Size)}
	}
	g := d.tlb.Group(slot)
	a, err := d.mapBar(g.Bar, w.Flags&fbs.FlagWriteCombining != 0, g.Offset+uint64(slot-g.First)*g.Size, g.Size)
	if err != nil {
		return Aperture{}, err
	}
	a.slot = slot
	a.Bus = 0 // it moves with every Point
	d.windows[slot] = a
	a.size = w.Size
	return a, nil
}

// mapRegisters maps the registers that aim the hardware windows, once.
func (d *pci) mapRegisters() (err error) {
	if d.windows != nil {
		return nil
	}
	if d.tlb == nil {
		return &Fault{WrongDevice, d.identity.Name + ": the image moves windows and the device has none that move; is the image for this device?"}
	}
	slots := 0
	for i := range d.tlb.Groups {
		slots = max(slots, d.tlb.Groups[i].First+d.tlb.Groups[i].Count)
	}
	d.registers, err = d.mapBar(d.tlb.ConfigBar, false, d.tlb.ConfigOffset, d.tlb.ConfigStride*uint64(slots))
	if err == nil {
		d.windows = make([]Aperture, slots)
	}
	return err
}

// Point implements Device. The first fence keeps earlier stores from landing
// where the window points next; the load shows that the registers have taken
// the configuration, and the last fence keeps later accesses behind it. Where
// the hardware window is larger than the aperture, the aperture moves inside.
func (d *pci) Point(a *Aperture, t fbs.Target, address uint64) Code {
	if a.slot < 0 || a.slot >= len(d.windows) || d.windows[a.slot].size == 0 {
		return Internal
	}
	window := &d.windows[a.slot]
	inside := address & (window.size - 1)
	words, ok := d.tlb.Encode(d.tlb.Group(a.slot), t, address-inside)
	if !ok || inside+a.size > window.size {
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

// Alive implements Device.
func (d *pci) Alive() bool {
	n, err := unix.Pread(d.config, d.header[:], 0)
	return err == nil && n == len(d.header) && get(d.header[:2]) != 0xffff && d.header[configCommand]&configCommandMemory != 0
}

func (d *pci) Now() int64 { return now() }

func (d *pci) Sleep(nanoseconds int64) { sleep(nanoseconds) }

// Close implements Device. Memory decoding stays on: what the image started
// may still be running.
func (d *pci) Close() (err error) {
	for _, m := range d.mappings {
		if e := unix.Munmap(m.mem); e != nil && err == nil {
			err = failed("munmap", d.folder, e)
		}
	}
	d.mappings, d.windows = nil, nil
	if d.access != nil {
		unix.Close(d.access.fd)
		d.access = nil
	}
	if d.config >= 0 {
		unix.Close(d.config)
		d.config = -1
	}
	return err
}

// mapConfig opens configuration space for loads and stores.
func (d *pci) mapConfig(size uint64) (Aperture, error) {
	path := d.folder + "/config"
	if d.access == nil {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return Aperture{}, failed("open", path, err)
		}
		d.access = &configSpace{fd: fd}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(d.access.fd, &stat); err != nil {
		return Aperture{}, failed("fstat", path, err)
	}
	if uint64(stat.Size) < size {
		return Aperture{}, &Fault{WrongDevice, d.identity.Name + ": configuration space has " + strconv.FormatInt(stat.Size, 10) +
			" bytes, the window needs " + strconv.FormatUint(size, 10)}
	}
	return NewAperture(d.access, size, -1), nil
}

// configSpace carries accesses to configuration space. The kernel makes one
// access of one, two or four aligned bytes as wide as it is asked for
// (drivers/pci/pci-sysfs.c, pci_read_config).
type configSpace struct {
	fd     int
	buffer [8]byte // here, so that no access allocates
}

func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := unix.Pread(s.fd, s.buffer[:width], int64(offset))
	if code := configCode(n, width, err); code != OK {
		return 0, code
	}
	return get(s.buffer[:width]), OK
}

func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	put(s.buffer[:width], value)
	n, err := unix.Pwrite(s.fd, s.buffer[:width], int64(offset))
	return configCode(n, width, err)
}

// configCode is the code of an access: a device that was removed answers
// ENODEV, and a user without CAP_SYS_ADMIN gets the first 64 bytes only.
func configCode(n int, width uint8, err error) Code {
	switch {
	case err == unix.ENODEV:
		return DeviceGone
	case err != nil:
		return IO
	case n != int(width):
		return Denied
	}
	return OK
}
