//go:build backend_tt || !(backend_pci || backend_vfio)

package hal

// This file implements the backend tt. It accesses a device through Tenstorrent's kernel driver,
// tt-kmd. Other programs may use the device at the same time: the driver reserves TLB windows for
// each program. The driver also programs the TLB windows and pins host memory. When this process
// ends, the driver releases the TLB windows and the memory of the process.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const (
	// Version of the driver's API that this backend uses. tt-kmd 2.0 and later have this version.
	ttAPIVersion = 2

	// Number of the driver's lock that this backend acquires, so that no two replays use the same
	// device. The driver has locks 0 to 63 for each device. Locks 0 to 15 are for Ethernet cores
	// (tt-kmd ioctl.h).
	ttLockIndex = 63
)

// ttBackend implements the interface backend for a device with a name such as
// tt:/dev/tenstorrent/0.
type ttBackend struct {
	dev                  *device
	fd                   int  // descriptor of the driver's file for this device; -1 if not yet open
	driverHasExitCleanup bool // the driver has the ioctl SET_NOC_CLEANUP

	// mappings[bar] describes the uncached mapping of BAR 0, 2 or 4, and mappings[bar+1] the
	// write-combining mapping of the same BAR. The size of a mapping that does not exist is 0.
	mappings [6]ttMapping

	// configureTLBRequest is the argument of the ioctl that programWindow makes. It is a field,
	// because programWindow must not allocate memory: Go would allocate a local variable on the
	// heap if its address is passed to an ioctl.
	configureTLBRequest ttConfigureTLBRequest
}

// fenceCommand is a Fence command: all earlier accesses are complete before any later access
// starts.
var fenceCommand = fbs.Command{Opcode: gen.OpcodeFence}

const ttExample = " `tt:/dev/tenstorrent/0`" // a name that this backend opens

// newTT returns the backend tt for the device d. It notes in d that Tenstorrent's driver programs
// the TLB windows and keeps bus mastering on.
func newTT(d *device) backend {
	t := &ttBackend{dev: d, fd: -1}
	d.tlb.driver = t
	d.busMaster.keptOnByDriver = true
	return t
}

// identifyDevice implements backend: it opens the driver's file for the device, checks the version
// of the driver's API, and queries the identity and the BARs of the device.
func (t *ttBackend) identifyDevice() (err error) {
	d := t.dev
	// Open the driver's file for the device. With O_NONBLOCK, open fails immediately, and does not
	// wait, if another program has opened the file with O_EXCL. With O_APPEND, the driver leaves
	// the power state of the device unchanged until this program makes the ioctl SET_POWER_STATE
	// (tt-kmd ioctl.h).
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
	// Check the version of the driver's API: other versions have other ioctls.
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

// identifyFunction queries the PCI address of the device from the driver. Then it reads the PCI ids
// of the device from sysfs, and opens the sysfs file of the device's configuration space.
func (t *ttBackend) identifyFunction() error {
	d := t.dev
	// Query the domain, bus, slot and function number from the driver.
	info := ttDeviceInfo{outputCapacity: 20}
	err := ioctlStruct(t.fd, ttGetDeviceInfo, structPointer(&info), "GET_DEVICE_INFO", d.locator)
	if err != nil {
		return err
	}
	slot, number := info.busDevFn>>3&31, info.busDevFn&7
	// Format the PCI address. For domain 0, bus 1 and slot 0, FormatPCIID returns "0000:0100"; for
	// function number 0, the PCI address is then "0000:01:00.0".
	digits := FormatPCIID(info.domain, info.busDevFn&0xff00|slot)
	d.pciFunction.Address = digits[:7] + ":" + digits[7:] + "." + strconv.Itoa(int(number))
	if err := d.pciFunction.readIDs(); err != nil {
		return err
	}
	return d.openConfig()
}

// queryMappings queries the size of each BAR from the driver. It also queries two offsets in the
// driver's file for each BAR: mmap at one offset maps the BAR uncached, and at the other offset
// write-combining.
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

// acquireDevice implements backend: it locks the device against other replays, and requests the
// full clock. No cleanup functions release TLB windows and pinned memory, because the driver
// releases them when this program closes the driver's file or ends.
func (t *ttBackend) acquireDevice() error {
	d := t.dev
	// Acquire the driver's lock with the number ttLockIndex, so that no other replay uses the
	// device.
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
	// Request full power and the full clock. Ignore an error: tt-kmd before 2.6, or firmware
	// without power states, rejects this ioctl and leaves the clock unchanged.
	power := ttPowerRequest{argsz: 40, validity: ttPowerValidity, flags: ttPowerAllFlags}
	_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
	// Make Close withdraw the request for the full clock before it closes the driver's file.
	// Otherwise the full clock stays on if the driver's module parameter power_policy is off or
	// does not exist.
	//
	// Do not withdraw the request for power. When the file is closed, the driver makes the store
	// that RegisterExitCleanup has requested, and the store works only if the tiles have power.
	d.cleanups.addCleanup(func() error {
		power.flags &^= ttPowerClockFlag
		_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
		return nil
	})
	return nil
}

// mapBarRange implements backend: it maps a range of a BAR from the driver's file. If the driver
// has no write-combining mapping of the BAR, mapBarRange maps the range uncached.
func (t *ttBackend) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (
	*Aperture, error) {
	if writeCombining && t.mappings[bar|1].size != 0 {
		bar |= 1
	}
	return t.dev.mapFile(t.fd, t.mappings[bar].base+offset, size, t.dev.locator)
}

// mapForDMA implements backend: it makes the driver pin the pages of mem, so that the kernel does
// not move them. With this backend, the result `bus` is not an address on the PCIe bus. It is an
// address on the NoC, the network between the tiles: there, tiles reach mem at this address.
//
// If fixedBus is not 0, the NoC address must equal fixedBus. But a program cannot request a certain
// NoC address: the driver chooses the lowest free addresses, unless a request has the flag TOP_DOWN
// (tt-kmd memory.c, setup_noc_dma). Therefore mapForDMA succeeds only if fixedBus is such a low
// address, and no other program has pinned memory for the device.
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

// mapForPeer implements backend. It does nothing, because with the backend tt a device
// reaches only its own Host windows, whose bus addresses mapHostMem has already set.
func (t *ttBackend) mapForPeer(*Aperture, *device) error { return nil }
