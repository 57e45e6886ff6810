package main

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
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/lmb"

	"golang.org/x/sys/unix"
)

// What is wrong with a device, as testdata/cref/player.h has it.
const (
	faultErrors = iota + 1
	faultOnes
	faultWrong
	faultLate
	faults
)

const accessNs, lateNs = 100, 5050

// failing is the devices of an image, on memory of zeros and with a clock of
// their own, that fail behind a number of stores. It writes down what is done.
type failing struct {
	memory        []byte
	tlbs          int       // TLB windows
	next          [5]uint64 // place of the next window, by its kind
	fault         int
	after, stores int
	now, failed   int64
	log           []string
}

func (f *failing) fails() bool { return f.fault != 0 && f.stores >= f.after }

func (f *failing) dead() bool { return f.fails() && f.fault <= faultOnes }

// target is one of the devices.
type target struct {
	hal.BaseDevice
	*failing
	view  *fbs.View
	index int
}

func newFailing(t *testing.T, view *fbs.View, fault, after int) (f *failing, devices []hal.Device) {
	f = &failing{fault: fault, after: after}
	next := uint64(0)
	for i := range view.Devices {
		devices = append(devices, &target{failing: f, view: view, index: i})
		for _, size := range view.Devices[i].MinBarSizes() {
			next += roundUp(size)
		}
	}
	for _, kind := range [...]gen.WindowKind{gen.WindowKindHost, gen.WindowKindTlb,
		gen.WindowKindConfig} {
		f.next[kind] = next
		for i := range view.Windows {
			if view.Windows[i].Kind == kind {
				next += roundUp(view.Windows[i].Size)
			}
		}
	}
	var err error
	f.memory, err = unix.Mmap(-1, 0, int(next)+4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	return f, devices
}

func roundUp(n uint64) uint64 { return (n + 4095) &^ 4095 }

func (d *target) Identity() hal.Identity {
	t := &d.view.Devices[d.index]
	return hal.Identity{Vendor: t.Vendor, Device: t.Device, Subsystem: t.Subsystem,
		Bars: *t.MinBarSizes()}
}

func (d *target) Map(w fbs.Window) (hal.Aperture, error) {
	at, slot := uint64(0), -1
	if w.Kind == gen.WindowKindBar {
		for t := range d.index + 1 {
			for b, size := range d.view.Devices[t].MinBarSizes() {
				if t < d.index || b < int(w.Bar) {
					at += roundUp(size)
				}
			}
		}
		at += w.Offset
	} else {
		at = d.next[w.Kind]
		d.next[w.Kind] += roundUp(w.Size)
	}
	if w.Kind == gen.WindowKindTlb {
		slot = d.tlbs // its number among the TLB windows, for the log
		d.tlbs++
	}
	a := hal.NewAperture(&port64{d.failing, at}, w.Size, slot)
	a.Bus = 0x10000000 + at
	return a, nil
}

func (d *target) ProgramWindow(a *hal.Aperture, t fbs.TileRange, address uint64) hal.Code {
	d.log = append(d.log, fmt.Sprintf("P %d %x %x", a.Slot, address, boards.TileRange(t).Pack()))
	return hal.OK
}

func (d *target) Diagnose() hal.Code { return hal.DeviceGoneUnlessAlive(d) }

func (d *target) Alive() bool   { return !d.dead() }
func (d *target) Now() int64    { return d.now }
func (d *target) Sleep(n int64) { d.now += n }
func (d *target) Close() error  { return nil }

// port64 is the port of a window.
type port64 struct {
	*failing
	at uint64
}

func (p *port64) Load(offset uint64, width uint8) (value uint64, code hal.Code) {
	p.now += accessNs
	if (p.at+offset)%uint64(width) != 0 {
		return 0, hal.Refused // as no device takes it
	}
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
	p.log = append(p.log, fmt.Sprintf("L %d %x %x", width, p.at+offset, value))
	return value, hal.OK
}

func (p *port64) Store(offset uint64, width uint8, value uint64) hal.Code {
	p.now += accessNs
	if (p.at+offset)%uint64(width) != 0 {
		return hal.Refused
	}
	if p.fails() && p.fault == faultErrors {
		return hal.DeviceGone
	}
	p.log = append(p.log, fmt.Sprintf("S %d %x %x", width, p.at+offset, value&fbs.WidthMask(width)))
	for i := range uint64(width) {
		if !p.dead() {
			p.memory[p.at+offset+i] = byte(value >> (8 * i))
		}
	}
	if p.stores++; p.stores == p.after {
		p.failed = p.now
	}
	return hal.OK
}

// played is what the runtime makes of an image on such a device, as the C player
// prints it.
func played(t *testing.T, path string, fault, after int) []string {
	t.Helper()
	var f *failing
	replay, done := loaded(t, path, func(view *fbs.View) (devices []hal.Device) {
		f, devices = newFailing(t, view, fault, after)
		return devices
	})
	defer unix.Munmap(f.memory)
	defer done()
	view := replay.View()
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleInput && view.Tensors[i].HasData == 0 {
			replay.Input(i) // zeros
		}
	}
	f.log = nil
	r := replay.Run(0)
	ran := 0
	if r.SafeRan {
		ran = 1
	}
	got, want, mask := r.Got, r.Want, r.Mask
	if exit := r.Code.ExitStatus(); exit != 75 && exit != 76 {
		got, want, mask = 0, 0, 0
	}
	command := int32(0)
	if r.Code != hal.OK {
		command = r.Command
	}
	lines := append(f.log, fmt.Sprintf("end %d %d %x %x %x %d %d %d", r.Code.ExitStatus(), command,
		got,
		want, mask, r.Ignored, ran, r.Safe.ExitStatus()))
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput {
			lines = append(lines, fmt.Sprintf("output %x", fbs.Checksum(replay.Output(i))))
		}
	}
	return once(lines)
}

// once keeps one of loads of a place that follow each other: how often a player
// looks while it waits is its own affair, and so is when. The last counts.
func once(lines []string) (kept []string) {
	place := func(line string) string { return line[:strings.LastIndexByte(line, ' ')] }
	for _, line := range lines {
		if n := len(kept); n > 0 && line[0] == 'L' && kept[n-1][0] == 'L' &&
			place(line) == place(kept[n-1]) {
			kept = kept[:n-1]
		}
		kept = append(kept, line)
	}
	return kept
}

// playedAlike plays an image on both sides, and gives the status it ended with.
func playedAlike(t *testing.T, program, path string, fault, after int) (status string) {
	t.Helper()
	out, err := exec.Command(program, "play", path, fmt.Sprint(fault), fmt.Sprint(after)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := once(strings.Split(strings.TrimSpace(string(out)), "\n"))
	got := played(t, path, fault, after)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s, fault %d after %d stores: line %d of %d and %d: the runtime %q, C %q",
				filepath.Base(path), fault, after, i, len(got), len(want), got[min(i, len(got)-1)],
				want[min(i, len(want)-1)])
			break
		}
	}
	for _, line := range got {
		if strings.HasPrefix(line, "end ") {
			status = strings.Fields(line)[1]
		}
	}
	return status
}

// endedAlike counts how runs ended, and wants every way among them.
func endedAlike(t *testing.T, ended map[string]int, ways ...string) {
	t.Helper()
	for _, way := range ways {
		if ended[way] == 0 {
			t.Errorf("runs ended %v: none with %s", ended, way)
		}
	}
	t.Logf("evidence: runs ended %v, alike on both sides", ended)
}

// Both players do the same to a device that fails, and say the same of it:
// accesses, status, command, values, what was ignored, safe, and outputs.
func TestBothPlayersMakeTheSameOfADeviceThatFails(t *testing.T) {
	program := compileC(t)
	ended := map[string]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 16))
		path := encode(t, images.Any(random))
		for fault := range faults {
			ended[playedAlike(t, program, path, fault, 1+random.IntN(60))]++
		}
	}
	endedAlike(t, ended, "0", "71", "75", "76")
}

// forgiving is an image of which every check may fail, so that memory, which
// answers none as a device does, is played with to the end.
func forgiving(t *testing.T, path string) string {
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

// So they do with every image of testdata and of its listings, whatever devices
// they are for: memory stands for them, and tiles are where windows point.
func TestBothPlayersMakeTheSameOfTestdataOnADeviceThatFails(t *testing.T) {
	program := compileC(t)
	good, _ := everyImage(t)
	ended, random := map[string]int{}, rand.New(rand.NewPCG(16, 4))
	for _, path := range good {
		for fault := range faults {
			after := 1<<random.IntN(8) + random.IntN(8)
			ended[playedAlike(t, program, path, fault, after)]++
			ended[playedAlike(t, program, forgiving(t, path), fault, after)]++
		}
	}
	endedAlike(t, ended, "0", "71", "76")
}
