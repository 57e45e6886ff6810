//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// The backend tt: drives a device of Tenstorrent's own driver, tt-kmd, next to other programs that
// may use it. The driver reserves and programs TLB windows, pins host memory, and releases
// everything when the process ends.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const (
	ttAPI = 2 // of the driver, from tt-kmd 2.0 on

	// The driver's locks 0 to 15 are for Ethernet cores (tt-kmd ioctl.h). The last one keeps two
	// replays from using one device.
	ttLockIndex = 63
)

// tt is the backend tt: of a device.
type tt struct {
	dev              *device
	fd               int
	hasExitCleanup   bool         // the driver has SET_NOC_CLEANUP
	mappings         [6]ttMapping // by 2 x BAR 0, 2, 4 + write-combining
	configureRequest ttConfigure  // here, so that programWindow allocates nothing
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
	// Open the driver's file. Do not wait for a program that has the device for itself with O_EXCL
	// (O_NONBLOCK), and ask for no power yet (O_APPEND; tt-kmd ioctl.h, SET_POWER_STATE).
	t.fd, err = d.cleanups.openFile(d.locator, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	switch err {
	case nil:
	case unix.EAGAIN:
		return d.fault(NoDevice, "another program has the device for itself")
	case unix.ENOENT:
		return d.fault(NoDevice, "no such device; `ls /dev/tenstorrent` lists what is there, "+
			"`modprobe tenstorrent` loads the driver")
	default:
		return callFault("open", d.locator, err)
	}
	// Ask for the driver's API, which other requests depend on.
	driver := ttDriverInfo{inSize: 12}
	err = ioctlStruct(t.fd, ttGetDriverInfo, structPointer(&driver), "GET_DRIVER_INFO", d.locator)
	if err != nil {
		return err
	}
	if driver.api != ttAPI {
		return d.fault(NoDevice,
			fbs.Text("the driver has API %d, %d is needed; install tt-kmd 2.0 "+
				"or later", uint64(driver.api), ttAPI))
	}
	t.hasExitCleanup = driver.major > 2 || driver.major == 2 && driver.minor >= 2
	if err := t.findFunction(); err != nil {
		return err
	}
	return t.queryMappings()
}

// findFunction finds the PCI function of the driver's device, and opens its configuration space
// in sysfs.
func (t *tt) findFunction() error {
	d := t.dev
	// Ask for the address of the function on the bus.
	info := ttDeviceInfo{inSize: 20}
	err := ioctlStruct(t.fd, ttGetDeviceInfo, structPointer(&info), "GET_DEVICE_INFO", d.locator)
	if err != nil {
		return err
	}
	slot, number := info.busDevFn>>3&31, info.busDevFn&7
	address := FormatPCIID(info.domain, info.busDevFn&0xff00|slot) // "0000:0100"
	d.function.Address = address[:7] + ":" + address[7:] + "." + strconv.Itoa(int(number))
	if err := d.function.readIDs(); err != nil {
		return err
	}
	return d.openConfig()
}

// queryMappings asks the driver for the BARs and how to map them.
func (t *tt) queryMappings() error {
	d := t.dev
	all := ttMappings{count: uint32(len(t.mappings))}
	_, err := syscalls.ioctl(t.fd, ttQueryMappings, 0, structPointer(&all))
	switch {
	case err == unix.ENODEV: // during a reset the driver answers only requests for information
		return d.fault(NoDevice, "the device is being reset by another program, without "+
			"POST_RESET yet; wait for it, or reset the device again with `tt-smi -r`")
	case err != nil:
		return callFault("QUERY_MAPPINGS", d.locator, err)
	case !d.Alive():
		return d.fault(DeviceGone,
			"configuration space reads all ones, or memory decoding is off; "+
				"reset the device with `tt-smi -r`")
	}
	for _, m := range all.mappings {
		if m.id >= 1 && m.id <= uint32(len(t.mappings)) {
			bar := (m.id - 1) &^ 1
			t.mappings[m.id-1] = m
			d.function.Bars[bar] = m.size
		}
	}
	return nil
}

// acquire implements backend. When the process ends, the driver makes the store of
// RegisterExitCleanup, which reaches tiles only while they have power, frees the windows, and
// unpins host memory.
func (t *tt) acquire() error {
	d := t.dev
	// Acquire a lock of the driver, so that no other replay uses the device.
	lock := ttLock{outSize: 4, index: ttLockIndex}
	_, err := syscalls.ioctl(t.fd, ttLockControl, 0, structPointer(&lock))
	switch {
	case err == unix.ENODEV:
		return d.fault(DeviceGone,
			"another program has reset the device since it was opened; open it again")
	case err != nil:
		return callFault("LOCK_CTL", d.locator, err)
	case lock.value != 1:
		return d.fault(NoDevice, "another replay has the device; `fuser -v "+d.locator+"` names it")
	}
	// Ask for the full clock. A driver before 2.6, or firmware without power states, ignores this:
	// the clock is then as it is.
	power := ttPower{argsz: 40, validity: ttPowerFlags, flags: ttPowerAll}
	_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
	// Close withdraws the request before anything else: a driver without power_policy would keep
	// the clock after the file is closed.
	d.cleanups.add(func() error {
		power.flags &^= ttPowerClock
		_, _ = syscalls.ioctl(t.fd, ttSetPowerState, 0, structPointer(&power))
		return nil
	})
	return nil
}

// mapBarRange implements backend.
func (t *tt) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	if writeCombining && t.mappings[bar|1].size != 0 {
		bar |= 1
	}
	return t.dev.mapFile(t.fd, t.mappings[bar].base+offset, size, t.dev.locator)
}

// mapForDevice implements backend. The driver pins the pages and returns their address on the
// NoC, over which tiles reach host memory: it differs from the address on the bus.
func (t *tt) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	size := uint64(len(mem))
	pin := ttPin{outSize: 16, flags: ttPinNoC, address: uint64(AddressOf(mem)), size: size}
	_, err = syscalls.ioctl(t.fd, ttPinPages, 0, structPointer(&pin))
	if err == unix.EINVAL {
		return 0, t.dev.notContiguous(size, huge)
	}
	return pin.noc, callFault("PIN_PAGES", t.dev.locator, err)
}

// assignBusAddress implements backend. Each device has addresses of its own.
func (t *tt) assignBusAddress(*Aperture, *device) error { return nil }
