package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// tableChecker checks the tables of an image, and sums up what it has checked. Its methods named
// check... return the problem, without the name of the element, or "".
type tableChecker struct {
	*View
	hostBytes    uint64             // of the Host windows, each rounded up to a page
	fixedBusEnd  [DevicesMax]uint64 // of each device's last Host window with FlagFixedBus
	payloadBytes uint64             // of the segments
	arenaBytes   uint64             // of the tensors, each rounded up to ArenaAlign
	commandCount uint64             // in the sequences
}

type tableToCheck struct {
	elementName   string // in messages
	count         int
	reservedCount uint32 // in the reservation
	isRequired    bool
	checkElement  func(index int) (problem string) // nil: verifyCommands checks the elements
}

// verifyTables checks the reservation and every table; of the commands, only the number.
func (v *View) verifyTables() *Error {
	t, r := &tableChecker{View: v}, &v.Reservation
	// The reservation does not count rules and rings: their counts pass.
	rules, rings := uint32(len(v.Rules)), uint32(len(v.Rings))
	tables := [...]tableToCheck{
		{"device", len(v.Devices), r.Devices, true, t.checkDevice},
		{"rule", len(v.Rules), rules, false, t.checkRule},
		{"window", len(v.Windows), r.Windows, true, t.checkWindow},
		{"sequence", len(v.Sequences), r.Sequences, true, t.checkSequence},
		{"segment", len(v.Segments), r.Segments, false, t.checkSegment},
		{"tensor", len(v.Tensors), r.Tensors, false, t.checkTensor},
		{"ring", len(v.Rings), rings, false, t.checkRing},
		{"command", len(v.Commands), r.Commands, true, nil},
	}
	for i := range tables {
		if err := tables[i].verifyCount(); err != nil {
			return err
		}
	}
	for i := range tables {
		if err := tables[i].verifyElements(); err != nil {
			return err
		}
	}
	if problem := t.checkTotals(); problem != "" {
		return &Error{Place: "reservation", Reason: problem}
	}
	return nil
}

func (c *tableToCheck) verifyCount() *Error {
	if c.isRequired && c.count == 0 {
		return &Error{Place: "image", Reason: "has no " + c.elementName}
	}
	if uint64(c.count) != uint64(c.reservedCount) {
		problem := Text(c.elementName+" count is %d, but the image has %d",
			uint64(c.reservedCount), uint64(c.count))
		return &Error{Place: "reservation", Reason: problem}
	}
	return nil
}

func (c *tableToCheck) verifyElements() *Error {
	if c.checkElement == nil {
		return nil
	}
	for i := range c.count {
		if problem := c.checkElement(i); problem != "" {
			return &Error{Place: Text(c.elementName+" %d", uint64(i)), Reason: problem}
		}
	}
	return nil
}

func (t *tableChecker) checkTotals() (problem string) {
	r := &t.Reservation
	if r.HostBytes != t.hostBytes {
		return Text("host_bytes is %d, but the windows need %d", r.HostBytes, t.hostBytes)
	}
	if r.PayloadBytes != t.payloadBytes {
		return Text("payload_bytes is %d, but the segments have %d", r.PayloadBytes, t.payloadBytes)
	}
	if r.ArenaBytes != t.arenaBytes {
		return Text("arena_bytes is %d, but the tensors need %d", r.ArenaBytes, t.arenaBytes)
	}
	return ""
}

func (t *tableChecker) checkName(n NameRange) (problem string) {
	first, size, text := uint64(n>>8), uint64(n&NameMax), uint64(len(t.Text))
	if size == 0 {
		return "has no name"
	}
	if first+size > text {
		return Text("name of %d bytes at offset %d lies outside the text of %d bytes",
			size, first, text)
	}
	if !IsPlainText(t.Text[first:][:size]) {
		return Text("name of %d bytes at offset %d has an invisible or control character, "+
			"or is not UTF-8", size, first)
	}
	return ""
}

const (
	checksumFormat      = "checksum is %x, but should be %x: the file is damaged"
	missingDeviceFormat = "the image has no device %d"
	reservedProblem     = "reserved bytes are not zero"
)

func (t *tableChecker) checkDevice(index int) (problem string) {
	d := &t.Devices[index]
	if d.Reserved != 0 {
		return reservedProblem
	}
	if problem := d.checkVectors(); problem != "" {
		return problem
	}
	return t.checkName(d.Board)
}

func (d *DeviceInfo) checkVectors() (problem string) {
	most := [...]uint16{gen.InterruptKindInvalid: 0, gen.InterruptKindMsi: 32,
		gen.InterruptKindMsix: VectorsMax}
	if int(d.Interrupts) >= len(most) {
		return Text("unknown kind %d of interrupts", uint64(d.Interrupts))
	}
	n, isMSI := d.Vectors, d.Interrupts == gen.InterruptKindMsi
	if n > most[d.Interrupts] || (n == 0) != (most[d.Interrupts] == 0) || isMSI && n&(n-1) != 0 {
		return Text("%d interrupt vectors of kind %d; MSI (1) has 1, 2, 4, 8, 16 or 32, MSI-X (2) "+
			"1 to 2048", uint64(n), uint64(d.Interrupts))
	}
	return ""
}

func (t *tableChecker) checkRule(index int) (problem string) {
	r := &t.Rules[index]
	if int(r.Device) >= len(t.Devices) {
		return Text(missingDeviceFormat, uint64(r.Device))
	}
	device := &t.Devices[r.Device]
	if boards.FindByID(device.Vendor, device.Device) != nil {
		return Text("device %d has a known board; the image must not have rules for it",
			uint64(r.Device))
	}
	if r.Bar >= 6 || r.First > r.Last || r.Last >= device.MinBarSizes()[r.Bar] {
		return Text("bytes %x to %x do not lie in BAR %d", r.First, r.Last, uint64(r.Bar))
	}
	if r.Widths == 0 || r.Widths > allWidths {
		return Text("invalid widths %x; must be one or more of 1, 2, 4 and 8, added up",
			uint64(r.Widths))
	}
	if r.Memory > 1 {
		return Text("field memory is %d, but must be 0 or 1", uint64(r.Memory))
	}
	smallestWidth := uint64(r.Widths & -r.Widths)
	if (r.First|(r.Last+1))&(smallestWidth-1) != 0 {
		return Text("bytes %x to %x are not aligned to the smallest width %d",
			r.First, r.Last, smallestWidth)
	}
	if index > 0 && !mayFollowRule(r, &t.Rules[index-1]) {
		return Text("bytes %x to %x overlap the previous rule, or rules are not in order",
			r.First, r.Last)
	}
	return t.checkName(r.Name)
}

// mayFollowRule reports whether the rules are sorted by device, BAR and offset, and do not overlap.
func mayFollowRule(r, previous *AccessRule) bool {
	deviceAndBar := func(r *AccessRule) int { return int(r.Device)<<8 + int(r.Bar) }
	if deviceAndBar(r) != deviceAndBar(previous) {
		return deviceAndBar(r) > deviceAndBar(previous)
	}
	return r.First > previous.Last
}

func (t *tableChecker) checkWindow(index int) (problem string) {
	w := &t.Windows[index]
	if int(w.Device) >= len(t.Devices) {
		return Text(missingDeviceFormat, uint64(w.Device))
	}
	if w.Kind == gen.WindowKindInvalid || w.Kind > gen.WindowKindConfig {
		return Text("unknown kind %d", uint64(w.Kind))
	}
	if w.Flags&^(FlagWriteCombining|FlagFixedBus) != 0 {
		return Text("unknown flags %x", uint64(w.Flags))
	}
	if w.Flags&FlagFixedBus != 0 && w.Kind != gen.WindowKindHost {
		return "flag 2 (fixed bus address) is set, but only a host window may have it"
	}
	if w.Reserved != 0 {
		return reservedProblem
	}
	if w.Size == 0 || w.Size > WindowSizeMax {
		return Text("size %x is not between 1 byte and 4 GiB", w.Size)
	}
	if w.Kind != gen.WindowKindTlb && w.Slot != AnySlot {
		return Text("slot is %d, but only a TLB window has a slot; must be 65535", uint64(w.Slot))
	}
	if w.Kind == gen.WindowKindBar {
		return t.checkBarWindow(w)
	}
	if w.Bar != 0 || w.Offset != 0 && w.Flags&FlagFixedBus == 0 {
		return Text("BAR is %d, offset %x, but only a BAR window has them; both must be 0",
			uint64(w.Bar), w.Offset)
	}
	return t.checkAndCount(w)
}

// checkBarWindow compares the window with the least size of its BAR, which the image declares.
func (t *tableChecker) checkBarWindow(w *Window) (problem string) {
	if w.Bar >= 6 {
		return Text("BAR %d does not exist", uint64(w.Bar))
	}
	bar := t.Devices[w.Device].MinBarSizes()[w.Bar]
	if w.Offset > bar || w.Size > bar-w.Offset {
		return Text("%x bytes at offset %x do not fit in BAR %d, which has %x bytes",
			w.Size, w.Offset, uint64(w.Bar), bar)
	}
	return ""
}

// checkAndCount checks the size of a Tlb, Host or Config window, and adds a Host window to
// hostBytes, and its device to BusMasters.
func (t *tableChecker) checkAndCount(w *Window) (problem string) {
	switch w.Kind {
	case gen.WindowKindTlb:
		if w.Size&(w.Size-1) != 0 {
			return Text("size %x of a TLB window is not a power of two", w.Size)
		}
	case gen.WindowKindConfig:
		if w.Size != 256 && w.Size != 4096 {
			return Text("configuration space has 256 or 4096 bytes, not %d", w.Size)
		}
	default:
		t.hostBytes += RoundUp(w.Size, SegmentAlign)
		t.BusMasters |= 1 << w.Device
		if w.Flags&FlagFixedBus != 0 {
			return t.checkFixedBus(w)
		}
	}
	return ""
}

// checkFixedBus checks a window with FlagFixedBus. A device's windows with this flag must be sorted
// by bus address: then a window can overlap only the one before. Address 0 means "no bus address".
func (t *tableChecker) checkFixedBus(w *Window) (problem string) {
	if w.Offset == 0 || w.Offset%SegmentAlign != 0 {
		return Text("bus address %x must be a multiple of 4096, and not 0", w.Offset)
	}
	end, previousEnd := w.Offset+RoundUp(w.Size, SegmentAlign), &t.fixedBusEnd[w.Device]
	if end <= w.Offset {
		return Text("%x bytes at bus address %x must end below 2^64", w.Size, w.Offset)
	}
	if w.Offset < *previousEnd {
		return Text("bus address %x is below %x, the end of an earlier host window; host "+
			"windows must not overlap, and must be sorted by their bus addresses",
			w.Offset, *previousEnd)
	}
	*previousEnd = end
	return ""
}

func (t *tableChecker) checkSequence(index int) (problem string) {
	s, next, all := &t.Sequences[index], t.commandCount, uint64(len(t.Commands))
	end := next + uint64(s.Count)
	if uint64(s.First) != next || s.Count == 0 || end > all {
		return Text("first is %d (must be %d), count is %d (must be 1 to %d)",
			uint64(s.First), next, uint64(s.Count), all-next)
	}
	if index == len(t.Sequences)-1 && end != all {
		return Text("the last sequence ends after %d of %d commands", end, all)
	}
	if t.Commands[end-1].Opcode != gen.OpcodeEnd {
		return Text("last command %d is not an end command", end-1)
	}
	t.commandCount = end
	problem = t.checkName(s.Name)
	if problem == "" && !IsSequenceName(t.NameBytes(s.Name)) {
		return "the name has a blank or is not printable ASCII"
	}
	return problem
}

// checkSegment checks that the payload is one contiguous range of the file, from the first page
// boundary after the envelope on.
func (t *tableChecker) checkSegment(index int) (problem string) {
	s := &t.Segments[index]
	if s.Size == 0 {
		return "size must not be 0"
	}
	if s.Size > DataSizeMax || s.Offset > DataSizeMax {
		return Text("size %x or offset %x is over the limit of 64 TiB", s.Size, s.Offset)
	}
	if s.Size%SegmentAlign != 0 && index < len(t.Segments)-1 {
		return Text("size %d must be a multiple of 4096, except in the last segment", s.Size)
	}
	start := RoundUp(uint64(len(t.Envelope)), SegmentAlign) + t.payloadBytes
	if s.Offset != start {
		return Text("offset is %x, but should be %x", s.Offset, start)
	}
	if s.Reserved != 0 {
		return reservedProblem
	}
	t.payloadBytes += s.Size
	return ""
}

func (t *tableChecker) checkTensor(index int) (problem string) {
	tensor := &t.Tensors[index]
	if problem := t.checkName(tensor.Name); problem != "" {
		return problem
	}
	if tensor.Role == gen.RoleInvalid || tensor.Role > gen.RoleScratch {
		return Text("unknown role %d", uint64(tensor.Role))
	}
	elementSize := uint64(DTypeSize(tensor.Dtype))
	if elementSize == 0 {
		return Text("unknown element type %d", uint64(tensor.Dtype))
	}
	size := tensor.sizeFromShape(elementSize)
	if size == 0 {
		return tensor.describeInvalidShape()
	}
	if tensor.Size != size {
		return Text("size is %d, but shape and element type need %d", tensor.Size, size)
	}
	if tensor.ArenaOffset != t.arenaBytes || tensor.ArenaOffset > DataSizeMax {
		return Text("arena offset is %x, but should be %x", tensor.ArenaOffset, t.arenaBytes)
	}
	t.arenaBytes = RoundUp(tensor.ArenaOffset+tensor.Size, ArenaAlign)
	if problem := t.checkScratch(tensor); problem != "" {
		return problem
	}
	return t.checkTensorData(tensor)
}

// checkScratch also sets scratchBytes.
func (t *tableChecker) checkScratch(tensor *Tensor) (problem string) {
	if tensor.Role != gen.RoleScratch {
		return ""
	}
	if tensor.ArenaOffset != t.scratchBytes {
		return "scratch must come before inputs and outputs"
	}
	if t.arenaBytes > ScratchMax {
		return Text("scratch ends at byte %d of the arena, but may take only %d", t.arenaBytes,
			ScratchMax)
	}
	if tensor.HasData != 0 {
		return "scratch must have no data"
	}
	t.scratchBytes = t.arenaBytes
	return ""
}

func (t *tableChecker) checkTensorData(tensor *Tensor) (problem string) {
	if tensor.HasData > 1 {
		return Text("has_data is %d, but must be 0 or 1", uint64(tensor.HasData))
	}
	if tensor.HasData == 0 && tensor.DataOffset != 0 {
		return Text("data offset is %x, but the tensor has no data; must be 0", tensor.DataOffset)
	}
	available := t.payloadBytes - min(t.payloadBytes, tensor.DataOffset)
	if tensor.HasData == 1 && tensor.Size > available {
		return Text("%d bytes of data at payload offset %x reach outside the payload of %d bytes",
			tensor.Size, tensor.DataOffset, t.payloadBytes)
	}
	return ""
}

func (t *Tensor) describeInvalidShape() string {
	text := AppendText(nil, "dims is %d, and shape is", uint64(t.Dims))
	for _, n := range t.Shape() {
		text = AppendText(text, " %d", uint64(n))
	}
	return string(text) + "; dims must be at most 8, the first dims numbers above 0, " +
		"the others 0, and the size at most 64 TiB"
}

// sizeFromShape returns bytes, or 0 if the shape is invalid or the size exceeds DataSizeMax.
func (t *Tensor) sizeFromShape(elementSize uint64) uint64 {
	size := elementSize
	if t.Dims > DimsMax {
		return 0
	}
	for i, n := range t.Shape() {
		isDimension := i < int(t.Dims)
		if isDimension != (n != 0) {
			return 0
		}
		if !isDimension {
			continue
		}
		if size > DataSizeMax/uint64(n) {
			return 0
		}
		size *= uint64(n)
	}
	return size
}
