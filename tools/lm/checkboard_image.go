package main

import (
	"cmp"
	"fmt"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/hosts"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// need has the requirements of an image to a machine. The zero value has none.
type need struct {
	view       *fbs.View // nil: no image
	arenaBytes uint64
	hostBytes  uint64 // of all Host windows
	shared     bool   // kernel drivers provide the bus addresses of host memory
	combining  bool   // a window asks for write-combining
	wide       bool   // a command makes accesses of 8 bytes, or lets the runtime choose
}

func needOf(view *fbs.View) *need {
	n := &need{view: view}
	if view == nil {
		return n
	}
	n.arenaBytes, n.hostBytes = view.Reservation.ArenaBytes, view.Reservation.HostBytes
	for i := range view.Windows {
		w := &view.Windows[i]
		n.combining = n.combining || w.Flags&fbs.FlagWriteCombining != 0
	}
	for i := range view.Commands {
		n.wide = n.wide || isWide(view, &view.Commands[i])
	}
	return n
}

// isWide reports whether a command makes accesses of 8 bytes to a device. With access Bulk
// the runtime makes the widest it can.
func isWide(view *fbs.View, c *fbs.Command) bool {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate, gen.OpcodeFill, gen.OpcodeExpect,
		gen.OpcodeCompare:
		return c.Width == 8 && toDevice(view, c)
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut:
		return (c.Width == 8 || gen.Access(c.Mode) == gen.AccessBulk) && toDevice(view, c)
	}
	return false
}

func toDevice(view *fbs.View, c *fbs.Command) bool {
	kind := view.Windows[c.Window].Kind
	return kind == gen.WindowKindBar || kind == gen.WindowKindTlb
}

// wants reports whether the image is for such devices; it returns true without an image.
func (n *need) wants(board *boards.Board) bool {
	if n.view == nil {
		return true
	}
	for i := range n.view.Devices {
		if t := &n.view.Devices[i]; t.Vendor == board.Vendor && t.Device == board.Device {
			return true
		}
	}
	return false
}

// checkImageDevices compares the image's devices and windows with the devices that are
// present.
func (r *boardReport) checkImageDevices(m *machine, n *need) {
	alike := map[[2]uint16]int{} // devices of the image so far, by ids
	for i := range n.view.Devices {
		t := &n.view.Devices[i]
		check := fmt.Sprintf("device %d, %s (%04x:%04x)", i, n.view.Name(t.Board), t.Vendor,
			t.Device)
		found := m.ofIDs(t.Vendor, t.Device)
		switch {
		case len(found) == 0:
			r.add(missing, check, fmt.Sprintf("none of the machine's %d PCI functions has these "+
				"ids", len(m.functions)),
				"the image is for this device",
				"look for the device in `lspci -nn`, or rescan: echo 1 > /sys/bus/pci/rescan")
			continue
		case len(found) > 1:
			r.add(warning, check, fmt.Sprintf("%d devices have these ids", len(found)),
				"lmrun does not choose between devices with the same ids",
				"name one by its address: --device "+
					cmp.Or(found[0].name(), "pci:"+found[0].address))
		default:
			r.add(fine, check, cmp.Or(found[0].name(), found[0].address), "", "")
		}
		ids := [2]uint16{t.Vendor, t.Device}
		d := &found[min(alike[ids], len(found)-1)]
		alike[ids]++
		r.checkDeviceBars(check, t, d)
		r.checkWindows(check, n.view, i, d)
	}
}

// ofIDs returns the devices with these ids, of a known board or not.
func (m *machine) ofIDs(vendor, device uint16) (found []pciDevice) {
	board := cmp.Or(boards.FindByID(vendor, device), &boards.Board{Vendor: vendor, Device: device})
	for _, f := range m.functions {
		if f.id == (hosts.ID{Vendor: vendor, Device: device}) {
			found = append(found, m.readDevice(f.address, board))
		}
	}
	return found
}

func (r *boardReport) checkDeviceBars(check string, t *fbs.DeviceInfo, d *pciDevice) {
	good := true
	for i, want := range t.MinBarSizes() {
		if b := d.bars[i]; want > b.size || want > 0 && !b.assigned {
			good = false
			r.add(missing, fmt.Sprintf("%s BAR %d", check, i),
				fmt.Sprintf("%s assigned, the image needs %s", lmb.SizeText(granted(b)),
					lmb.SizeText(want)),
				"every window of the image must be inside its BAR",
				"see BAR "+fmt.Sprint(i)+
					" of the device above; or make the image again for this device")
		}
	}
	if good {
		r.add(fine, check+" BARs", "as large as the image needs", "", "")
	}
}

// granted returns the usable size of a BAR.
func granted(b pciBar) uint64 {
	if !b.assigned {
		return 0
	}
	return b.size
}

// checkWindows checks whether the device has a hardware window for each TLB
// window of the image. Bar windows lie in BARs that were checked.
func (r *boardReport) checkWindows(check string, view *fbs.View, device int, d *pciDevice) {
	var bars [6]uint64
	for i, b := range d.bars {
		bars[i] = granted(b)
	}
	taken, wanted := map[int]bool{}, 0
	for i := range view.Windows {
		w := &view.Windows[i]
		if int(w.Device) != device || w.Kind != gen.WindowKindTlb {
			continue
		}
		wanted++
		slot := -1
		if d.board.TLB != nil {
			slot = d.board.TLB.ChooseWindow(w.Slot, w.Size, &bars,
				func(slot int) bool { return taken[slot] })
		}
		if slot < 0 {
			r.add(missing, check+" windows", fmt.Sprintf("the device has no free TLB window for "+
				"window %d of the image, %s",
				i, lmb.SizeText(w.Size)),
				"each movable window of the image needs a TLB window of the device",
				"use a device with larger BARs, or make the image with fewer windows")
			return
		}
		taken[slot] = true
	}
	if wanted > 0 {
		r.add(fine, check+" windows", fmt.Sprintf("there is a TLB window for each of %d movable "+
			"windows", wanted),
			"", "")
	}
}

// ofBoard makes the report of a board from its data, without a machine.
func (r *boardReport) ofBoard(config *kernelConfig, n *need) {
	r.Facts = hostFacts(r.host)
	r.checkConfig(r.host, config,
		"name the configuration the kernel is built with: --kernel-config FILE")
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

// checkFit reports which ports of the host have room for a device of a board, nil if
// it is unknown, with BARs of these sizes at least. worse is the state if none has.
func (r *boardReport) checkFit(what string, board *boards.Board, least [6]uint64, worse state) {
	fit := r.host.Fit(board, least)
	var fits, cramped []string
	for _, room := range fit.Rooms {
		at := func(i int) string { return fmt.Sprintf("%d at 0x%x", i, room.Addresses[i]) }
		fits = append(fits, portText(room.Port)+" (BAR "+barsText(room.BARs, at)+")")
	}
	for i := range r.host.Ports {
		if p := &r.host.Ports[i]; p.Windows.Known() {
			cramped = append(cramped, p.Name+": "+windowsText(p))
		}
	}
	size := func(i int) string { return fmt.Sprintf("%d: %s", i, lmb.SizeText(fit.BARs[i].Size)) }
	switch {
	case len(fits) > 0:
		r.add(fine, what+" fits", strings.Join(fits, "; "), "", "")
	case !fit.NoRoom():
		r.add(warning, what+" fits", "unknown: the sizes of this board's PCIe windows are not "+
			"known",
			"its BARs ("+barsText(fit.BARs, size)+") may find no room", "try it on the machine")
	default:
		r.add(worse, what+" fits", "no port has room; "+strings.Join(cramped, "; "),
			"its BARs ("+barsText(fit.BARs, size)+") find no room in the windows, "+
				"so the kernel leaves them unassigned and cannot switch the device on",
			"if the chip allows, widen the port's ranges in the device tree; make the BAR smaller "+
				"in the device's firmware; or use another board (lm check-board --list)")
	}
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
func (r *boardReport) checkFaults(h *hosts.Host, config *kernelConfig, n *need) {
	r.checkCombining(h, config, n)
	if h.Wide.Value == hosts.Faulty {
		r.add(ifMet(n.wide, missing, warning), "8-byte accesses",
			"faulty on this board"+unused(n, n.wide), h.Wide.Source,
			"make the image with width 4 and without bulk copies (dump it, edit the widths, "+
				"assemble it)")
	}
	if n.hostBytes > 0 {
		r.checkShared(h, n)
	}
	for _, f := range h.OtherDefects {
		r.add(warning, "known fault", f.Value, f.Source, "")
	}
}

// ifMet returns one of two states, for an image that is affected and for one that is not.
func ifMet(meets bool, met, unmet state) state {
	if meets {
		return met
	}
	return unmet
}

func unused(n *need, meets bool) string {
	if n.view == nil || meets {
		return ""
	}
	return "; the image does not use this"
}

func (r *boardReport) checkCombining(h *hosts.Host, config *kernelConfig, n *need) {
	const check = "write-combining"
	around := h.Workaround
	switch {
	case h.WriteCombining.Value == hosts.Works:
		r.add(fine, check, "works", "", "")
	case !h.WriteCombining.Known():
		r.add(ifMet(n.combining, warning, fine), check, "not known for this board",
			"bulk copies to a window marked wc rely on it",
			"test it: copy data into such a window, and compare what was copied")
	case around.Known() && config.on(around.Value):
		r.add(fine, check, "faulty on this board, and the kernel works around it ("+around.Value+
			")", "", "")
	default:
		next := "make the image without wc at its windows (dump it, edit, assemble it)"
		if around.Known() {
			next = "use a kernel with " + around.Value + "=y (" + around.Source + "), or " + next
		}
		r.add(ifMet(n.combining, missing, warning), check,
			"faulty on this board"+unused(n, n.combining), h.WriteCombining.Source, next)
	}
}

// checkShared: host memory that a device shares.
func (r *boardReport) checkShared(h *hosts.Host, n *need) {
	switch h.Coherence.Value {
	case hosts.NotCoherent:
		r.add(missing, "coherence",
			"devices do not see data that are only in the processor's caches",
			"the image has host memory, so the processor or the device may read old data ("+
				h.Coherence.Source+")",
			"use an image without host memory, or another board")
	case "":
		r.add(warning, "coherence", "not known for this board",
			"the image has host memory: if DMA is not coherent, the processor or the device may "+
				"read old data",
			"run the image with known data, and compare what each side reads")
	default:
		r.add(fine, "coherence", "devices see the processor's caches", "", "")
	}
	if n.shared {
		return // the driver knows the inbound windows
	}
	for _, in := range h.Inbound.Value {
		if in.PCI != in.CPU && h.IOMMU.Value == hosts.NoIOMMU {
			r.add(missing, "inbound window",
				fmt.Sprintf("a device reaches memory at its address plus 0x%x", in.PCI-in.CPU),
				"lightmetal stores physical addresses to devices, which are wrong on this board "+
					"("+h.Inbound.Source+")",
				"use an image without host memory, or another board")
		} else if in.Size < 1<<40 {
			r.add(warning, "inbound window",
				fmt.Sprintf("a device reaches the first %s of memory only", lmb.SizeText(in.Size)),
				"the image's host memory may be above that ("+h.Inbound.Source+")",
				"limit the kernel to that memory: add "+
					"mem="+fmt.Sprint(in.Size>>20)+"M to its command line")
		}
	}
}
