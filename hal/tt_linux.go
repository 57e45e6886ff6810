//go:build backend_tt || !(backend_pci || backend_vfio)

package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const (
	ttAPI = 2 // of the driver, from tt-kmd 2.0 on

	// The driver's locks 0 to 15 are for Ethernet cores (tt-kmd ioctl.h). The
	// last keeps two replays from using one device.
	ttLockIndex = 63
)

// tt is a device of Tenstorrent's own driver, beside which other programs may
// use it. The driver gives out the windows and aims them, pins host memory, and
// takes everything back when the process ends.
type tt struct {
	*function
	fd               int
	hasExitCleanup   bool         // the driver has SET_NOC_CLEANUP
	mappings         [6]ttMapping // by 2 x BAR 0, 2, 4 + write-combining
	configureRequest ttConfigure  // of point, here so that it allocates nothing
}

var fenceCommand = fbs.Command{Opcode: gen.OpcodeFence}

func newTT(d *function) backend { return &tt{function: d, fd: -1} }

// open does not wait for a program that has the device for itself (O_EXCL), and
// asks for no power yet (O_APPEND; tt-kmd ioctl.h, SET_POWER_STATE).
func (d *tt) probe() (err error) {
	name := d.identity.Name
	d.fd, err = d.openUntilClose(d.locator, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	switch err {
	case nil:
	case unix.EAGAIN:
		return NewFault(NoDevice, name+": another program has the device for itself")
	case unix.ENOENT:
		return NewFault(NoDevice,
			name+": no such device; `ls /dev/tenstorrent` lists what is there, `modprobe "+
				"tenstorrent` loads the driver")
	default:
		return callFault("open", d.locator, err)
	}
	driver := ttDriverInfo{inSize: 12}
	if err := ioctlStruct(d.fd, ttGetDriverInfo, structPointer(&driver), "GET_DRIVER_INFO",
		d.locator); err != nil {
		return err
	}
	if driver.api != ttAPI {
		return NewFault(NoDevice,
			name+fbs.Text(": the driver has API %d, %d is needed; install tt-kmd 2.0 or later",
				uint64(driver.api), ttAPI))
	}
	d.hasExitCleanup = driver.major > 2 || driver.major == 2 && driver.minor >= 2
	return d.openFunction()
}

// take implements lane. The clock is a wish: a driver before 2.6 and firmware
// that knows no power states have it as it is. Close gives it back first: by the
// end of the file alone a driver without power_policy would keep it. Then the driver
// makes the store of cleanup, which takes tiles that have power, frees the windows,
// and unpins host memory.
func (d *tt) acquire() error {
	lock := ttLock{outSize: 4, index: ttLockIndex}
	_, err := syscalls.ioctl(d.fd, ttLockControl, 0, structPointer(&lock))
	switch {
	case err == unix.ENODEV:
		return NewFault(DeviceGone, d.identity.Name+
			": another program has reset the device since it was opened; open it again")
	case err != nil:
		return callFault("LOCK_CTL", d.locator, err)
	case lock.value != 1:
		return NewFault(NoDevice, d.identity.Name+": another replay has the device; `fuser -v "+
			d.locator+"` names it")
	}
	power := ttPower{argsz: 40, validity: ttPowerFlags, flags: ttPowerAll}
	_, _ = syscalls.ioctl(d.fd, ttSetPowerState, 0, structPointer(&power))
	d.deferClose(func() error {
		power.flags &^= ttPowerClock
		_, _ = syscalls.ioctl(d.fd, ttSetPowerState, 0, structPointer(&power))
		return nil
	})
	return nil
}

// openFunction finds the function behind the driver, and its BARs. Its
// configuration space is in sysfs as ever.
func (d *tt) openFunction() error {
	name := d.identity.Name
	info := ttDeviceInfo{inSize: 20}
	if err := ioctlStruct(d.fd, ttGetDeviceInfo, structPointer(&info), "GET_DEVICE_INFO",
		d.locator); err != nil {
		return err
	}
	// domain, and bus and slot
	at := FormatPCIID(info.domain, info.busDevFn&0xff00|info.busDevFn>>3&31)
	d.address = at[:7] + ":" + at[7:] + "." + strconv.Itoa(int(info.busDevFn&7))
	if err := d.readIDs(); err != nil {
		return err
	}
	d.sharedWithDriver, d.outbound = true, nil // which the driver aims: PIN_PAGES
	if err := d.openConfig(); err != nil {
		return err
	}
	all := ttMappings{count: uint32(len(d.mappings))}
	_, err := syscalls.ioctl(d.fd, ttQueryMappings, 0, structPointer(&all))
	switch {
	case err == unix.ENODEV: // it answers only who asks for information
		return NewFault(NoDevice,
			name+": the device is being reset, and whoever does that has not said that it is "+
				"over (POST_RESET); wait for that program, or reset the device again with "+
				"`tt-smi -r`")
	case err != nil:
		return callFault("QUERY_MAPPINGS", d.locator, err)
	case !(&device{d.function}).Alive():
		return NewFault(DeviceGone,
			name+": configuration space reads all ones, or memory decoding is off; reset the "+
				"device with `tt-smi -r`")
	}
	for _, m := range all.mappings {
		if m.id >= 1 && m.id <= uint32(len(d.mappings)) {
			bar := (m.id - 1) &^ 1
			d.mappings[m.id-1], d.identity.Bars[bar] = m, m.size
		}
	}
	return nil
}

// mapFile implements lane.
func (d *tt) mapBarRange(bar uint8, wc bool, offset, size uint64) (Aperture, error) {
	if wc && d.mappings[bar|1].size != 0 {
		bar |= 1
	}
	return d.mapRange(d.fd, d.mappings[bar].base+offset, size, d.locator)
}

// window implements lane: the driver chooses one of the least size that is left.
// It knows no preference.
func (d *tt) allocateWindow(_ uint16, size uint64, wc bool) (int, Aperture, error) {
	for i := range d.tlb.Groups {
		g := &d.tlb.Groups[i]
		if g.Size < size {
			continue
		}
		window := ttAllocate{size: g.Size}
		_, err := syscalls.ioctl(d.fd, ttAllocateTLB, 0, structPointer(&window))
		switch {
		case err == unix.ENOMEM:
			continue
		case err != nil:
			return -1, Aperture{}, callFault("ALLOCATE_TLB", d.locator, err)
		case d.tlb.GroupOf(int(window.id)) != g:
			return -1, Aperture{}, NewFault(Internal,
				d.identity.Name+fbs.Text(": the driver gave window %d for one of %x bytes",
					uint64(window.id), g.Size))
		}
		offset := window.uncached
		if wc {
			offset = window.combining
		}
		a, err := d.mapRange(d.fd, offset, g.Size, d.locator)
		return int(window.id), a, err
	}
	return -1, Aperture{}, nil
}

// point implements lane.
func (d *tt) programWindow(a *Aperture, t fbs.TileRange, address uint64) Code {
	var c fbs.Command
	_, home, code := (&device{d.function}).EncodeWindow(a, t, address, &c)
	if code != OK {
		return code
	}
	d.configureRequest = ttConfigure{
		id: uint32(a.Slot), address: address - uint64(c.Amount),
		xEnd: uint16(t.X), yEnd: uint16(t.Y), xStart: uint16(t.XStart), yStart: uint16(t.YStart),
		noc: t.NoC, ordering: uint8(t.Ordering - gen.OrderingDefault), staticVC: t.StaticVC,
	}
	if t.Multicast {
		d.configureRequest.multicast = 1
	}
	a.executeOne(fenceCommand) // what comes before reaches device and memory before what follows
	_, err := syscalls.ioctl(d.fd, ProgramWindowRequest, 0, structPointer(&d.configureRequest))
	a.executeOne(fenceCommand)
	switch err {
	case nil:
		a.Base = home + uintptr(c.Amount)
		return OK
	case unix.ENODEV: // another program has reset the device
		return DeviceGone
	}
	return Refused
}

// host implements lane. The device reaches host memory over its NoC, where the
// address is another than on the bus. The driver pins the pages.
func (d *tt) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	pin := ttPin{outSize: 16, flags: ttPinNoC, address: uint64(AddressOf(mem)),
		size: uint64(len(mem))}
	if _, err = syscalls.ioctl(d.fd, ttPinPages, 0, structPointer(&pin)); err == unix.EINVAL {
		return 0, notContiguous(d.identity.Name, pin.size, huge)
	}
	return pin.noc, callFault("PIN_PAGES", d.locator, err)
}

// reach implements lane: each device has addresses of its own.
func (d *tt) assignBusAddress(*Aperture, *function) error { return nil }

// Cleanup implements Cleaner. The driver makes one store, and so sees to one tile:
// the first that is let run. Others may have been put into reset before.
func (d *device) RegisterExitCleanup(view *fbs.View, target int) (note string, err error) {
	lane, driven := d.backend.(*tt)
	if !driven {
		return "", nil
	}
	reset := view.Board(target).Reset
	t, runs := firstReleasedTile(view, target, reset)
	switch {
	case !runs:
		return "", nil
	case !lane.hasExitCleanup:
		return d.identity.Name +
			": cores that run when this process is killed go on running; tt-kmd 2.2 and later " +
			"put those of one tile back into reset\n", nil
	}
	c := ttCleanup{argsz: 32, enabled: 1, x: t.X, y: t.Y, noc: t.NoC, address: reset.Address,
		data: uint64(reset.Mask)}
	return "", ioctlStruct(lane.fd, ttSetNoCCleanup, structPointer(&c), "SET_NOC_CLEANUP",
		lane.locator)
}

// firstLetRun is the tile of the first store that lets a core run, through a window
// that a Point aims at that tile alone.
func firstReleasedTile(view *fbs.View, target int, reset boards.Reset) (tile fbs.TileRange,
	runs bool) {
	points := make([]fbs.Command, len(view.Windows))
	for i := range view.Commands {
		c := &view.Commands[i]
		stored, point := c.Mask, &points[c.Window]
		switch c.Opcode {
		case gen.OpcodeWrite:
			stored = fbs.WidthMask(c.Width)
		case gen.OpcodePoint:
			*point = *c
			continue
		case gen.OpcodeModify:
		default:
			continue
		}
		starts := stored&^c.Value&uint64(reset.Mask) != 0 &&
			point.Value+uint64(c.Offset) == reset.Address
		if starts && point.Opcode != 0 && int(view.Windows[c.Window].Device) == target {
			if tile, _ = boards.UnpackTileRange(point.Mask); !tile.Multicast {
				return tile, true
			}
		}
	}
	return fbs.TileRange{}, false
}
