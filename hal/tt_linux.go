package hal

// The backend tt uses tt-kmd, which reserves and programs TLB windows, pins host memory, and
// releases both when this process ends. Other programs may use the device at the same time.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const (
	// of tt-kmd 2.0 and later
	ttAPIVersion = 2

	// number of the driver's lock that keeps other replays away; each device has 64, and 0 to 15
	// are for Ethernet cores (tt-kmd ioctl.h)
	ttLockIndex = 63
)

type ttBackend struct {
	dev                  *device
	fd                   int  // the driver's file for this device; -1: not open
	driverHasExitCleanup bool // the driver has the ioctl SET_NOC_CLEANUP

	// of BAR 0, 2 and 4: uncached at [bar], write-combining at [bar+1]; size 0: none
	mappings [6]ttMapping

	// Not a local variable: Go would put it on the heap, but programWindow must not allocate.
	configureTLBRequest ttConfigureTLBRequest
}

var fenceCommand = fbs.Command{Opcode: gen.OpcodeFence}

func newTT(d *device) backend {
	t := &ttBackend{dev: d, fd: -1}
	d.tlb.driver = t
	d.busMaster.keptOnByDriver = true
	return t
}

func (t *ttBackend) identifyDevice() (err error) {
	d := t.dev
	// O_NONBLOCK: fail at once if another program has opened the file with O_EXCL. O_APPEND: the
	// power state stays as it is until SET_POWER_STATE (tt-kmd ioctl.h).
	t.fd, err = d.cleanups.openFile(d.locator, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	switch errnoOf(err) {
	case 0:
	case unix.EAGAIN:
		return d.fault(NoDevice, "another program owns the device (O_EXCL); stop that program")
	case unix.ENOENT:
		return d.fault(NoDevice, "no such device; "+
			"`ls /dev/tenstorrent` lists the devices, `modprobe tenstorrent` loads the driver")
	default:
		return syscallFault("open", d.locator, err)
	}
	// Other versions of the API have other ioctls.
	driver := ttDriverInfo{outputCapacity: 12}
	err = ioctlStruct(t.fd, ttGetDriverInfo, structPointer(&driver), "GET_DRIVER_INFO", d.locator)
	if err != nil {
		return err
	}
	if driver.api != ttAPIVersion {
		const text = "the driver has API %d, but this program needs API %d; " +
			"install tt-kmd 2.0 or later"
		return d.fault(NoDevice, fbs.Text(text, uint64(driver.api), ttAPIVersion))
	}
	t.driverHasExitCleanup = driver.major > 2 || driver.major == 2 && driver.minor >= 2
	if err := t.identifyFunction(); err != nil {
		return err
	}
	return t.queryMappings()
}

// identifyFunction gets the PCI address from the driver and the ids from sysfs, and opens
// configuration space.
func (t *ttBackend) identifyFunction() error {
	d := t.dev
	info := ttDeviceInfo{outputCapacity: 20}
	err := ioctlStruct(t.fd, ttGetDeviceInfo, structPointer(&info), "GET_DEVICE_INFO", d.locator)
	if err != nil {
		return err
	}
	slot, number := info.busDevFn>>3&31, info.busDevFn&7
	// For bus 1, slot 0, function 0: FormatPCIID returns "0000:0100", and the address is
	// "0000:01:00.0".
	digits := FormatPCIID(info.domain, info.busDevFn&0xff00|slot)
	d.pciFunction.Address = digits[:7] + ":" + digits[7:] + "." + strconv.Itoa(int(number))
	if err := d.pciFunction.readIDs(); err != nil {
		return err
	}
	return d.openConfig()
}

// queryMappings gets the sizes of the BARs, and their offsets in the driver's file.
func (t *ttBackend) queryMappings() error {
	d := t.dev
	query := ttMappings{count: uint32(len(t.mappings))}
	_, err := syscalls.ioctl(t.fd, ttQueryMappings, 0, structPointer(&query))
	switch {
	case err == unix.ENODEV: // a reset of the device has begun but not ended
		return d.fault(NoDevice, "another program has begun to reset the device; "+
			"wait until the reset ends, or reset the device again with `tt-smi -r`")
	case err != nil:
		return syscallFault("QUERY_MAPPINGS", d.locator, err)
	case !d.Alive():
		return d.fault(DeviceGone,
			"configuration space reads as all ones, or memory decoding is off; "+
				"reset the device with `tt-smi -r`")
	}
	for _, m := range query.mappings {
		if m.id >= 1 && m.id <= uint32(len(t.mappings)) {
			bar := (m.id - 1) &^ 1
			t.mappings[m.id-1] = m
			d.pciFunction.BarSizes[bar] = m.size
		}
	}
	return nil
}

// The driver releases the lock, TLB windows and memory when its file is closed.
func (t *ttBackend) acquireDevice() error {
	d := t.dev
	lock := ttLockRequest{outputCapacity: 4, index: ttLockIndex}
	_, err := syscalls.ioctl(t.fd, ttLockControl, 0, structPointer(&lock))
	switch {
	case err == unix.ENODEV:
		return d.fault(DeviceGone,
			"another program has reset the device since it was opened; open the device again")
	case err != nil:
		return syscallFault("LOCK_CTL", d.locator, err)
	case lock.value != 1:
		return d.fault(NoDevice, "another replay has locked the device; `fuser -v "+d.locator+
			"` names its process")
	}
	// Request power and the full clock. tt-kmd before 2.6, and firmware without power states,
	// reject this and leave the clock as it is.
	power := ttPowerRequest{argsz: 40, validity: ttPowerValidity, flags: ttPowerAllFlags}
	_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
	// Without this request, the full clock stays on if the driver's module parameter power_policy
	// is off or missing. Power stays requested: on close, the driver makes the store that
	// RegisterExitCleanup has requested, for which the tiles need power.
	d.cleanups.addCleanup(func() error {
		power.flags &^= ttPowerClockFlag
		_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
		return nil
	})
	return nil
}

// Without a write-combining mapping of the driver, mapBarRange maps uncached.
func (t *ttBackend) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (
	*Aperture, error) {
	if writeCombining && t.mappings[bar|1].size != 0 {
		bar |= 1
	}
	return t.dev.mapFile(t.fd, t.mappings[bar].base+offset, size, t.dev.locator)
}

// mapForDMA pins mem. The result is the address on the NoC at which tiles reach mem.
//
// A program cannot choose this address: the driver takes the lowest free one (tt-kmd memory.c,
// setup_noc_dma), unless a request has the flag TOP_DOWN. So fixedBus must be the lowest free
// address, which depends on what other programs have pinned.
func (t *ttBackend) mapForDMA(mem []byte, huge bool, fixedBus uint64) (bus uint64, err error) {
	size := uint64(len(mem))
	pin := ttPinRequest{outputCapacity: 16, flags: ttPinNoCFlag, address: uint64(AddressOf(mem)),
		size: size}
	_, err = syscalls.ioctl(t.fd, ttPinPages, 0, structPointer(&pin))
	if err == unix.EINVAL {
		return 0, t.dev.notContiguousFault(size, huge)
	}
	if err == nil && fixedBus != 0 && pin.noc != fixedBus {
		const text = "the driver has pinned host memory at address %x, but the image needs %x; " +
			"end other programs that pin memory, or use `vfio:`"
		return 0, t.dev.fault(NoDevice, fbs.Text(text, pin.noc, fixedBus))
	}
	return pin.noc, syscallFault("PIN_PAGES", t.dev.locator, err)
}

// The device reaches only its own Host windows, which have their addresses already.
func (t *ttBackend) mapForPeer(*Aperture, *device) error { return nil }
