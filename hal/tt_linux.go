//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// The backend tt: drives a device through Tenstorrent's own driver, tt-kmd. Other programs may use
// the device at the same time. The driver reserves and programs TLB windows, pins host memory, and
// releases windows and memory when the process ends.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const (
	// Version of the driver's API that this backend needs. tt-kmd 2.0 and later have it.
	ttAPI = 2

	// Number of the lock that keeps two replays from using the same device. It is the last of the
	// driver's 64 locks: the first 16 are for Ethernet cores (tt-kmd ioctl.h).
	ttLockIndex = 63
)

// tt implements backend for a device whose name begins with tt:.
type tt struct {
	dev            *device
	fd             int  // file descriptor of the driver's file; -1 before probe
	hasExitCleanup bool // the driver supports the request SET_NOC_CLEANUP

	// mappings has the uncached mapping of BAR 0, 2 or 4 at the index of the BAR, and the
	// write-combining mapping at the next index. A mapping that does not exist has size 0.
	mappings [6]ttMapping

	// configureRequest is the struct that programWindow passes to the driver. It is a field because
	// programWindow must not allocate memory.
	configureRequest ttConfigure
}

var fenceCommand = fbs.Command{Opcode: gen.OpcodeFence}

func newTT(d *device) backend {
	t := &tt{dev: d, fd: -1}
	d.tlb.driver = t
	d.busMaster.keptOn = true
	return t
}

// probe implements backend.
func (t *tt) probe() (err error) {
	d := t.dev
	// Open the driver's file of the device. O_NONBLOCK: fail instead of waiting if another program
	// has opened the file with O_EXCL. O_APPEND: do not change the power state of the device yet
	// (tt-kmd ioctl.h, SET_POWER_STATE).
	t.fd, err = d.cleanups.openFile(d.locator, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	switch err {
	case nil:
	case unix.EAGAIN:
		return d.fault(NoDevice, "another program uses the device exclusively (O_EXCL)")
	case unix.ENOENT:
		return d.fault(NoDevice, "no such device; `ls /dev/tenstorrent` lists the devices, "+
			"`modprobe tenstorrent` loads the driver")
	default:
		return callFault("open", d.locator, err)
	}
	// Check the version of the driver's API, because other versions have other requests.
	driver := ttDriverInfo{inSize: 12}
	err = ioctlStruct(t.fd, ttGetDriverInfo, structPointer(&driver), "GET_DRIVER_INFO", d.locator)
	if err != nil {
		return err
	}
	if driver.api != ttAPI {
		return d.fault(NoDevice,
			fbs.Text("the driver has API %d, but this program needs API %d; install tt-kmd 2.0 "+
				"or later", uint64(driver.api), ttAPI))
	}
	t.hasExitCleanup = driver.major > 2 || driver.major == 2 && driver.minor >= 2
	if err := t.identifyFunction(); err != nil {
		return err
	}
	return t.queryMappings()
}

// identifyFunction gets the PCI address of the device from the driver, and reads the ids and opens
// the configuration space of that PCI function in sysfs.
func (t *tt) identifyFunction() error {
	d := t.dev
	// Get the domain, bus, slot and function number from the driver.
	info := ttDeviceInfo{inSize: 20}
	err := ioctlStruct(t.fd, ttGetDeviceInfo, structPointer(&info), "GET_DEVICE_INFO", d.locator)
	if err != nil {
		return err
	}
	slot, number := info.busDevFn>>3&31, info.busDevFn&7
	// FormatPCIID returns domain, bus and slot as "0000:0100"; the address is "0000:01:00.0".
	digits := FormatPCIID(info.domain, info.busDevFn&0xff00|slot)
	d.function.Address = digits[:7] + ":" + digits[7:] + "." + strconv.Itoa(int(number))
	if err := d.function.readIDs(); err != nil {
		return err
	}
	return d.openConfig()
}

// queryMappings gets the sizes of the BARs, and the mmap offsets of their mappings, from the
// driver.
func (t *tt) queryMappings() error {
	d := t.dev
	query := ttMappings{count: uint32(len(t.mappings))}
	_, err := syscalls.ioctl(t.fd, ttQueryMappings, 0, structPointer(&query))
	switch {
	case err == unix.ENODEV: // the driver rejects this request from a reset on until POST_RESET
		return d.fault(NoDevice, "another program has begun to reset the device; wait until the "+
			"reset ends, or reset the device again with `tt-smi -r`")
	case err != nil:
		return callFault("QUERY_MAPPINGS", d.locator, err)
	case !d.Alive():
		return d.fault(DeviceGone,
			"configuration space reads all ones, or memory decoding is off; "+
				"reset the device with `tt-smi -r`")
	}
	for _, m := range query.mappings {
		if m.id >= 1 && m.id <= uint32(len(t.mappings)) {
			bar := (m.id - 1) &^ 1
			t.mappings[m.id-1] = m
			d.function.Bars[bar] = m.size
		}
	}
	return nil
}

// acquire implements backend. It registers no cleanups for TLB windows and pinned memory: the
// driver releases both when its file is closed, at the latest when the process ends.
func (t *tt) acquire() error {
	d := t.dev
	// Acquire a lock from the driver, so that no other replay uses the device.
	lock := ttLock{outSize: 4, index: ttLockIndex}
	_, err := syscalls.ioctl(t.fd, ttLockControl, 0, structPointer(&lock))
	switch {
	case err == unix.ENODEV:
		return d.fault(DeviceGone,
			"another program has reset the device since it was opened; open the device again")
	case err != nil:
		return callFault("LOCK_CTL", d.locator, err)
	case lock.value != 1:
		return d.fault(NoDevice, "another replay has locked the device; `fuser -v "+d.locator+
			"` names its process")
	}
	// Request the full clock. A failure is ignored: tt-kmd before 2.6, and firmware without power
	// states, have no such request and leave the clock as it is.
	power := ttPower{argsz: 40, validity: ttPowerFlags, flags: ttPowerAll}
	_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
	// Close must withdraw the request for the full clock before it closes the file: a driver
	// without power_policy would otherwise keep that clock. Close does not withdraw the request for
	// power: after the file is closed, the driver makes the store of RegisterExitCleanup, which
	// works only while the tiles have power.
	d.cleanups.add(func() error {
		power.flags &^= ttPowerClock
		_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
		return nil
	})
	return nil
}

// mapBarRange implements backend. If the driver has no write-combining mapping of the BAR, the
// range is mapped uncached.
func (t *tt) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	if writeCombining && t.mappings[bar|1].size != 0 {
		bar |= 1
	}
	return t.dev.mapFile(t.fd, t.mappings[bar].base+offset, size, t.dev.locator)
}

// mapForDevice implements backend. The driver pins the pages and returns their address on the NoC,
// which differs from their bus address. Tiles use the NoC address to reach host memory.
func (t *tt) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	size := uint64(len(mem))
	pin := ttPin{outSize: 16, flags: ttPinNoC, address: uint64(AddressOf(mem)), size: size}
	_, err = syscalls.ioctl(t.fd, ttPinPages, 0, structPointer(&pin))
	if err == unix.EINVAL {
		return 0, t.dev.notContiguousFault(size, huge)
	}
	return pin.noc, callFault("PIN_PAGES", t.dev.locator, err)
}

// assignBusAddress implements backend. A device reaches only its own Host windows, and Map has
// already set their bus addresses.
func (t *tt) assignBusAddress(*Aperture, *device) error { return nil }
