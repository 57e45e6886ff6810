package runtime

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// AnyTLBWindow, as Load's firstTLBWindow, lets the image and the device choose the TLB windows.
const AnyTLBWindow = -1

// Load checks that a verified image is for the given devices, in their order, and reserves
// everything that runs need: the windows, and one arena for all tensors. It executes no command and
// enables no bus mastering. The error is a *hal.Fault.
//
// Runs use the memory of the view, which File.Verify makes read-only; bytes that were passed to
// fbs.Verify must not change until Close. Windows of kind Tlb use the device's TLB windows with the
// numbers from firstTLBWindow on, unless it is AnyTLBWindow.
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
		rings:            make([]ringPosition, len(view.Rings)), moved: newMovedCommand(),
	}
	if err := r.prepareForRuns(firstTLBWindow); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

const timeLimitMaxUs = 1 << 62 / 1000 // the present time plus this limit, in ns, fits in an int64

// CheckWorstCaseTimes returns an error if a sequence may take longer than view.TimeLimitUs. The
// error is a *hal.Fault, and ends with `remedy`, such as "; -longest raises the limit".
func CheckWorstCaseTimes(view *fbs.View, remedy string) error {
	for i, us := range view.WorstCaseUs {
		limit := view.TimeLimitUs
		if us > limit {
			const text = " may take %d s %d us, but the limit is %d s %d us"
			name := view.Name(view.Sequences[i].Name) // without control characters
			return hal.NewFault(hal.BadImage, "sequence \""+name+"\""+
				fbs.Text(text, us/1e6, us%1e6, limit/1e6, limit%1e6)+remedy)
		}
	}
	return nil
}

func checkDevices(view *fbs.View, devices []hal.Device) error {
	if len(devices) != len(view.Devices) {
		return hal.NewFault(hal.Usage, fbs.Text("the image is for %d device(s), "+
			"but %d were named; name one for each", uint64(len(view.Devices)),
			uint64(len(devices))))
	}
	for i, device := range devices {
		if reason := explainMismatch(view, i, device.Identity()); reason != "" {
			return hal.NewFault(hal.WrongDevice, "it "+reason)
		}
	}
	return nil
}

func formatSubsystem(id uint32) string { return hal.FormatPCIID(uint16(id), uint16(id>>16)) }

// explainMismatch returns "" if the image fits the device `got`, else for example "is for subsystem
// 1af4:1100, but pci:... has 1af4:1101".
func explainMismatch(view *fbs.View, device int, got hal.Identity) (reason string) {
	want := &view.Devices[device]
	switch {
	case got.Vendor != want.Vendor || got.Device != want.Device:
		return "is for " + view.Board(device).Name + " (" +
			hal.FormatPCIID(want.Vendor, want.Device) + "), but " + got.Name + " is " +
			hal.FormatPCIID(got.Vendor, got.Device)
	case want.Subsystem != 0 && got.Subsystem != want.Subsystem:
		return "is for subsystem " + formatSubsystem(want.Subsystem) + ", but " + got.Name +
			" has " + formatSubsystem(got.Subsystem)
	}
	for bar, size := range want.MinBarSizes() {
		// The size of a BAR without an address is unknown; Map explains the remedy.
		if got.BarSizes[bar] < size && got.Unassigned>>bar&1 == 0 {
			return fbs.Text("needs %x bytes of BAR %d, but ", size, uint64(bar)) + got.Name +
				fbs.Text(" has %x", got.BarSizes[bar])
		}
	}
	return ""
}

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
	r.interruptWaiters = make([]hal.InterruptWaiter, len(r.devices))
	for i, device := range r.devices {
		d := &r.view.Devices[i]
		if d.Vectors == 0 {
			continue
		}
		if err := device.EnableVectors(d.Interrupts, d.Vectors); err != nil {
			return err
		}
		r.interruptWaiters[i], _ = device.(hal.InterruptWaiter)
	}
	return r.requestExitCleanup()
}

// mapWindows maps windows with fixed bus addresses first, so that no other gets these addresses.
func (r *Replay) mapWindows(firstTLBWindow int) error {
	count := len(r.view.Windows)
	r.apertures = make([]hal.Aperture, count)
	r.tlbWindowBases = make([]uintptr, count)
	r.windowAddresses = make([]uintptr, count+len(r.devices))
	for _, isFixed := range [...]bool{true, false} {
		for i, w := range r.view.Windows {
			if (fbs.FixedBusAddress(&w) != 0) != isFixed {
				continue
			}
			isForced := firstTLBWindow != AnyTLBWindow && w.Kind == gen.WindowKindTlb
			if isForced {
				w.Slot = uint16(firstTLBWindow)
				firstTLBWindow++
			}
			if err := r.mapWindow(i, w, isForced); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Replay) mapWindow(index int, w fbs.Window, isForced bool) error {
	aperture, err := r.devices[w.Device].Map(w)
	r.apertures[index], r.windowAddresses[index] = aperture, aperture.Base
	if err == nil && isForced && aperture.TLBWindow != int(w.Slot) {
		const text = "TLB window %d is too small, in use, or reserved " +
			"by the kernel driver; choose another number, or none for a `tt:` device"
		return hal.NewFault(hal.NoDevice, fbs.Text(text, uint64(w.Slot)))
	}
	return err
}

func (r *Replay) buildAddressTables() {
	arena, payload := hal.AddressOf(r.arena), hal.AddressOf(r.view.Payload)
	r.bufferAddresses = make([]uintptr, 1+len(r.view.Tensors))
	r.bufferAddresses[0] = payload
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		switch {
		case t.Role != gen.RoleInput:
			r.bufferAddresses[1+i] = arena + uintptr(t.ArenaOffset)
		case t.HasData != 0:
			r.bufferAddresses[1+i] = payload + uintptr(t.DataOffset)
		default: // address 0 until Input is called
			r.missingInputs++
		}
	}
	r.walk.Next = &r.commands[0]
	r.walk.WindowAddresses = &r.windowAddresses[0]
	r.walk.BufferAddresses = &r.bufferAddresses[0]
	r.walk.TLBWindowBases = &r.tlbWindowBases[0]
}

const pageSizeMax = 64 << 10 // of some arm64 kernels

// LockedBytes returns the RLIMIT_MEMLOCK that Load and Freeze need at most, with pages of this
// size. VFIO pins host memory, which the kernel then counts twice, unless it is in huge pages.
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

// arenaLayout returns the size of the arena, and where the copy of the commands is: in pages of its
// own, which become read-only.
func arenaLayout(view *fbs.View) (size, commandsAt uint64) {
	size = view.Reservation.ArenaBytes
	commandsAt = fbs.RoundUp(size, pageSizeMax)
	if view.NeedsFixup {
		size = commandsAt + uint64(len(view.Commands))*fbs.CommandSize
	}
	return size, commandsAt
}

// reserveArena rejects images for which the memory is too small: the kernel's OOM killer might
// later kill a process.
func (r *Replay) reserveArena() error {
	host := r.view.Reservation.HostBytes
	size, commandsAt := arenaLayout(r.view)
	pageTables := uint64(0)
	for i := range r.view.Windows {
		pageTables += r.view.Windows[i].Size / 512 // 8 bytes of page table per page of 4 KiB
	}

	// Only host memory may be in huge pages.
	available, inHugePages := availableMemoryFor(size + pageTables + host)
	fits := size+pageTables <= available && size+pageTables+host <= available+inHugePages
	if fits && size > 0 {
		const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
		arena, err := hal.Mmap(-1, 0, int(size), protection, flags)
		r.arena, fits = arena, err == nil
	}
	if !fits {
		const text = "the image needs %d bytes for tensors, %d for host memory and %d for " +
			"page tables, but only %d bytes are available; " +
			"stop other programs, or use a smaller image"
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

// patchAddresses completes the Relocate and Point commands in the copy of the commands, after
// mapWindows.
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

// resolveRelocate turns c into a Write of a bus address, which the register's device must reach.
// The window may be of another device.
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
			fbs.Text("window %d has no bus address on this device; use a host window, or `vfio:`",
				uint64(c.Index)))
	}
	sum := a.BusAddress + c.Value
	if index > 0 && r.commands[index-1].Opcode == gen.OpcodeWith {
		sum = a.BusAddress + r.view.Windows[c.Index].Size // the largest that a ring can add
	}
	if sum < a.BusAddress || sum&^fbs.WidthMask(c.Width) != 0 {
		return r.commandFault(hal.WrongDevice, index,
			fbs.Text("bus address %x does not fit the register of %d bytes; "+
				"use `vfio:`, which has lower addresses", sum, uint64(c.Width)))
	}
	c.Opcode, c.Index, c.Value = gen.OpcodeWrite, 0, a.BusAddress+c.Value
	return nil
}

// encodePoint changes the Point c, number `index` of the image, into what the walk stores to the
// registers of the TLB window. If only the kernel driver programs these, it leaves c as it is, and
// programTLBWindow calls the driver during a run.
func (r *Replay) encodePoint(index int, c *fbs.Command) error {
	device := r.view.Windows[c.Window].Device
	tiles, _ := boards.UnpackTileRoute(c.Mask)
	// A local variable would be allocated for each Point.
	encoded := &r.scratchCommands[0]
	*encoded = *c
	registers, tlbWindow, code := r.devices[device].EncodePoint(&r.apertures[c.Window], tiles,
		c.Value, encoded)
	if code != hal.OK {
		at := fbs.Text("tile %d,%d", uint64(tiles.X), uint64(tiles.Y))
		if tiles.Multicast {
			at = fbs.Text("tiles %d,%d to ", uint64(tiles.XStart), uint64(tiles.YStart)) + at
		}
		return r.commandFault(code, index, "the device's TLB windows cannot point to "+at+
			fbs.Text(" at address %x; change the point command", c.Value))
	}
	if registers != 0 {
		*c = *encoded
		c.Index = uint16(len(r.view.Windows) + int(device))
		r.windowAddresses[c.Index], r.tlbWindowBases[c.Window] = registers, tlbWindow
	}
	return nil
}

// requestExitCleanup (see hal.ExitCleaner) is the last step of Load: after a Load that failed, no
// driver may reset cores.
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

// StartDMA enables bus mastering of the devices in view.BusMasters, which can then access memory.
// On a device with tiles and Host windows, it also stores to the registers of outbound translation.
//
// The first Run calls StartDMA, after Freeze and Seal. To get the text of its error, a *hal.Fault,
// call it before. After an error, DMA is stopped and all runs fail.
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

// DeviceNames returns the names for hal.Open of an image's devices, in the order of the image, such
// as "pci:1e52:401e" (see hal.DefaultName).
func DeviceNames(view *fbs.View) []string {
	names := make([]string, len(view.Devices))
	for i := range view.Devices {
		names[i] = hal.DefaultName(view.Devices[i].Vendor, view.Devices[i].Device, i)
	}
	return names
}

// StopDMA disables bus mastering of all devices, and returns the first error. A sealed process
// calls it instead of Close, which unmaps memory: the kernel would kill the process.
func (r *Replay) StopDMA() (err error) {
	for _, device := range r.devices {
		if e := device.SetBusMaster(false); err == nil {
			err = e
		}
	}
	return err
}

// Close stops DMA, then frees the arena. The caller closes the devices, but only after Close: a bus
// master could access host memory that another device has freed.
func (r *Replay) Close() error {
	err := r.StopDMA()
	_ = hal.Munmap(r.arena) // cannot fail for anonymous memory
	r.arena, r.devices, r.hasStartedDMA, r.disabled = nil, nil, false, true
	return err
}

func (r *Replay) commandFault(code hal.Code, index int, reason string) error {
	return hal.NewFault(code, string(AppendCommandPosition(nil, r.view, index))+": "+reason)
}
