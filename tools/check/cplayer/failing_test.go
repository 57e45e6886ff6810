package cplayer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/lmb"

	"golang.org/x/sys/unix"
)

// Faults of a device, with the numbers of harness.c.
const (
	faultErrors = iota + 1
	faultOnes
	faultWrong
	faultLate
	faults
)

const (
	accessNs, lateNs = 100, 5050
	busBase          = 0x10000000
	barMax           = 1 << 40 // size of each BAR of the machine
)

// machine has the devices of an image, on memory of zeros and with a clock of their own. The
// devices fail after a number of stores. It logs every access, as harness.c prints it.
type machine struct {
	view          *fbs.View
	memory        []byte
	windows       []uint64 // offset of each window in the memory
	order         []int    // windows in the order of Load: fixed bus addresses first
	mapped        int      // number of windows that Load has mapped
	fault         int
	after, stores int
	now, failed   int64
	log           []string
}

func (m *machine) fails() bool { return m.fault != 0 && m.stores >= m.after }

func (m *machine) isDead() bool { return m.fails() && m.fault <= faultOnes }

func (m *machine) logf(format string, arguments ...any) {
	m.log = append(m.log, fmt.Sprintf(format, arguments...))
}

// device is one of the devices. Its TLB windows and its outbound translation are those of the
// board, so that their registers get the values that package boards computes.
type device struct {
	hal.BaseDevice
	*machine
	index   int
	board   *boards.Board
	taken   map[int]bool // TLB windows in use
	regions []region     // of outbound translation
	next    uint64       // offset of the next region
}

type region struct{ offset, size, bus uint64 }

func newMachine(t *testing.T, view *fbs.View, fault, after int) (m *machine, list []hal.Device) {
	t.Helper()
	m = &machine{view: view, fault: fault, after: after}
	size := m.layOut()
	for i := range view.Devices {
		d := &view.Devices[i]
		list = append(list, &device{machine: m, index: i, taken: map[int]bool{},
			board: boards.FindByID(d.Vendor, d.Device)})
	}
	var err error
	m.memory, err = unix.Mmap(-1, 0, int(size)+4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m.memory) })
	return m, list
}

// layOut places the windows in memory, as harness.c does, and returns the size of the memory.
func (m *machine) layOut() (size uint64) {
	bars := make([][6]uint64, len(m.view.Devices))
	for i := range m.view.Devices {
		for b, bytes := range m.view.Devices[i].MinBarSizes() {
			bars[i][b] = size
			size += fbs.RoundUp(bytes, 4096)
		}
	}
	m.windows = make([]uint64, len(m.view.Windows))
	for _, isFixed := range [...]bool{true, false} {
		for i := range m.view.Windows {
			if (fbs.FixedBusAddress(&m.view.Windows[i]) != 0) == isFixed {
				m.order = append(m.order, i)
			}
		}
	}
	for _, kind := range [...]gen.WindowKind{gen.WindowKindBar, gen.WindowKindHost,
		gen.WindowKindTlb, gen.WindowKindConfig} {
		for i := range m.view.Windows {
			w := &m.view.Windows[i]
			switch {
			case w.Kind != kind:
			case kind == gen.WindowKindBar:
				m.windows[i] = bars[w.Device][w.Bar] + w.Offset
			default:
				m.windows[i] = size
				size += fbs.RoundUp(w.Size, 4096)
			}
		}
	}
	return size
}

func (d *device) Identity() hal.Identity {
	t := &d.view.Devices[d.index]
	return hal.Identity{Vendor: t.Vendor, Device: t.Device, Subsystem: t.Subsystem,
		BarSizes: [6]uint64{barMax, barMax, barMax, barMax, barMax, barMax}}
}

func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	at, slot := d.windows[d.order[d.mapped]], -1
	d.mapped++
	bus, fixed := busBase+at, fbs.FixedBusAddress(&w)
	switch w.Kind {
	case gen.WindowKindTlb:
		if d.board == nil || d.board.TLB == nil {
			return hal.Aperture{}, hal.NewFault(hal.WrongDevice, "no TLB windows")
		}
		bars := d.Identity().BarSizes
		slot = d.board.TLB.ChooseWindow(w.Slot, w.Size, &bars,
			func(slot int) bool { return d.taken[slot] })
		if slot < 0 {
			return hal.Aperture{}, hal.NewFault(hal.NoDevice, "no TLB window is free")
		}
		d.taken[slot] = true
		bus = 0
	case gen.WindowKindHost:
		if d.board != nil && d.board.Outbound != nil {
			bytes := fbs.RoundUp(w.Size, 4096)
			if fixed != 0 {
				d.next = fixed - d.board.Outbound.NoCBase
			}
			d.regions = append(d.regions, region{d.next, bytes, bus})
			bus = d.board.Outbound.NoCBase + d.next
			d.next += bytes + 4096
		} else if fixed != 0 {
			bus = fixed
		}
	}
	a := hal.NewAperture(&port{d.machine, at}, w.Size, slot)
	a.BusAddress = bus
	return a, nil
}

// EncodeWindow checks that the TLB window can show the tiles.
func (d *device) EncodeWindow(a *hal.Aperture, t fbs.TileRoute, address uint64,
	_ *fbs.Command) (registers, windowBase uintptr, code hal.Code) {
	g := d.board.TLB.GroupOf(a.Slot)
	if _, ok := d.board.TLB.EncodeWindow(g, boards.TileRoute(t), address&^(g.Size-1)); !ok {
		return 0, 0, hal.Refused
	}
	return 0, 0, hal.OK
}

// ProgramWindow logs the accesses to the registers of a TLB window.
func (d *device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	tlb := d.board.TLB
	g := tlb.GroupOf(a.Slot)
	words, _ := tlb.EncodeWindow(g, boards.TileRoute(t), address&^(g.Size-1))
	at := uint64(a.Slot) * tlb.ConfigStride
	d.logf("F")
	if tlb.ConfigWidth == 8 {
		d.logf("S 8 r%d+%x %x", d.index, at, words[0])
	} else {
		d.logf("S 4 r%d+%x %x", d.index, at, uint32(words[0]))
		d.logf("S 4 r%d+%x %x", d.index, at+4, words[0]>>32)
		at += 8
		d.logf("S 4 r%d+%x %x", d.index, at, uint32(words[1]))
	}
	d.logf("L %d r%d+%x 0", tlb.ConfigWidth, d.index, at)
	d.logf("F")
	return hal.OK
}

// AssignBusAddress has the rule of package hal: tiles reach only Host windows of their own device.
func (d *device) AssignBusAddress(a *hal.Aperture, owner hal.Device) error {
	other := owner.(*device)
	isHost := d.hostWindowAt(a)
	reachable := !isHost || other.board == nil || other.board.Outbound == nil
	if d.board != nil && d.board.Outbound != nil {
		reachable = isHost && other == d
	}
	if !reachable {
		return hal.NewFault(hal.Usage, "cannot reach the window")
	}
	return nil
}

// hostWindowAt reports whether the aperture is that of a Host window.
func (d *device) hostWindowAt(a *hal.Aperture) bool {
	for i := range d.windows {
		if d.windows[i] == a.Port.(*port).at && d.view.Windows[i].Kind == gen.WindowKindHost {
			return true
		}
	}
	return false
}

// SetBusMaster logs the stores to the registers of outbound translation.
func (d *device) SetBusMaster(on bool) error {
	if on {
		d.programOutbound()
		d.logf("M %d 1", d.index)
	}
	return nil
}

func (d *device) programOutbound() {
	if len(d.regions) == 0 {
		return
	}
	o := d.board.Outbound
	for i := range o.RegionCount {
		var r region
		if i < len(d.regions) {
			r = d.regions[i]
		}
		o.ProgramRegion(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			d.logf("S 4 r%d+%x %x", d.index, register-o.Offset, value)
		})
	}
}

func (d *device) Diagnose() hal.Code { return hal.DeviceGoneUnlessAlive(d) }

func (d *device) Alive() bool   { return !d.isDead() }
func (d *device) Now() int64    { return d.now }
func (d *device) Sleep(n int64) { d.now += n }
func (d *device) Close() error  { return nil }

// port is the port of a window.
type port struct {
	*machine
	at uint64
}

func (p *port) Load(offset uint64, width uint8) (value uint64, code hal.Code) {
	p.now += accessNs
	for i := range uint64(width) {
		value |= uint64(p.memory[p.at+offset+i]) << (8 * i)
	}
	switch {
	case !p.fails():
	case p.fault == faultErrors:
		return 0, hal.DeviceGone
	case p.fault == faultOnes:
		value = fbs.WidthMask(width)
	case p.fault == faultWrong:
		value ^= 1
	case p.now < p.failed+lateNs:
		value = 0
	}
	p.logf("L %d %x %x", width, p.at+offset, value)
	return value, hal.OK
}

func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	p.now += accessNs
	if p.fails() && p.fault == faultErrors {
		return hal.DeviceGone
	}
	p.logf("S %d %x %x", width, p.at+offset, value&fbs.WidthMask(width))
	for i := range uint64(width) {
		if !p.isDead() {
			p.memory[p.at+offset+i] = byte(value >> (8 * i))
		}
	}
	if p.stores++; p.stores == p.after {
		p.failed = p.now
	}
	return hal.OK
}

// playInGo executes sequence 0 of an image by the runtime, and returns the lines that the harness
// should print, without fences: the runtime executes those where no device sees them.
func playInGo(t *testing.T, path string, fault, after int) []string {
	t.Helper()
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	view, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	m, devices := newMachine(t, view, fault, after)
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, devices...)
	if err != nil {
		return append(m.log, fmt.Sprintf("load %d", hal.CodeOf(err)))
	}
	defer replay.Close()
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleInput && view.Tensors[i].HasData == 0 {
			replay.Input(i) // zeros
		}
	}
	r := replay.Run(0)
	ran, command := 0, int32(0)
	if r.SafeRan {
		ran = 1
	}
	if r.Code != hal.OK {
		command = r.Command
	}
	m.logf("end %d %d %x %x %x %x %d %d %d", r.Code, command, r.Got, r.Want, r.Mask, r.ElementIndex,
		r.IgnoredFailures, ran, r.SafeCode)
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput {
			m.logf("output %x", replay.Output(i))
		}
	}
	return withoutFences(m.log)
}

func withoutFences(lines []string) (kept []string) {
	for _, line := range lines {
		if line != "F" {
			kept = append(kept, line)
		}
	}
	return kept
}

// playInC executes sequence 0 of an image by the player, in steps of `budget` units, or in one run
// if `budget` is 0.
func playInC(t *testing.T, program, path string, fault, after, budget int) []string {
	t.Helper()
	out, err := exec.Command(program, "play", path, fmt.Sprint(fault), fmt.Sprint(after),
		fmt.Sprint(budget)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	kept := []string{}
	for _, line := range withoutFences(lines) {
		switch {
		case strings.HasPrefix(line, "load "):
			line = strings.Join(strings.Fields(line)[:2], " ")
		case strings.HasPrefix(line, "M ") && strings.HasSuffix(line, " 0"):
			return kept // unloaded
		}
		kept = append(kept, line)
	}
	return kept
}

// playBoth executes an image by both, and returns the number of the code with which it ended. The
// player makes one run, or steps with a budget that is different from one call to the next.
func playBoth(t *testing.T, random *rand.Rand, program, path string, fault, after int) (
	code string) {
	t.Helper()
	want := playInGo(t, path, fault, after)
	budget := []int{0, 1, 7}[random.IntN(3)]
	got := playInC(t, program, path, fault, after, budget)
	for i := range max(len(got), len(want)) {
		if i < len(got) && i < len(want) && got[i] == want[i] {
			continue
		}
		t.Errorf("%s, fault %d after %d stores, budget %d: line %d of %d and %d: C %q, Go %q",
			filepath.Base(path), fault, after, budget, i, len(got), len(want),
			got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		break
	}
	for _, line := range want {
		if strings.HasPrefix(line, "end ") || strings.HasPrefix(line, "load ") {
			code = strings.Fields(line)[1]
		}
	}
	return code
}

// expectEndings fails unless runs ended with each of the codes.
func expectEndings(t *testing.T, ended map[string]int, codes ...hal.Code) {
	t.Helper()
	for _, code := range codes {
		if ended[fmt.Sprint(uint8(code))] == 0 {
			t.Errorf("runs ended %v: none with %v", ended, code)
		}
	}
	t.Logf("evidence: runs ended %v, with the same accesses on both sides", ended)
}

// dropUnreachable replaces each relocation that stores to a tile the address of memory that tiles
// do not reach.
func dropUnreachable(image *lmb.Image) {
	for i := range image.Sequences {
		for k := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[k]
			isOnTile := image.Windows[c.Window].Kind == gen.WindowKindTlb
			if c.Opcode == gen.OpcodeRelocate && isOnTile {
				*c = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}}
			}
		}
	}
}

// The player makes the same accesses as the runtime on a device that fails, whether in one run or
// in steps: also status, command, values, ignored failures, "safe" and outputs.
func TestAccessesOnADeviceThatFailsAreThoseOfTheRuntime(t *testing.T) {
	program := buildProgram(t, "harness")
	ended := map[string]int{}
	for seed := range uint64(countOfImages(t, 24)) {
		random := rand.New(rand.NewPCG(seed, 17))
		image := images.Any(random)
		if seed%8 != 0 { // the others show that both reject the same relocations
			dropUnreachable(image)
		}
		path := encode(t, image)
		for fault := range faults {
			after := 1 + random.IntN(60)
			ended[playBoth(t, random, program, path, fault, after)]++
		}
	}
	expectEndings(t, ended, hal.OK, hal.Usage, hal.DeviceGone, hal.DeadlinePassed, hal.ExpectFailed,
		hal.CompareFailed)
}

// withIgnore returns an image in which every check may fail, so that memory, which never answers
// as a device does, is accessed to the end.
func withIgnore(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	image, err := lmb.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range image.Sequences {
		for k := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[k]
			if c.Opcode == gen.OpcodeExpect || c.Opcode == gen.OpcodeCompare {
				c.Option = uint8(gen.PolicyIgnore)
			}
		}
	}
	return encode(t, image)
}

// The same holds for every image of testdata and of its listings, whatever devices they are for:
// memory replaces the devices, and a Tlb window shows the same memory wherever it points.
func TestAccessesOfTestdataAreThoseOfTheRuntime(t *testing.T) {
	program := buildProgram(t, "harness")
	good, _ := everyImage(t)
	ended, random := map[string]int{}, rand.New(rand.NewPCG(16, 4))
	for _, path := range good {
		for fault := range faults {
			after := 1<<random.IntN(8) + random.IntN(8)
			ended[playBoth(t, random, program, path, fault, after)]++
			ignoring := withIgnore(t, path)
			ended[playBoth(t, random, program, ignoring, fault, after)]++
		}
	}
	expectEndings(t, ended, hal.OK, hal.DeviceGone, hal.ExpectFailed)
}

// The player that leaves out verification and texts finds the same parts in an image.
func TestAccessesWithoutVerificationAreThoseOfTheRuntime(t *testing.T) {
	program := buildProgram(t, "harness", "-DLMPLAY_VERIFY=0", "-DLMPLAY_TEXT=0")
	good, _ := everyImage(t)
	ended, random := map[string]int{}, rand.New(rand.NewPCG(16, 5))
	for _, path := range good {
		ended[playBoth(t, random, program, withIgnore(t, path), 0, 0)]++
	}
	expectEndings(t, ended, hal.OK)
}
