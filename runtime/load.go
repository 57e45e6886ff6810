package runtime

// This file loads an image: it checks the devices, reserves memory, maps the windows, and completes
// the commands that depend on the addresses of the windows. It also stops the DMA of the devices
// and frees the memory when the image is closed.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// AnyTLBWindow is a value for the parameter firstTLBWindow of Load. With this value, the image and
// the device choose the TLB windows.
const AnyTLBWindow = -1

// Load prepares a verified image for runs on the given devices. The devices must have the same
// order as in the image. Load checks that the image is for these devices. Then it reserves
// everything that runs need: it maps all windows of the image, and reserves the arena, which is
// one block of memory for all tensors. The error is a *hal.Fault.
//
// Load executes no command and enables no bus mastering; see StartDMA.
//
// Runs use the memory of the view. The memory of a view that File.Verify returned is read-only. The
// bytes that the caller passed to fbs.Verify must not change as long as the Replay is in use.
//
// The parameter firstTLBWindow selects the TLB windows of the device. A TLB window is a range of a
// BAR that the device maps to a programmable address. The TLB windows of a device have numbers.
// Each window of kind Tlb in the image needs a TLB window: the first window of this kind uses the
// TLB window with the number firstTLBWindow, the second one uses the next number, and so on. If
// firstTLBWindow is AnyTLBWindow, the image and the device choose the TLB windows.
func Load(view *fbs.View, firstTLBWindow int, devices ...hal.Device) (*Replay, error) {
	if view = view.VerifiedCopy(); view == nil {
		return nil, hal.NewFault(hal.Usage, "Load accepts only a view that Verify returned")
	}
	if err := checkDevices(view, devices); err != nil {
		return nil, err
	}
	if err := CheckWorstCaseTimes(view, ""); err != nil {
		return nil, err
	}
	r := &Replay{
		view: view, devices: devices,
		imageTimeLimitNs: int64(min(view.TimeLimitUs, timeLimitMaxUs)) * 1000,
		safeSequence:     view.SequenceByName("safe"),
	}
	if err := r.prepareForRuns(firstTLBWindow); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// timeLimitMaxUs is the largest limit for the time of a run, in microseconds. Load reduces a larger
// limit to timeLimitMaxUs, so that the present time plus the limit, both in nanoseconds, fits in an
// int64.
const timeLimitMaxUs = 1 << 62 / 1000

// CheckWorstCaseTimes returns an error if a sequence of the image may take longer than
// view.TimeLimitUs in the worst case, which Verify has computed. The error is a *hal.Fault, and
// ends with remedy, such as "; -longest raises the limit".
func CheckWorstCaseTimes(view *fbs.View, remedy string) error {
	for i, us := range view.WorstCaseUs {
		limit := view.TimeLimitUs
		if us > limit {
			const text = " may take %d s %d us, but the limit is %d s %d us"
			// The name can be printed, because Verify rejects names with control characters.
			name := view.Name(view.Sequences[i].Name)
			return hal.NewFault(hal.BadImage, "sequence \""+name+"\""+
				fbs.Text(text, us/1e6, us%1e6, limit/1e6, limit%1e6)+remedy)
		}
	}
	return nil
}

// checkDevices returns an error if the image is not for the given devices. It compares the number
// of devices, their PCI ids and their BAR sizes.
func checkDevices(view *fbs.View, devices []hal.Device) error {
	if len(devices) != len(view.Devices) {
		return hal.NewFault(hal.Usage, fbs.Text("the image is for %d device(s), but %d were named",
			uint64(len(view.Devices)), uint64(len(devices))))
	}
	for i, device := range devices {
		if reason := explainMismatch(view, i, device.Identity()); reason != "" {
			return hal.NewFault(hal.WrongDevice, "it "+reason)
		}
	}
	return nil
}

// explainMismatch compares an opened device with the requirements for device i in the image. The
// parameter `got` describes the opened device. If the device meets all requirements,
// explainMismatch returns "". Otherwise it returns a text about the first difference, for example
// "is for subsystem 0x1, but pci:... has 0x2". The caller puts "it" (the image) before the text.
func explainMismatch(view *fbs.View, device int, got hal.Identity) (reason string) {
	want := &view.Devices[device]
	switch {
	case got.Vendor != want.Vendor || got.Device != want.Device:
		return "is for " + view.Board(device).Name + " (" +
			hal.FormatPCIID(want.Vendor, want.Device) + "), but " + got.Name + " is " +
			hal.FormatPCIID(got.Vendor, got.Device)
	case want.Subsystem != 0 && got.Subsystem != want.Subsystem:
		return fbs.Text("is for subsystem %x, but ", uint64(want.Subsystem)) + got.Name +
			fbs.Text(" has %x", uint64(got.Subsystem))
	}
	for bar, size := range want.MinBarSizes() {
		// Without an address, the size is unknown, and Map explains how to get one.
		if got.BarSizes[bar] < size && got.Unassigned>>bar&1 == 0 {
			return fbs.Text("needs %x bytes of BAR %d, but ", size, uint64(bar)) + got.Name +
				fbs.Text(" has %x", got.BarSizes[bar])
		}
	}
	return ""
}

// prepareForRuns does everything of Load that needs the devices.
func (r *Replay) prepareForRuns(firstTLBWindow int) error {
	if err := r.reserveArena(); err != nil {
		return err
	}
	if err := r.mapWindows(firstTLBWindow); err != nil {
		return err
	}
	r.buildAddressTables()
	if r.view.NeedsFixup {
		if err := r.patchAddresses(); err != nil {
			return err
		}
	}
	return r.requestExitCleanup()
}

// mapWindows maps every window of the image. If the parameter firstTLBWindow is not AnyTLBWindow,
// the first window of kind Tlb uses the device's TLB window with the number firstTLBWindow, the
// second one uses the next number, and so on. If one of these TLB windows is not available,
// mapWindows returns an error.
func (r *Replay) mapWindows(firstTLBWindow int) error {
	count := len(r.view.Windows)
	r.apertures = make([]hal.Aperture, count)
	r.tlbWindowBases = make([]uintptr, count)
	r.windowAddresses = make([]uintptr, count+len(r.devices))
	// Map the windows with fixed bus addresses first, so that no other window gets these addresses.
	for i, w := range r.view.Windows {
		if fbs.FixedBusAddress(&w) == 0 {
			continue
		}
		if err := r.mapWindow(i, w); err != nil {
			return err
		}
	}
	nextTLBWindow := firstTLBWindow
	for i, w := range r.view.Windows {
		if fbs.FixedBusAddress(&w) != 0 {
			continue
		}
		isForced := nextTLBWindow != AnyTLBWindow && w.Kind == gen.WindowKindTlb
		if isForced {
			w.Slot = uint16(nextTLBWindow)
			nextTLBWindow++
		}
		if err := r.mapWindow(i, w); err != nil {
			return err
		}
		if isForced && r.apertures[i].TLBWindow != int(w.Slot) {
			const text = "TLB window %d is too small, in use, or reserved " +
				"by the kernel driver; choose another number, or none for a `tt:` device"
			return hal.NewFault(hal.NoDevice, fbs.Text(text, uint64(w.Slot)))
		}
	}
	return nil
}

// mapWindow maps the window w, whose index in the image is `index`.
func (r *Replay) mapWindow(index int, w fbs.Window) error {
	aperture, err := r.devices[w.Device].Map(w)
	r.apertures[index], r.windowAddresses[index] = aperture, aperture.Base
	return err
}

// buildAddressTables sets r.bufferAddresses, the table of the addresses of the payload
// and of all tensors. The address of an output is in the arena. The address of an input with
// default data is in the payload. An input without default data has the address 0 until the caller
// calls Input; r.missingInputs is the number of such inputs. Last, buildAddressTables sets the
// pointers to the address tables in r.walk, which executes the commands.
func (r *Replay) buildAddressTables() {
	arena, payload := hal.AddressOf(r.arena), hal.AddressOf(r.view.Payload)
	r.bufferAddresses = make([]uintptr, 1+len(r.view.Tensors))
	r.bufferAddresses[0] = payload
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		switch {
		case t.Role == gen.RoleOutput:
			r.bufferAddresses[1+i] = arena + uintptr(t.ArenaOffset)
		case t.HasData != 0:
			r.bufferAddresses[1+i] = payload + uintptr(t.DataOffset)
		default:
			r.missingInputs++
		}
	}
	r.walk.Next = &r.commands[0]
	r.walk.WindowAddresses = &r.windowAddresses[0]
	r.walk.BufferAddresses = &r.bufferAddresses[0]
	r.walk.TLBWindowBases = &r.tlbWindowBases[0]
}

// pageSizeMax is the largest page size of the supported machines, in bytes. Some arm64 kernels have
// this page size.
const pageSizeMax = 64 << 10

// LockedBytes returns the limit of locked memory (RLIMIT_MEMLOCK) that Load and Freeze need for the
// image, on a kernel with pages of this size. They lock commands, arena and host memory. VFIO pins
// host memory too, and the kernel counts it twice then, unless it is in huge pages.
func LockedBytes(view *fbs.View, pageSize uint64, isVFIO bool) uint64 {
	arena, _ := arenaLayout(view)
	total := fbs.RoundUp(uint64(len(view.Envelope)), pageSize) + fbs.RoundUp(arena, pageSize)
	for i := range view.Windows {
		w := &view.Windows[i]
		if w.Kind == gen.WindowKindHost {
			size := fbs.RoundUp(w.Size, pageSize)
			total += size
			if isVFIO {
				total += size
			}
		}
	}
	return total
}

// arenaLayout returns the size of the arena, and the offset of the copy of the commands in it.
func arenaLayout(view *fbs.View) (size, commandsAt uint64) {
	size = view.Reservation.ArenaBytes
	commandsAt = fbs.RoundUp(size, pageSizeMax)
	if view.NeedsFixup {
		size = commandsAt + uint64(len(view.Commands))*fbs.CommandSize
	}
	return size, commandsAt
}

// reserveArena allocates the arena, which contains the tensors. If the image has commands that
// depend on the addresses of windows, reserveArena also copies all commands to the end of the
// arena. The copy has pages of its own, because patchAddresses makes these pages read-only.
//
// reserveArena returns an error if the image needs more memory than is available. Without this
// check, the kernel's OOM killer could kill a process later.
func (r *Replay) reserveArena() error {
	host := r.view.Reservation.HostBytes
	size, commandsAt := arenaLayout(r.view)
	pageTables := uint64(0)
	for i := range r.view.Windows {
		pageTables += r.view.Windows[i].Size / 512 // 8 bytes of page table per page of 4 KiB
	}

	// Check two sums. The arena and the page tables must fit into normal memory. The arena, the
	// page tables and the host memory must fit into normal memory plus free huge pages, because
	// host memory can use huge pages.
	available, inHugePages := availableMemoryFor(size + pageTables + host)
	fits := size+pageTables <= available && size+pageTables+host <= available+inHugePages
	if fits && size > 0 {
		const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
		arena, err := hal.Mmap(-1, 0, int(size), protection, flags)
		r.arena, fits = arena, err == nil
	}
	if !fits {
		const text = "the image needs %d bytes for tensors, %d for host memory and %d for " +
			"page tables, but only %d bytes are available"
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

// patchAddresses completes the Relocate and Point commands in the copy of the commands: it writes
// the values that depend on the addresses of windows. Then it makes the copy read-only. mapWindows
// must have mapped the windows before.
func (r *Replay) patchAddresses() (err error) {
	for i := 0; i < len(r.commands) && err == nil; i++ {
		switch c := &r.commands[i]; c.Opcode {
		case gen.OpcodeRelocate:
			err = r.resolveRelocate(i, c)
		case gen.OpcodePoint:
			err = r.encodePoint(i, c)
		}
	}
	copied := r.arena[len(r.arena)-len(r.commands)*fbs.CommandSize:]
	_ = unix.Mprotect(copied, unix.PROT_READ) // cannot fail: this process has mapped the pages
	return err
}

// resolveRelocate replaces the Relocate c by a Write to the same register. The Write stores the sum
// of c.Value and the bus address of the window with the index c.Index. The parameter `index` is the
// index of c in the image.
//
// The register and the window may belong to two devices. The device of the register will use the
// bus address for DMA. Therefore this device must reach the window at the bus address.
func (r *Replay) resolveRelocate(index int, c *fbs.Command) error {
	a := &r.apertures[c.Index]
	owner := r.view.Windows[c.Index].Device
	err := r.deviceOf(c).AssignBusAddress(a, r.devices[owner])
	if a.DMAPage > fbs.DMAPageSize {
		problem := r.view.CheckDMAPages(c.Index, r.view.Board(int(owner)), a.DMAPage)
		if problem != "" {
			return r.commandFault(hal.WrongDevice, index,
				problem+", or use a kernel with smaller pages")
		}
	}
	if err != nil {
		return err
	}
	if a.BusAddress == 0 {
		return r.commandFault(hal.NoDevice, index,
			fbs.Text("window %d has no bus address on this device", uint64(c.Index)))
	}
	sum := a.BusAddress + c.Value
	if sum < a.BusAddress || sum&^fbs.WidthMask(c.Width) != 0 {
		return r.commandFault(hal.WrongDevice, index,
			fbs.Text("bus address %x does not fit the register of %d bytes", sum, uint64(c.Width)))
	}
	c.Opcode, c.Index, c.Value = gen.OpcodeWrite, 0, sum
	return nil
}

// encodePoint prepares the Point c, which programs a TLB window. The parameter `index` is the index
// of c in the image. On some devices, stores to registers program a TLB window. For such a device,
// encodePoint puts the contents of the registers into c, so that the walk (hal.Walk) can store them
// during a run. On other devices, only the kernel driver can program a TLB window. For such a
// device, encodePoint does not change c, and programTLBWindow calls the driver during a run.
func (r *Replay) encodePoint(index int, c *fbs.Command) error {
	device := r.view.Windows[c.Window].Device
	tiles, _ := boards.UnpackTileRoute(c.Mask)
	// Use r.scratchCommands, because Go would allocate a local variable on the heap for each Point.
	encoded := &r.scratchCommands[0]
	*encoded = *c
	registers, tlbWindow, code := r.devices[device].EncodePoint(&r.apertures[c.Window], tiles,
		c.Value, encoded)
	if code != hal.OK {
		return r.commandFault(code, index,
			fbs.Text("the device's TLB windows cannot point to these tiles at address %x", c.Value))
	}
	if registers != 0 {
		*c = *encoded
		c.Index = uint16(len(r.view.Windows) + int(device))
		r.windowAddresses[c.Index], r.tlbWindowBases[c.Window] = registers, tlbWindow
	}
	return nil
}

// requestExitCleanup makes kernel drivers put the cores of their devices back into reset when this
// process closes a device or ends (hal.ExitCleaner). It is the last step of Load, so that no driver
// resets cores after a Load that has failed.
func (r *Replay) requestExitCleanup() (err error) {
	for i, device := range r.devices {
		if cleaner, ok := device.(hal.ExitCleaner); ok && r.view.NeedsFixup && err == nil {
			warning := ""
			warning, err = cleaner.RegisterExitCleanup(r.view, i)
			r.Warnings += warning
		}
	}
	return err
}

// StartDMA enables bus mastering of the devices in view.BusMasters. From then on, these devices can
// access memory. On a device with tiles and Host windows, it also stores to the registers of
// outbound translation.
//
// The first Run calls StartDMA, so that bus mastering comes after Freeze and Seal. To get the text
// of its error, a *hal.Fault, call it before. After an error, DMA is stopped and all runs fail.
// StartDMA has no effect if it was called before, or after a failure. After Freeze, it allocates
// nothing.
func (r *Replay) StartDMA() error {
	if r.hasStartedDMA || r.disabled {
		return nil
	}
	r.hasStartedDMA = true
	for i, device := range r.devices {
		if r.view.BusMasters>>i&1 == 0 {
			continue
		}
		if err := device.SetBusMaster(true); err != nil {
			r.disabled = true
			_ = r.StopDMA()
			return err
		}
	}
	return nil
}

// DeviceNames returns the name for hal.Open of each device that an image needs, in the order of the
// image (see hal.DefaultName), for example "pci:1e52:401e".
func DeviceNames(view *fbs.View) []string {
	names := make([]string, len(view.Devices))
	for i := range view.Devices {
		names[i] = hal.DefaultName(view.Devices[i].Vendor, view.Devices[i].Device, i)
	}
	return names
}

// StopDMA disables bus mastering of all devices, so that they no longer access memory. It returns
// the first error. Close calls StopDMA. A process that has called Seal must call StopDMA instead of
// Close: Close unmaps memory, and the kernel kills a sealed process that unmaps memory.
func (r *Replay) StopDMA() (err error) {
	for _, device := range r.devices {
		if e := device.SetBusMaster(false); err == nil {
			err = e
		}
	}
	return err
}

// Close disables bus mastering of all devices, then frees the arena. It does not close the devices
// or the file. The caller must close the devices only after Close has returned. Otherwise a device
// that is still a bus master could access host memory that was freed when another device was
// closed.
func (r *Replay) Close() error {
	err := r.StopDMA()
	_ = hal.Munmap(r.arena) // cannot fail for anonymous memory
	r.arena, r.devices, r.hasStartedDMA, r.disabled = nil, nil, false, true
	return err
}

// commandFault returns a *hal.Fault about one command. The reason in the Fault begins with the
// command, for example "main, command 3: ". The parameter `index` is the index of the command in
// the image.
func (r *Replay) commandFault(code hal.Code, index int, reason string) error {
	return hal.NewFault(code, string(AppendCommandPosition(nil, r.view, index))+": "+reason)
}

// AppendCommandPosition appends the position of a command to `text`: the name of its sequence, and
// its number in the sequence, counted from 0. An example is "main, command 3". The parameter
// `index` is the index of the command in the image; if it is -1, AppendCommandPosition appends
// nothing.
func AppendCommandPosition(text []byte, view *fbs.View, index int) []byte {
	for i := range view.Sequences {
		s := &view.Sequences[i]
		if number := uint64(index) - uint64(s.First); number < uint64(s.Count) {
			text = append(text, view.NameBytes(s.Name)...)
			return fbs.AppendText(text, ", command %d", number)
		}
	}
	return text
}
