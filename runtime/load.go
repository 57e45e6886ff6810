package runtime

// Load: checking the devices, reserving memory and windows, and filling in what was unknown until
// then.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// AnySlot lets image and device choose the TLB windows.
const AnySlot = -1

// Load checks that a verified image is for these devices, in the order of the image's devices,
// and reserves everything that runs need: windows, and one arena of the size that the image
// states. It stores nothing to a device's BARs, but a device that the image makes a bus master may
// access memory afterwards. The error is a *hal.Fault.
//
// slot is the number of the TLB window to use for the first movable window of the image; further
// ones use the numbers after it. AnySlot leaves the choice open.
func Load(view *fbs.View, slot int, devices ...hal.Device) (*Replay, error) {
	callerView := view
	if view = callerView.Original(); view == nil {
		return nil, hal.NewFault(hal.Usage, "the view was not returned by Verify")
	}
	if err := checkIdentity(view, devices); err != nil {
		return nil, err
	}
	if err := CheckWorstCase(view); err != nil {
		return nil, err
	}
	const limitMaxUs = 1 << 62 / 1000 // so that start plus limit is a time
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

// CheckWorstCase rejects an image with a sequence that may take longer than view.TimeLimitUs. The
// error is a *hal.Fault.
func CheckWorstCase(view *fbs.View) error {
	for i, us := range view.WorstCaseUs {
		limit := view.TimeLimitUs
		if us > limit {
			const text = " may take %d s %d us, %d s %d us are allowed; " +
				"--longest or lm_longest allows more"
			name := view.Name(view.Sequences[i].Name) // verified: no control characters
			return hal.NewFault(hal.BadImage, "sequence \""+name+"\""+
				fbs.Text(text, us/1e6, us%1e6, limit/1e6, limit%1e6))
		}
	}
	return nil
}

// checkIdentity compares the devices that the image is for with those given.
func checkIdentity(view *fbs.View, devices []hal.Device) error {
	if len(devices) != len(view.Devices) {
		return hal.NewFault(hal.Usage, fbs.Text("devices: the image is for %d, %d given",
			uint64(len(view.Devices)), uint64(len(devices))))
	}
	for i, device := range devices {
		identity := device.Identity()
		if j := indexOfFunction(devices[:i], identity.Address); j >= 0 {
			return hal.NewFault(hal.Usage,
				fbs.Text("devices %d and %d are the same, ", uint64(j), uint64(i))+
					identity.Address+"; name another device for each, by its address")
		}
		if reason := mismatch(view, i, identity); reason != "" {
			return hal.NewFault(hal.WrongDevice, "the image "+reason)
		}
	}
	return nil
}

// mismatch returns why a device is not device i of the image, "" if it is.
func mismatch(view *fbs.View, i int, got hal.Identity) string {
	want := &view.Devices[i]
	switch {
	case got.Vendor != want.Vendor || got.Device != want.Device:
		return "is for " + view.Board(i).Name + " (" +
			hal.FormatPCIID(want.Vendor, want.Device) + "), " + got.Name + " is " +
			hal.FormatPCIID(got.Vendor, got.Device)
	case want.Subsystem != 0 && got.Subsystem != want.Subsystem:
		return fbs.Text("is for subsystem %x, ", uint64(want.Subsystem)) + got.Name +
			fbs.Text(" has %x", uint64(got.Subsystem))
	}
	for bar, size := range want.BarSizes() {
		if got.Bars[bar] < size {
			return fbs.Text("needs %x bytes of BAR %d, ", size, uint64(bar)) + got.Name +
				fbs.Text(" has %x", got.Bars[bar])
		}
	}
	return ""
}

// indexOfFunction returns the index of the device that is the PCI function at an address, or -1 if
// no device is. Two handles of one function would each allocate its TLB windows and host memory
// as if the other did not exist.
func indexOfFunction(devices []hal.Device, address string) int {
	for i, device := range devices {
		if address != "" && device.Identity().Address == address {
			return i
		}
	}
	return -1
}

// reserveMemoryAndWindows reserves the arena, maps the windows, fills in the commands and, last,
// makes devices bus masters.
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

// mapWindows maps every window of the image. Unless slot is AnySlot, TLB windows get the numbers
// from slot on, or it fails.
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
			const text = "TLB window %d is not available: too small, in use, or the kernel " +
				"driver's; on a tt: device only the driver chooses TLB windows"
			return hal.NewFault(hal.NoDevice, fbs.Text(text, uint64(w.Slot)))
		}
		r.apertures[i], r.windows[i] = aperture, aperture.Base
	}
	return nil
}

// buildAddressTables sets the addresses of the bytes that commands name: of the payload, and of
// each tensor in the arena, or in the payload if it is an input with default data.
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

// pageSizeMax is the largest page size of the supported machines: 64 KiB pages of arm64.
const pageSizeMax = 64 << 10

// reserveArena maps the arena: the tensors, then, in pages of their own, the copy of the commands
// if they need to be filled in. It rejects an image that needs more memory than the machine has
// available: this fails early instead of waking the OOM killer.
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

	// Host memory may come from huge pages, which nothing else here can use.
	pages, huge := availableMemory(size + pageTables + host)
	fits := size+pageTables <= pages && size+pageTables+host <= pages+huge
	if fits && size > 0 {
		const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
		arena, err := hal.Mmap(-1, 0, int(size), protection, flags)
		r.arena, fits = arena, err == nil
	}
	if !fits {
		const text = "the image reserves %d bytes for tensors, %d for host memory and %d for " +
			"page tables of its windows, the machine has %d available"
		return hal.NewFault(hal.BadImage, fbs.Text(text, size, host, pageTables, pages+huge))
	}

	r.commands = r.view.Commands
	if r.view.NeedsFixup {
		r.commands = fbs.CommandsIn(r.arena[commandsAt:])
		copy(r.commands, r.view.Commands)
	}
	return nil
}

// fixUpCommands fills in, in the copy of the commands, what is known only after every window has
// been mapped, and makes the copy read-only.
func (r *Replay) fixUpCommands() (err error) {
	for i := 0; i < len(r.commands) && err == nil; i++ {
		switch c := &r.commands[i]; c.Opcode {
		case gen.OpcodeRelocate:
			err = r.relocate(i, c)
		case gen.OpcodePoint:
			err = r.encodePoint(i, c)
		}
	}
	copied := r.arena[len(r.arena)-len(r.commands)*fbs.CommandSize:]
	_ = unix.Mprotect(copied, unix.PROT_READ) // cannot fail: whole pages of our own mapping
	return err
}

// relocate turns a Relocate into a Write of the bus address. The device that the register belongs
// to is the one that will use the address.
func (r *Replay) relocate(index int, c *fbs.Command) error {
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
			fbs.Text("bus address %x does not fit the register", sum))
	}
	c.Opcode, c.Index, c.Value = gen.OpcodeWrite, 0, sum
	return nil
}

// encodePoint puts the register values of a TLB window into a Point, on devices whose registers
// set it. A walk then executes the Point by itself.
func (r *Replay) encodePoint(index int, c *fbs.Command) error {
	device := r.view.Windows[c.Window].Device
	tiles, _ := boards.UnpackTileRange(c.Mask)
	encoded := &r.scratch[0] // in r: EncodeWindow would move a local to the heap for each Point
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

// enableBusMastering makes the devices that the image names bus masters. It then registers with
// each driver what to reset when the device is closed or this process ends, whether or not Load
// succeeds after that.
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

// DeviceNames returns, for each device of an image, a name that opens it by its PCI ids:
// "pci:1e52:401e".
func DeviceNames(view *fbs.View) []string {
	names := make([]string, len(view.Devices))
	for i := range view.Devices {
		names[i] = "pci:" + hal.FormatPCIID(view.Devices[i].Vendor, view.Devices[i].Device)
	}
	return names
}

// StopDMA ends bus mastering of all devices. Closing them does so too, but a sealed process cannot
// close anything.
func (r *Replay) StopDMA() (err error) {
	for _, device := range r.devices {
		if e := device.SetBusMaster(false); err == nil {
			err = e
		}
	}
	return err
}

// Close ends bus mastering of all devices, then frees the arena. All devices stop before any of
// them is closed, because one may access host memory of another. Close leaves the file open.
func (r *Replay) Close() error {
	err := r.StopDMA()
	_ = hal.Munmap(r.arena) // cannot fail for anonymous memory
	r.arena, r.devices, r.busMaster, r.disabled = nil, nil, false, true
	return err
}

// commandFault returns an error at a command, by its index in the image.
func (r *Replay) commandFault(code hal.Code, index int, reason string) error {
	return hal.NewFault(code, string(AppendCommand(nil, r.view, index))+": "+reason)
}

// AppendCommand appends the name of a command, by its index in the image: "command 3 of main". The
// number counts from 0 within the sequence; marks do not count. It appends nothing for an index of
// -1.
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
