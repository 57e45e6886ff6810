package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/hosts"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// requirements describes what an image needs of a machine. The zero value needs nothing.
type requirements struct {
	view               *fbs.View // nil: no image
	hostBytes          uint64    // bytes of all Host windows
	driverBusAddresses bool      // kernel drivers provide the bus addresses of host memory
	writeCombining     bool      // a window requests write-combining
	wideAccesses       bool      // a command makes accesses of 8 bytes, or lets the runtime choose
}

func imageRequirements(view *fbs.View) *requirements {
	n := &requirements{view: view}
	if view == nil {
		return n
	}
	n.hostBytes = view.Reservation.HostBytes
	for i := range view.Windows {
		w := &view.Windows[i]
		n.writeCombining = n.writeCombining || w.Flags&fbs.FlagWriteCombining != 0
	}
	for i := range view.Commands {
		n.wideAccesses = n.wideAccesses || isWide(view, &view.Commands[i])
	}
	return n
}

// isWide reports whether a command makes accesses of 8 bytes to a device. With the access mode
// Bulk, the runtime makes the widest accesses that are possible.
func isWide(view *fbs.View, c *fbs.Command) bool {
	kind, e := view.Windows[c.Window].Kind, lmb.EffectOf(c)
	return e.Size > 0 && (c.Width == 8 || e.Bulk) &&
		(kind == gen.WindowKindBar || kind == gen.WindowKindTlb)
}

// checkImageDevices compares the image's devices and windows with the devices that are
// present.
func (r *boardReport) checkImageDevices(m *machine, n *requirements) {
	alike := map[[2]uint16]int{} // devices of the image so far, by ids
	for i := range n.view.Devices {
		t := &n.view.Devices[i]
		check := fmt.Sprintf("device %d, %s (%04x:%04x)", i, n.view.Name(t.Board), t.Vendor,
			t.Device)
		found := m.devicesLike(n.view.Board(i))
		var first pciDevice
		if len(found) > 0 {
			first = found[0]
		}
		r.judge(check, []verdict{
			{len(found) == 0, missing,
				fmt.Sprintf("not found among the machine's %d PCI functions", len(m.functions)),
				"the image needs a device with these ids",
				"look for the device in `lspci -nn`, or rescan: echo 1 > /sys/bus/pci/rescan"},
			{len(found) > 1, warning, fmt.Sprintf("%d devices have these ids", len(found)),
				"lmrun does not choose between devices with the same ids",
				"name one device by address: --device " +
					cmp.Or(first.openName(), "pci:"+first.address)},
			fineIf(true, cmp.Or(first.openName(), first.address)),
		})
		if len(found) == 0 {
			continue
		}
		// The n-th device of the image with these ids is compared with the n-th found device, or
		// with the last if fewer were found.
		ids := [2]uint16{t.Vendor, t.Device}
		d := &found[min(alike[ids], len(found)-1)]
		alike[ids]++
		r.checkDeviceBars(check, t, d)
		r.checkTLBWindows(check, n.view, i, d)
	}
}

// devicesOf returns the PCI functions that have the ids of a device of the image.
func (m *machine) devicesOf(view *fbs.View) (found []pciDevice) {
	for i := range view.Devices {
		board := view.Board(i)
		isKnown := func(d pciDevice) bool {
			return d.board.Vendor == board.Vendor && d.board.Device == board.Device
		}
		if !slices.ContainsFunc(found, isKnown) {
			found = append(found, m.devicesLike(board)...)
		}
	}
	return found
}

// devicesLike returns the PCI functions that have the ids of a board.
func (m *machine) devicesLike(board *boards.Board) (found []pciDevice) {
	for _, f := range m.functions {
		if f.id == (hosts.ID{Vendor: board.Vendor, Device: board.Device}) {
			found = append(found, m.readDevice(f.address, board))
		}
	}
	return found
}

func (r *boardReport) checkDeviceBars(check string, t *fbs.DeviceInfo, d *pciDevice) {
	good, usable := true, d.usableBarSizes()
	for i, want := range t.MinBarSizes() {
		if want <= usable[i] {
			continue
		}
		good = false
		why := "the image accesses more of this BAR than the device has"
		if usable[i] == 0 {
			why = "the kernel assigned no address to this BAR, or the device does not have it"
		}
		r.addFinding(missing, fmt.Sprintf("%s BAR %d", check, i),
			fmt.Sprintf("the assigned size is %s, but the image needs %s",
				lmb.SizeText(usable[i]), lmb.SizeText(want)), why,
			"check BAR "+fmt.Sprint(i)+" in `lspci -vv -s "+d.address+
				"`, or make the image again for this device")
	}
	if good {
		r.addFinding(fine, check+" BARs", "as large as the image needs", "", "")
	}
}

// usableBarSizes returns the usable size of each BAR, which is 0 if the kernel has not assigned an
// address to the BAR.
func (d *pciDevice) usableBarSizes() (sizes [6]uint64) {
	for i, b := range d.bars {
		if b.assigned {
			sizes[i] = b.size
		}
	}
	return sizes
}

// checkTLBWindows checks whether the device has a free TLB window for each movable window of the
// image. Other windows are in BARs, which checkDeviceBars has checked.
func (r *boardReport) checkTLBWindows(check string, view *fbs.View, device int, d *pciDevice) {
	bars, taken := d.usableBarSizes(), map[int]bool{}
	for i := range view.Windows {
		w := &view.Windows[i]
		if int(w.Device) != device || w.Kind != gen.WindowKindTlb {
			continue
		}
		slot := -1
		if d.board.TLB != nil {
			slot = d.board.TLB.ChooseWindow(w.Slot, w.Size, &bars,
				func(slot int) bool { return taken[slot] })
		}
		if slot < 0 {
			r.addFinding(missing, check+" windows",
				fmt.Sprintf("the device has no free TLB window "+
					"for window %d of the image (%s)",
					i, lmb.SizeText(w.Size)),
				"each movable window of the image needs a TLB window of the device",
				"use a device with larger BARs, or make the image with fewer windows")
			return
		}
		taken[slot] = true
	}
	r.judge(check+" windows", []verdict{fineIf(len(taken) > 0,
		fmt.Sprintf("there is a TLB window for each of %d movable windows", len(taken)))})
}

// checkKnownBoard fills in the report of a board from the data that lm has, without a machine.
func (r *boardReport) checkKnownBoard(config *kernelConfig, n *requirements) {
	r.Facts = hostFacts(r.host)
	r.checkKernelConfig(r.host, config,
		"name the kernel's configuration file with --kernel-config FILE")
	r.checkFaults(r.host, config, n)
	if n.view == nil {
		for _, b := range boards.All {
			r.checkFit(b.Name, b, [6]uint64{}, warning)
		}
		return
	}
	for i := range n.view.Devices {
		t := &n.view.Devices[i]
		board := boards.FindByID(t.Vendor, t.Device)
		r.checkFit(fmt.Sprintf("device %d, %s", i, n.view.Name(t.Board)), board, *t.MinBarSizes(),
			missing)
	}
}

// checkFit reports which ports of the host have room for a device with BARs of at least these
// sizes. board is nil if the board of the device is unknown.
func (r *boardReport) checkFit(what string, board *boards.Board, minBarSizes [6]uint64,
	stateIfNoRoom state) {
	fit := r.host.FitDevice(board, minBarSizes)
	var fits, portWindows []string
	for _, room := range fit.Placements {
		at := func(i int) string { return fmt.Sprintf("%d at 0x%x", i, room.Addresses[i]) }
		fits = append(fits, portText(room.Port)+" (BAR "+barsText(room.BARs, at)+")")
	}
	for i := range r.host.Ports {
		if p := &r.host.Ports[i]; p.Windows.IsKnown() {
			portWindows = append(portWindows, p.Name+": "+windowsText(p))
		}
	}
	size := func(i int) string { return fmt.Sprintf("%d: %s", i, lmb.SizeText(fit.BARs[i].Size)) }
	bars := barsText(fit.BARs, size)
	r.judge(what+" fits", []verdict{
		fineIf(len(fits) > 0, strings.Join(fits, "; ")),
		{!fit.HasNoRoom(), warning,
			"unknown: the sizes of this board's PCIe windows are not known",
			"the device's BARs (" + bars + ") may not fit",
			"put the device into the machine, and run lm check-board there"},
		{true, stateIfNoRoom,
			"no PCIe port has room for the BARs; " + strings.Join(portWindows, "; "),
			"the device's BARs (" + bars + ") do not fit into the PCIe windows, " +
				"so the kernel leaves them unassigned and cannot switch the device on",
			"if the chip allows, widen the port's ranges in the device tree; make the BAR " +
				"smaller in the device's firmware; or use another board (lm check-board --list)"},
	})
}

// barsText lists the BARs that exist, each formatted by text.
func barsText(bars []hosts.BAR, text func(i int) string) string {
	var parts []string
	for i, b := range bars {
		if b.Size != 0 {
			parts = append(parts, text(i))
		}
	}
	return strings.Join(parts, ", ")
}

// checkFaults reports the known faults of a host, and whether they affect the image.
func (r *boardReport) checkFaults(h *hosts.Host, config *kernelConfig, n *requirements) {
	r.checkWriteCombining(h, config, n)
	if h.WideAccess.Value == hosts.Faulty {
		r.addFinding(stateIf(n.wideAccesses, missing, warning), "8-byte accesses",
			"faulty on this board"+unusedText(n, n.wideAccesses), h.WideAccess.Source,
			"make the image with width 4 and without bulk copies "+
				"(lm dump it, edit the listing, lm asm the listing)")
	}
	if n.hostBytes > 0 {
		r.checkHostMemory(h, n)
	}
	for _, f := range h.OtherDefects {
		r.addFinding(warning, "known fault", f.Value, f.Source, "")
	}
}

// stateIf returns ifAffected if a fault affects the image, and ifUnaffected otherwise.
func stateIf(isAffected bool, ifAffected, ifUnaffected state) state {
	if isAffected {
		return ifAffected
	}
	return ifUnaffected
}

// unusedText returns a note for images that do not use a feature, empty if there is no image.
func unusedText(n *requirements, isUsed bool) string {
	if n.view == nil || isUsed {
		return ""
	}
	return "; the image does not use the feature"
}

func (r *boardReport) checkWriteCombining(h *hosts.Host, config *kernelConfig, n *requirements) {
	around := h.Workaround
	next := "make the image without wc windows (lm dump it, remove wc, lm asm the listing)"
	if around.IsKnown() {
		next = "use a kernel with " + around.Value + "=y (" + around.Source + "), or " + next
	}
	r.judge("write-combining", []verdict{
		fineIf(h.WriteCombining.Value == hosts.Works, "works"),
		{!h.WriteCombining.IsKnown(), stateIf(n.writeCombining, warning, fine),
			"not known for this board", "bulk copies to a window marked wc rely on write-combining",
			"test it: copy data into a window marked wc, and read the data back"},
		fineIf(around.IsKnown() && config.isEnabled(around.Value),
			"faulty on this board, and the kernel works around it ("+around.Value+")"),
		{true, stateIf(n.writeCombining, missing, warning),
			"faulty on this board" + unusedText(n, n.writeCombining), h.WriteCombining.Source,
			next},
	})
}

// checkHostMemory checks whether the host lets a device access host memory.
func (r *boardReport) checkHostMemory(h *hosts.Host, n *requirements) {
	r.judge("coherence", []verdict{
		{h.Coherence.Value == hosts.NotCoherent, missing,
			"devices do not see data that are only in the processor's caches",
			"the image has host memory, so the processor or the device may read old data (" +
				h.Coherence.Source + ")",
			"use an image without host memory, or another board"},
		{h.Coherence.Value == "", warning, "not known for this board",
			"the image has host memory: " +
				"if DMA is not coherent, the processor or the device may read old data",
			"run the image with known data, and compare what the processor and the device read"},
		fineIf(true, "devices see the data in the processor's caches"),
	})
	if n.driverBusAddresses {
		return // the driver knows the inbound windows
	}
	for _, in := range h.Inbound.Value {
		r.judge("inbound window", []verdict{
			{in.PCIAddress != in.CPUAddress && h.IOMMU.Value == hosts.NoIOMMU, missing,
				fmt.Sprintf("a device must access memory at the CPU address plus 0x%x",
					in.PCIAddress-in.CPUAddress),
				"lightmetal passes CPU addresses of host memory to devices; " +
					"these addresses are wrong on this board (" + h.Inbound.Source + ")",
				"use an image without host memory, or another board"},
			{in.Size < 1<<40, warning,
				fmt.Sprintf("a device can access only the first %s of memory",
					lmb.SizeText(in.Size)),
				"the image's host memory may be outside this range (" + h.Inbound.Source + ")",
				"add mem=" + fmt.Sprint(in.Size>>20) + "M to the kernel's command line, " +
					"so that the kernel uses only this range"},
		})
	}
}
