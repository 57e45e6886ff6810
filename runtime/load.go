package runtime

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// AnySlot leaves the choice of hardware windows to image and device.
const AnySlot = -1

// Load checks that a verified image is for these devices, one for each target
// in order, and takes everything a run needs: windows, and one arena of the
// size that the image reserves. Nothing has been stored to a device when it
// returns, but a device that the image has master the bus may do so. The error
// is a *hal.Fault.
//
// slot is the hardware window that the first TLB window must sit in, further
// ones in those after it, or AnySlot.
func Load(view *fbs.View, slot int, devices ...hal.Device) (*Replay, error) {
	shown := view
	if view = shown.Original(); view == nil {
		return nil, hal.NewFault(hal.Usage, "the view was not returned by Verify")
	}
	if err := checkIdentity(view, devices); err != nil {
		return nil, err
	}
	if err := CheckTime(view); err != nil {
		return nil, err
	}
	allowed := int64(min(view.TimeLimitUs, 1<<62/1000)) * 1000 // so that the end of a run is a time
	r := &Replay{view: view, shown: shown, devices: devices, allowed: allowed,
		safeSequence: view.SequenceByName("safe")}
	if err := r.reserveMemoryAndWindows(slot); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// CheckTime refuses an image with a sequence that may take longer than the view
// allows. The error is a *hal.Fault.
func CheckTime(view *fbs.View) error {
	for i, us := range view.WorstCaseUs {
		if us > view.TimeLimitUs {
			return hal.NewFault(hal.BadImage,
				"sequence "+fbs.Quote(view.Name(view.Sequences[i].Name))+fbs.Text(" may take "+
					"%d s %d us, %d s %d us are allowed; --longest or lm_longest allows more",
					us/1e6,
					us%1e6, view.TimeLimitUs/1e6, view.TimeLimitUs%1e6))
		}
	}
	return nil
}

// checkIdentity holds the image's targets against the devices.
func checkIdentity(view *fbs.View, devices []hal.Device) error {
	if len(devices) != len(view.Devices) {
		return hal.NewFault(hal.Usage, fbs.Text("devices: the image is for %d, %d given",
			uint64(len(view.Devices)), uint64(len(devices))))
	}
	for i, device := range devices {
		want, got, reason := &view.Devices[i], device.Identity(), ""
		if j := sameFunction(devices[:i], got.Address); j >= 0 {
			who := fbs.Text("targets %d and %d have the same device, ", uint64(j), uint64(i))
			return hal.NewFault(hal.Usage,
				who+got.Address+"; name another device for each, by its address")
		}
		switch {
		case got.Vendor != want.Vendor || got.Device != want.Device:
			reason = "is for " + view.Board(i).Name + " (" +
				hal.FormatPCIID(want.Vendor, want.Device) + "), " + got.Name + " is " +
				hal.FormatPCIID(got.Vendor, got.Device)
		case want.Subsystem != 0 && got.Subsystem != want.Subsystem:
			reason = fbs.Text("is for subsystem %x, ", uint64(want.Subsystem)) + got.Name +
				fbs.Text(" has %x", uint64(got.Subsystem))
		}
		for bar := range want.BarSizes() {
			if got.Bars[bar] < want.BarSizes()[bar] && reason == "" {
				reason = fbs.Text("needs %x bytes of BAR %d, ", want.BarSizes()[bar], uint64(bar)) +
					got.Name + fbs.Text(" has %x", got.Bars[bar])
			}
		}
		if reason != "" {
			return hal.NewFault(hal.WrongDevice, "the image "+reason)
		}
	}
	return nil
}

// sameFunction returns the index of the device that is the function at an
// address, -1 if none is. Two handles of one function would each allocate its
// hardware windows and host memory as if the other were not there.
func sameFunction(devices []hal.Device, address string) int {
	for i, device := range devices {
		if address != "" && device.Identity().Address == address {
			return i
		}
	}
	return -1
}

// reserve takes the arena and the windows, and completes the commands.
func (r *Replay) reserveMemoryAndWindows(slot int) error {
	if err := r.reserveArena(); err != nil {
		return err
	}
	count := len(r.view.Windows)
	r.apertures, r.windows, r.tlbWindows = make([]hal.Aperture, count),
		make([]uintptr, count+len(r.devices)), make([]uintptr, count)
	for i, w := range r.view.Windows {
		forced := slot != AnySlot && w.Kind == gen.WindowKindTlb
		if forced {
			w.Slot = uint16(slot)
			slot++
		}
		aperture, err := r.devices[w.Device].Map(w)
		if err != nil {
			return err
		}
		if forced && aperture.Slot != int(w.Slot) {
			return hal.NewFault(hal.NoDevice,
				fbs.Text("hardware window %d cannot be had: it is too small, in use, or the "+
					"kernel driver's; on a tt: device the driver chooses, which no option changes",
					uint64(w.Slot)))
		}
		r.apertures[i], r.windows[i] = aperture, aperture.Base
	}
	r.buildAddressTables()
	if r.view.NeedsFixup {
		if err := r.fixUpCommands(); err != nil {
			return err
		}
	}
	return r.enableBusMastering()
}

// remember sets where the bytes are that commands name: the payload's, and each
// tensor's own, in the arena or recorded.
func (r *Replay) buildAddressTables() {
	r.memories = make([]uintptr, 1+len(r.view.Tensors))
	r.memories[0] = hal.AddressOf(r.view.Payload)
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		switch {
		case t.Role == gen.RoleOutput:
			r.memories[1+i] = hal.AddressOf(r.Output(i))
		case t.HasData != 0:
			r.memories[1+i] = hal.AddressOf(r.view.TensorData(t))
		default:
			r.missingInputs++
		}
	}
	r.walk.Next, r.walk.Windows, r.walk.Memories, r.walk.TLBWindows = &r.commands[0], &r.windows[0],
		&r.memories[0], &r.tlbWindows[0]
}

// pageMax is the largest page that a machine here has, an arm64's.
const pageSizeMax = 64 << 10

// reserveArena takes the arena, with room for commands that are to be completed
// in pages behind the tensors, and refuses what the machine has not the memory
// for: what is asked of it lastly would end the process, or another one.
func (r *Replay) reserveArena() error {
	size, tables, host := r.view.Reservation.ArenaBytes, uint64(0), r.view.Reservation.HostBytes
	behind := (size + pageSizeMax - 1) &^ (pageSizeMax - 1)
	if r.view.NeedsFixup {
		size = behind + uint64(len(r.view.Commands))*fbs.CommandSize
	}
	for i := range r.view.Windows {
		tables += r.view.Windows[i].Size / 512 // an entry of 8 bytes for each page of 4 KiB
	}
	pages, huge := availableMemory(size + tables + host)
	fits := size+tables <= pages && size+tables+host <= pages+huge
	if fits && size > 0 {
		const protection, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
		arena, err := hal.Mmap(-1, 0, int(size), protection, flags)
		r.arena, fits = arena, err == nil
	}
	if !fits {
		return hal.NewFault(hal.BadImage,
			fbs.Text("the image reserves %d bytes for tensors, %d for host memory and %d for "+
				"page tables of its windows, the machine has %d available", size, host, tables,
				pages+huge))
	}
	r.commands = r.view.Commands
	if r.view.NeedsFixup {
		r.commands = fbs.CommandsIn(r.arena[behind:])
		copy(r.commands, r.view.Commands)
	}
	return nil
}

// complete puts into a copy of the commands what is known only now that every
// window is mapped, has every device reach what the image tells it the bus
// address of, and refuses what a device cannot be told.
func (r *Replay) fixUpCommands() (err error) {
	for i := 0; i < len(r.commands) && err == nil; i++ {
		switch c := &r.commands[i]; c.Opcode {
		case gen.OpcodeRelocate:
			err = r.relocate(i, c)
		case gen.OpcodePoint:
			err = r.encodePoint(i, c)
		}
	}
	// cannot fail: the pages are our own
	_ = unix.Mprotect(r.arena[len(r.arena)-len(r.commands)*fbs.CommandSize:], unix.PROT_READ)
	return err
}

// engage lets devices master the bus. Lastly it has drivers put cores back into
// reset when the device is closed or this process ends, whatever became of Load.
func (r *Replay) enableBusMastering() (err error) {
	for i, device := range r.devices {
		if r.view.BusMasters>>i&1 != 0 && err == nil {
			r.busMaster, err = true, device.SetBusMaster(true)
		}
	}
	for i, device := range r.devices {
		if cleaner, ok := device.(hal.ExitCleaner); ok && r.view.NeedsFixup && err == nil {
			note := ""
			note, err = cleaner.RegisterExitCleanup(r.view, i)
			r.Notice += note
		}
	}
	return err
}

// reach makes an Address a Write. The device that it is written to is the one
// that uses it.
func (r *Replay) relocate(index int, c *fbs.Command) error {
	a := &r.apertures[c.Index]
	if err := r.deviceOf(c).AssignBusAddress(a,
		r.devices[r.view.Windows[c.Index].Device]); err != nil {
		return err
	}
	if a.Bus == 0 {
		return hal.NewFault(hal.NoDevice,
			commandPlace(index)+fbs.Text("window %d has no bus address on this device",
				uint64(c.Index)))
	}
	sum := a.Bus + c.Value
	if sum < a.Bus || sum&^fbs.WidthMask(c.Width) != 0 {
		return hal.NewFault(hal.WrongDevice,
			commandPlace(index)+fbs.Text("bus address %x does not fit the register", sum))
	}
	c.Opcode, c.Index, c.Value = gen.OpcodeWrite, 0, sum
	return nil
}

// aim puts into a Point what the device's registers are to hold, where those aim
// its windows.
func (r *Replay) encodePoint(index int, c *fbs.Command) error {
	device := r.view.Windows[c.Window].Device
	target, _ := boards.UnpackTileRange(c.Mask)
	r.scratch[0] = *c // what Aim is given lies on the heap: not one for each Point
	registers, home, code := r.devices[device].EncodeWindow(&r.apertures[c.Window], target, c.Value,
		&r.scratch[0])
	if code != hal.OK {
		return hal.NewFault(code, commandPlace(index)+"the device cannot aim a window so")
	}
	if registers != 0 {
		*c = r.scratch[0]
		c.Index = uint16(len(r.view.Windows) + int(device))
		r.windows[c.Index], r.tlbWindows[c.Window] = registers, home
	}
	return nil
}

// DeviceNames gives the name of a device for each target of an image, by its
// PCI ids: "pci:1e52:401e".
func DeviceNames(view *fbs.View) []string {
	names := make([]string, len(view.Devices))
	for i := range view.Devices {
		names[i] = "pci:" + hal.FormatPCIID(view.Devices[i].Vendor, view.Devices[i].Device)
	}
	return names
}

// Rest stops devices from mastering the bus. Closing them does so too; a sealed
// process cannot close anything.
func (r *Replay) StopDMA() (err error) {
	for _, device := range r.devices {
		if e := device.SetBusMaster(false); err == nil {
			err = e
		}
	}
	return err
}

// Close brings the devices to rest, all before any of them is closed, as one may
// reach another's host memory, and gives the arena back. It leaves the file alone.
func (r *Replay) Close() error {
	err := r.StopDMA()
	_ = hal.Munmap(r.arena) // of anonymous memory cannot fail
	r.arena, r.devices, r.busMaster, r.disabled = nil, nil, false, true
	return err
}

func commandPlace(index int) string { return fbs.Text("command %d: ", uint64(index)) }
