package runtime

// This file loads an image: it checks the devices, reserves memory, maps the windows, and fills in
// the commands whose values depend on the devices.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// AnySlot is a value for the parameter slot of Load: the image and the device choose the numbers
// of the TLB windows.
const AnySlot = -1

// Load prepares a verified image for runs on the given devices, which must be in the order of the
// devices in the image. It checks that the image is for these devices, then reserves everything
// that runs need: the windows, and one arena of the size that the image states. Load stores
// nothing to the BARs of a device. But it makes the devices in view.BusMasters bus masters, so
// that these devices may access memory from then on. The error is a *hal.Fault.
//
// Unless slot is AnySlot, the first window of kind Tlb in the image uses the TLB window with the
// number slot, and each further one uses the next number.
func Load(view *fbs.View, slot int, devices ...hal.Device) (*Replay, error) {
	callerView := view
	if view = callerView.Original(); view == nil {
		return nil, hal.NewFault(hal.Usage, "Load accepts only a view that Verify returned")
	}
	if err := checkDevices(view, devices); err != nil {
		return nil, err
	}
	if err := CheckWorstCase(view); err != nil {
		return nil, err
	}
	const limitMaxUs = 1 << 62 / 1000 // the time of the clock plus this limit fits an int64
	r := &Replay{
		view: view, callerView: callerView, devices: devices,
		allowedNs:    int64(min(view.TimeLimitUs, limitMaxUs)) * 1000,
		safeSequence: view.SequenceByName("safe"),
	}
	if err := r.reserveMemoryAndWindows(slot); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// CheckWorstCase returns an error if a sequence of the image may take longer than
// view.TimeLimitUs. The error is a *hal.Fault.
func CheckWorstCase(view *fbs.View) error {
	for i, us := range view.WorstCaseUs {
		limit := view.TimeLimitUs
		if us > limit {
			const text = " may take %d s %d us, but the limit is %d s %d us; " +
				"--longest or lm_longest raises the limit"
			// The name is safe to print: Verify has rejected names with control characters.
			name := view.Name(view.Sequences[i].Name)
			return hal.NewFault(hal.BadImage, "sequence \""+name+"\""+
				fbs.Text(text, us/1e6, us%1e6, limit/1e6, limit%1e6))
		}
	}
	return nil
}

// checkDevices returns an error unless the given devices are those that the image is for.
func checkDevices(view *fbs.View, devices []hal.Device) error {
	if len(devices) != len(view.Devices) {
		return hal.NewFault(hal.Usage, fbs.Text("devices: the image needs %d, but %d were given",
			uint64(len(view.Devices)), uint64(len(devices))))
	}
	for i, device := range devices {
		identity := device.Identity()
		if j := indexOfFunction(devices[:i], identity.Address); j >= 0 {
			return hal.NewFault(hal.Usage,
				fbs.Text("devices %d and %d are both ", uint64(j), uint64(i))+
					identity.Address+"; name two different devices by their addresses")
		}
		if reason := explainMismatch(view, i, identity); reason != "" {
			return hal.NewFault(hal.WrongDevice, "the image "+reason)
		}
	}
	return nil
}

// explainMismatch returns the reason that the image rejects the device got as its device i. It
// returns "" if the image accepts the device. The text continues "the image ...".
func explainMismatch(view *fbs.View, i int, got hal.Identity) (reason string) {
	want := &view.Devices[i]
	switch {
	case got.Vendor != want.Vendor || got.Device != want.Device:
		return "is for " + view.Board(i).Name + " (" +
			hal.FormatPCIID(want.Vendor, want.Device) + "), but " + got.Name + " is " +
			hal.FormatPCIID(got.Vendor, got.Device)
	case want.Subsystem != 0 && got.Subsystem != want.Subsystem:
		return fbs.Text("is for subsystem %x, but ", uint64(want.Subsystem)) + got.Name +
			fbs.Text(" has %x", uint64(got.Subsystem))
	}
	for bar, size := range want.BarSizes() {
		if got.Bars[bar] < size {
			return fbs.Text("needs %x bytes of BAR %d, but ", size, uint64(bar)) + got.Name +
				fbs.Text(" has %x", got.Bars[bar])
		}
	}
	return ""
}

// indexOfFunction returns the index of the device that is the PCI function at the given address,
// or -1 if no device is. Load uses it to reject two devices that are the same PCI function: each
// would allocate TLB windows and host memory of the function without regard to the other.
func indexOfFunction(devices []hal.Device, address string) int {
	for i, device := range devices {
		if address != "" && device.Identity().Address == address {
			return i
		}
	}
	return -1
}

// reserveMemoryAndWindows reserves the arena, maps the windows, and fills in the commands. It
// enables bus mastering at the end, so that no device can access memory if an earlier step fails.
func (r *Replay) reserveMemoryAndWindows(slot int) error {
	if err := r.reserveArena(); err != nil {
		return err
	}
	if err := r.mapWindows(slot); err != nil {
		return err
	}
	r.buildAddressTables()
	if r.view.NeedsFixup {
		if err := r.fixUpCommands(); err != nil {
			return err
		}
	}
	return r.enableBusMastering()
}

// mapWindows maps every window of the image. Unless slot is AnySlot, the windows of kind Tlb use
// the TLB windows with the numbers slot, slot+1 and so on. It is an error if one of these numbers
// is not available.
func (r *Replay) mapWindows(slot int) error {
	count := len(r.view.Windows)
	r.apertures = make([]hal.Aperture, count)
	r.tlbWindows = make([]uintptr, count)
	r.windows = make([]uintptr, count+len(r.devices))
	for i, w := range r.view.Windows {
		isForced := slot != AnySlot && w.Kind == gen.WindowKindTlb
		if isForced {
			w.Slot = uint16(slot)
			slot++
		}
		aperture, err := r.devices[w.Device].Map(w)
		if err != nil {
			return err
		}
		if isForced && aperture.Slot != int(w.Slot) {
			const text = "TLB window %d is too small, in use, or reserved " +
				"by the kernel driver; on a `tt:` device only the driver chooses TLB windows"
			return hal.NewFault(hal.NoDevice, fbs.Text(text, uint64(w.Slot)))
		}
		r.apertures[i], r.windows[i] = aperture, aperture.Base
	}
	return nil
}

// buildAddressTables fills in r.memories, the addresses of the payload and of each tensor. An
// output is in the arena. An input with default data is in the payload. An input without data has
// no address until the caller provides data through Input. The function also passes the address
// tables to r.walk.
func (r *Replay) buildAddressTables() {
	arena, payload := hal.AddressOf(r.arena), hal.AddressOf(r.view.Payload)
	r.memories = make([]uintptr, 1+len(r.view.Tensors))
	r.memories[0] = payload
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		switch {
		case t.Role == gen.RoleOutput:
			r.memories[1+i] = arena + uintptr(t.ArenaOffset)
		case t.HasData != 0:
			r.memories[1+i] = payload + uintptr(t.DataOffset)
		default:
			r.missingInputs++
		}
	}
	r.walk.Next = &r.commands[0]
	r.walk.Windows = &r.windows[0]
	r.walk.Memories = &r.memories[0]
	r.walk.TLBWindows = &r.tlbWindows[0]
}

// pageSizeMax is the largest page size, in bytes, of the supported machines. It is a page size of
// arm64.
const pageSizeMax = 64 << 10

// reserveArena maps the arena, which contains the tensors. If commands must be filled in, a copy
// of the commands follows the tensors, in separate pages, because the copy becomes read-only. It
// is an error if the image needs more memory than is available: otherwise the kernel's OOM killer
// would end a process later.
func (r *Replay) reserveArena() error {
	tensors, host := r.view.Reservation.ArenaBytes, r.view.Reservation.HostBytes
	size := tensors
	commandsAt := fbs.RoundUp(tensors, pageSizeMax)
	if r.view.NeedsFixup {
		size = commandsAt + uint64(len(r.view.Commands))*fbs.CommandSize
	}
	pageTables := uint64(0)
	for i := range r.view.Windows {
		pageTables += r.view.Windows[i].Size / 512 // 8 bytes for each page of 4 KiB
	}

	// Free huge pages count only for host memory, because the arena and page tables cannot use
	// them.
	available, inHugePages := availableMemory(size + pageTables + host)
	fits := size+pageTables <= available && size+pageTables+host <= available+inHugePages
	if fits && size > 0 {
		const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
		arena, err := hal.Mmap(-1, 0, int(size), protection, flags)
		r.arena, fits = arena, err == nil
	}
	if !fits {
		const text = "the image needs %d bytes for tensors, %d for host memory and %d for " +
			"page tables of windows, but only %d are available"
		return hal.NewFault(hal.BadImage,
			fbs.Text(text, size, host, pageTables, available+inHugePages))
	}

	r.commands = r.view.Commands
	if r.view.NeedsFixup {
		r.commands = fbs.CommandsIn(r.arena[commandsAt:])
		copy(r.commands, r.view.Commands)
	}
	return nil
}

// fixUpCommands completes the Relocate and Point commands in the copy of the commands, then makes
// the copy read-only. Their values depend on the addresses of the windows, therefore the windows
// must have been mapped.
func (r *Replay) fixUpCommands() (err error) {
	for i := 0; i < len(r.commands) && err == nil; i++ {
		switch c := &r.commands[i]; c.Opcode {
		case gen.OpcodeRelocate:
			err = r.resolveRelocate(i, c)
		case gen.OpcodePoint:
			err = r.encodePoint(i, c)
		}
	}
	copied := r.arena[len(r.arena)-len(r.commands)*fbs.CommandSize:]
	_ = unix.Mprotect(copied, unix.PROT_READ) // cannot fail: mapped pages of this process
	return err
}

// resolveRelocate turns a Relocate into a Write, which stores the bus address of a window into a
// register. The device of the register will use the address, therefore the address must be valid
// for this device, which may be another one than the device of the window.
func (r *Replay) resolveRelocate(index int, c *fbs.Command) error {
	a := &r.apertures[c.Index]
	owner := r.devices[r.view.Windows[c.Index].Device]
	if err := r.deviceOf(c).AssignBusAddress(a, owner); err != nil {
		return err
	}
	if a.Bus == 0 {
		return r.commandFault(hal.NoDevice, index,
			fbs.Text("window %d has no bus address on this device", uint64(c.Index)))
	}
	sum := a.Bus + c.Value
	if sum < a.Bus || sum&^fbs.WidthMask(c.Width) != 0 {
		return r.commandFault(hal.WrongDevice, index,
			fbs.Text("bus address %x does not fit the register of %d bytes", sum, uint64(c.Width)))
	}
	c.Opcode, c.Index, c.Value = gen.OpcodeWrite, 0, sum
	return nil
}

// encodePoint puts the register values of a TLB window into a Point, if registers of the device
// set the TLB window. A walk then executes the Point without stopping. If the driver of the device
// sets the TLB window, encodePoint changes nothing, and programWindow will execute the Point.
func (r *Replay) encodePoint(index int, c *fbs.Command) error {
	device := r.view.Windows[c.Window].Device
	tiles, _ := boards.UnpackTileRange(c.Mask)
	encoded := &r.scratch[0] // a local variable would be allocated on the heap for each Point
	*encoded = *c
	registers, tlbWindow, code := r.devices[device].EncodeWindow(&r.apertures[c.Window], tiles,
		c.Value, encoded)
	if code != hal.OK {
		return r.commandFault(code, index, "the device's TLB cannot encode this tile range")
	}
	if registers != 0 {
		*c = *encoded
		c.Index = uint16(len(r.view.Windows) + int(device))
		r.windows[c.Index], r.tlbWindows[c.Window] = registers, tlbWindow
	}
	return nil
}

// enableBusMastering makes the devices in view.BusMasters bus masters. Then it registers with the
// drivers which cores to reset when the device is closed or this process ends. It does so last,
// because the driver would reset the cores even if Load failed afterwards.
func (r *Replay) enableBusMastering() (err error) {
	for i, device := range r.devices {
		if r.view.BusMasters>>i&1 != 0 && err == nil {
			r.busMaster, err = true, device.SetBusMaster(true)
		}
	}
	for i, device := range r.devices {
		if cleaner, ok := device.(hal.ExitCleaner); ok && r.view.NeedsFixup && err == nil {
			warning := ""
			warning, err = cleaner.RegisterExitCleanup(r.view, i)
			r.Warnings += warning
		}
	}
	return err
}

// DeviceNames returns a device name for each device of an image, in the same order. Each name
// selects the device by its PCI ids, for example "pci:1e52:401e".
func DeviceNames(view *fbs.View) []string {
	names := make([]string, len(view.Devices))
	for i := range view.Devices {
		names[i] = "pci:" + hal.FormatPCIID(view.Devices[i].Vendor, view.Devices[i].Device)
	}
	return names
}

// StopDMA disables bus mastering of all devices and returns the first error. Close calls it, too.
// A sealed process must call StopDMA instead of Close, because Close unmaps memory, and the seal
// forbids this system call.
func (r *Replay) StopDMA() (err error) {
	for _, device := range r.devices {
		if e := device.SetBusMaster(false); err == nil {
			err = e
		}
	}
	return err
}

// Close disables bus mastering of all devices, then frees the arena. It closes neither the devices
// nor the file. The caller must close the devices after Close, because a device may access the
// host memory of another one until Close has stopped all of them.
func (r *Replay) Close() error {
	err := r.StopDMA()
	_ = hal.Munmap(r.arena) // cannot fail for anonymous memory
	r.arena, r.devices, r.busMaster, r.disabled = nil, nil, false, true
	return err
}

// commandFault returns an error whose text begins with the name of the command at the given index
// in the image.
func (r *Replay) commandFault(code hal.Code, index int, reason string) error {
	return hal.NewFault(code, string(AppendCommand(nil, r.view, index))+": "+reason)
}

// AppendCommand appends the name of the command at the given index in the image, for example
// "command 3 of main". Numbers count from 0 within the sequence and do not count marks. If index
// is -1, AppendCommand appends nothing.
func AppendCommand(text []byte, view *fbs.View, index int) []byte {
	for i := range view.Sequences {
		s := &view.Sequences[i]
		if number := uint64(index) - uint64(s.First); number < uint64(s.Count) {
			text = fbs.AppendText(text, "command %d of ", number)
			return append(text, view.NameBytes(s.Name)...)
		}
	}
	return text
}
