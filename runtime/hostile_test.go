package runtime_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

// impatient is a strict mock on which no replay is long: every look at the
// clock finds it a second later, nobody sleeps, and operations beyond
// operationsMax fail. Cores of tiles run only while the mock's own time passes.
type impatient struct {
	*mock.Device
	looks int64
}

const operationsMax = 20_000

func newImpatient(board *boards.Board) *impatient {
	device := &impatient{Device: mock.New(board)}
	for n := range len(board.BarSizes) { // more than the runs of one replay, safe included
		device.Inject(mock.Fault{Kind: mock.BusFault, Operation: operationsMax + n})
	}
	return device
}

func (d *impatient) Now() int64 {
	d.looks++
	return d.looks * 1_000_000_000
}

func (d *impatient) Sleep(int64) {}

// startedByAValue finds what models alone can refuse: registers that they do not
// have, edu's transfers, and what nvme's CC and doorbells say.
var startedByAValue = regexp.MustCompile(
	`the device model rejects the access: .*(register|DMA transfer|not mapped|\bCC\b|queue)`)

// tryHostile verifies, loads and runs all sequences of a file of unknown
// content. It returns how far the file came; the mock refuses nothing of what
// was loaded, or the test fails.
func tryHostile(t *testing.T, what string, file []byte) (verified, loaded bool) {
	view, err := fbs.Verify(file)
	if err != nil {
		return false, false
	}
	const bytesMax = 1 << 26 // of memory, in each of many processes at once
	board := view.Board(0)
	if len(view.Devices) != 1 || max(view.Reservation.HostBytes,
		view.Reservation.ArenaBytes) > bytesMax {
		return true, false
	}
	for sequence := range view.Sequences {
		device := newImpatient(board)
		replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
		if err != nil {
			if device.Operations() != 0 {
				t.Errorf("%s: refused with %v after %d operations", what, err, device.Operations())
			}
			return true, false
		}
		for i := range view.Tensors {
			if tensor := &view.Tensors[i]; tensor.Role == gen.RoleInput && tensor.HasData == 0 {
				replay.Input(i)
			}
		}
		result := replay.Run(sequence)
		// What a register's value starts and tiles that are not there are known to
		// the device alone.
		byModel := startedByAValue.MatchString(device.Refusal()) ||
			chips.ForBoard(board).Grid != nil
		if plainMemory := board == &boards.Ivshmem ||
			len(view.Rules) > 0; device.Refusal() != "" && (plainMemory || !byModel) {
			t.Errorf("%s: the device refused %q", what, device.Refusal())
		}
		if result.Code == hal.Internal {
			t.Errorf("%s: %+v", what, result)
		}
		replay.Close()
	}
	if view.WorstCaseUs[0] < 100_000 {
		checkCount(t, what, view, newImpatient(board))
	}
	return true, true
}

// checkCount runs the first sequence and counts what it executes: each command, however
// cheap and however often called, has a microsecond in the longest time.
func checkCount(t *testing.T, what string, view *fbs.View, device hal.Device) {
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleInput {
			replay.Input(i)
		}
	}
	count, most := uint64(0), view.WorstCaseUs[0]
	if safe := view.SequenceByName("safe"); safe > 0 {
		most += view.WorstCaseUs[safe]
	}
	replay.SetObserver(func(int) { count++ })
	if replay.Run(0); count > most {
		t.Errorf("%s: a run of %d commands, which may take %d us", what, count, most)
	}
}

// cheap is a million calls of a million fences as far as a test has time for it.
func cheap(calls, fences int) string {
	return ivshmem + "main:\n" + strings.Repeat("  call fences\n", calls) + "fences:\n" +
		strings.Repeat("  fence\n", fences)
}

// mend corrects the checksum after a change, so that the change itself
// is what the verifier has to judge.
func mend(file []byte) {
	if len(file) < 72 {
		return
	}
	envelope := min(max(72, binary.LittleEndian.Uint64(file[32:])), uint64(len(file)))
	lmb.Stamp(file, envelope)
}

// object is a struct or a table of an image, with the generated methods that
// change its fields.
type object struct {
	place  string
	value  reflect.Value
	length int // of its vector, which its two-argument methods take an index of
}

// objects lists everything in a file that has scalar fields. Adding a table to
// the schema without adding it here fails TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely.
func objects(file []byte) (list []object) {
	root := gen.GetRootAsImage(file, 0)
	add := func(name string, index, vector int, x any) {
		list = append(list, object{fmt.Sprintf("%s %d", name, index), reflect.ValueOf(x), vector})
	}
	add("Reservation", 0, 0, root.Reservation(nil))
	for i := range root.DevicesLength() {
		x := new(gen.Device)
		root.Devices(x, i)
		add("Target", i, 0, x)
	}
	for i := range root.RulesLength() {
		x := new(gen.Rule)
		root.Rules(x, i)
		add("Rule", i, 0, x)
	}
	for i := range root.WindowsLength() {
		x := new(gen.Window)
		root.Windows(x, i)
		add("Window", i, 0, x)
	}
	for i := range root.SequencesLength() {
		x := new(gen.Sequence)
		root.Sequences(x, i)
		add("Sequence", i, 0, x)
	}
	for i := range root.TensorsLength() {
		x := new(gen.Tensor)
		root.Tensors(x, i)
		add("Tensor", i, 0, x)
	}
	for i := range root.SegmentsLength() {
		x := new(gen.Segment)
		root.Segments(x, i)
		add("Segment", i, 0, x)
	}
	for i := range root.CommandsLength() {
		x := new(gen.Command)
		root.Commands(x, i)
		add("Command", i, 0, x)
	}
	return list
}

// edges are the values tried for a field of so many bits.
func edges(bits int, now uint64) []uint64 {
	most := ^uint64(0) >> (64 - bits)
	half := uint64(1) << (bits - 1)
	return []uint64{0, 1, 2, most, most - 1, half, half - 1, half + 1, (now + 1) & most,
		(now - 1) & most, now << 1 & most, now ^ 4}
}

// mutate calls f once for each edge value of each field of an object, the value
// being in place.
func (o *object) mutate(f func(what string)) (fields int) {
	for i := range o.value.NumMethod() {
		name, method := o.value.Type().Method(i).Name, o.value.Method(i)
		field, isMutator := strings.CutPrefix(name, "Mutate")
		if !isMutator {
			continue
		}
		indexes := 1
		if method.Type().NumIn() == 2 {
			indexes = o.length
		}
		for index := range indexes {
			var position []reflect.Value
			if method.Type().NumIn() == 2 {
				position = []reflect.Value{reflect.ValueOf(index)}
			}
			old := o.value.MethodByName(field).Call(position)[0]
			set := func(value reflect.Value) bool {
				return method.Call(append(position, value))[0].Bool()
			}
			if !set(old) {
				continue // absent: the default is not in the file
			}
			fields++
			for _, value := range valuesOf(old) {
				set(value)
				f(fmt.Sprintf("%s.%s[%d] = %v", o.place, field, index, value))
			}
			set(old)
		}
	}
	return fields
}

// valuesOf returns the edge values of a field's type.
func valuesOf(old reflect.Value) (values []reflect.Value) {
	if old.Kind() == reflect.Bool {
		return []reflect.Value{reflect.ValueOf(!old.Bool())}
	}
	for _, edge := range edges(old.Type().Bits(), old.Uint()) {
		values = append(values, reflect.ValueOf(edge).Convert(old.Type()))
	}
	return values
}

// everything is an image for plain memory with every command that it takes.
const everything = `lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0x1000 size 64KiB wc
window host host size 8KiB
window cfg config size 256
tensor a input uint8[64] = pattern 0x1 size 64
tensor b input int32[4x2]
tensor d output float16[32]
tensor e output uint8[64] = pattern 0x2 size 64
main:
  mark "start"
  begin "all"
  write.4 m+0x0 0x5
  write.8 m+0x8 bus(host)+0x40
  write.2 m+0x10 0x1 mask 0xff
  expect.2 cfg+0x4 & 0x1 == 0x0 else ignore
  expect.2 m+0x10 & 0xff == 0x1
  expect.2 cfg+0x0 != 0xffff
  poll.4 m+0x0 any-set 0x4 within 1ms every 5us
  poll.8 host+0x0 any-clear 0x1 within 1ms else ignore
  copy.4 m+0x100 <- hex 0011223344556677
  copy.1 m+0x200 <- a[0:64] bulk
  copy.8 host+0x0 <- b[0:32]
  fill.1 m+0x300 <- 0x55 size 99 fifo
  fill.4 m+0x404 <- 0x1 size 64 bulk
  copy.2 d[0:64] <- m+0x200
  copy.4 e[0:64] <- m+0x0 fifo
  compare.4 m+0x100 uint32 == hex 0011223344556677
  compare.4 m+0x400 float32 == float32 1 2 else ignore
  fence
  flush.4 m+0x0
  delay 10us
  call sub
  end "all"
sub:
  write.4 m+0x20 0x1
safe:
  write.4 m+0x24 0x1
`

// unknown is the same for a device of no known board, by rules of its own.
var unknown = strings.Replace(everything, "target ivshmem 1af4:1110 bar2 1MiB\n",
	`target stranger ffff:0001 bar1 8KiB bar2 1MiB
rule registers bar1 size 2KiB
rule doorbells bar1 offset 4KiB widths 4 8
rule memory bar2 widths 1 2 4 8 memory
window r bar1 offset 0 size 8KiB
`, 1) + `registers:
  write.4 r+0x7fc 0x1
  write.8 r+0x1000 0x1
  fill.4 r+0x400 <- 0x1 size 1KiB
`

// eduBeyondItsBuffer starts a transfer that edu's buffer of 4 KiB does not hold:
// an image that verifies, and that the device alone can refuse.
const eduBeyondItsBuffer = `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0 size 1MiB
main:
  write.8 r+0x80 0x40000
  write.8 r+0x90 0x7f000000000001
  write.8 r+0x98 0x3
`

// nvmeReserved sets reserved bits of nvme's CC.
const nvmeReserved = `lightmetal 1
target nvme 1b36:0010 bar0 16KiB
window r bar0 offset 0 size 4KiB
main:
  write.4 r+0x14 0xffffffff
`

// TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely sets every scalar field of an image to its edges, with
// digests and checksum mended: such a file is refused, or runs on the strict
// mock without an access that the mock refuses.
func TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely(t *testing.T) {
	edu, err := os.ReadFile("../testdata/images/edu-factorial.lmb")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{"everything": encoded(t, everything),
		"stranger": encoded(t, unknown), "edu-factorial": edu} {
		t.Run(name, func(t *testing.T) {
			if verified, loaded := tryHostile(t, name, file); !verified || !loaded {
				t.Fatalf("%s: verified %v, loaded %v", name, verified, loaded)
			}
			work := bytes.Clone(file)
			tried, verified, loaded, fields := 0, 0, 0, map[string]int{}
			for _, o := range objects(work) {
				kind, _, _ := strings.Cut(o.place, " ")
				fields[kind] = max(fields[kind], o.mutate(func(what string) {
					candidate := bytes.Clone(work)
					mend(candidate)
					v, l := tryHostile(t, name+": "+what, candidate)
					tried++
					if v {
						verified++
					}
					if l {
						loaded++
					}
				}))
			}
			t.Logf("evidence: %d values of fields tried, replayed where accepted (%s, %v: %d "+
				"verified, %d run)", tried, name, fields, verified, loaded)
			if !bytes.Equal(work, file) {
				t.Error("the fields were not put back")
			}
			if name == "stranger" {
				checkFieldCounts(t, fields)
			}
		})
	}
}

// checkFieldCounts compares the fields that were tried with the Go structs that
// the verifier reads.
func checkFieldCounts(t *testing.T, fields map[string]int) {
	for kind, want := range map[string]int{
		"Command":     reflect.TypeFor[fbs.Command]().NumField(),
		"Window":      reflect.TypeFor[fbs.Window]().NumField(),
		"Segment":     reflect.TypeFor[fbs.Segment]().NumField(),
		"Reservation": reflect.TypeFor[fbs.Reservation]().NumField(),
		"Target":      reflect.TypeFor[gen.DeviceT]().NumField(),
		"Sequence":    reflect.TypeFor[fbs.Sequence]().NumField(),
		"Rule":        reflect.TypeFor[fbs.AccessRule]().NumField(),
		"Tensor":      reflect.TypeFor[gen.TensorT]().NumField(),
	} {
		t.Run(kind, func(t *testing.T) {
			if fields[kind] < want {
				t.Errorf("%s: %d fields, want %d", kind, fields[kind], want)
			}
		})
	}
}

// FuzzReplay takes any bytes through all that a file goes through on a target.
// Plain go test runs it on the seeds; tools for fuzzing go on from there.
func FuzzReplay(f *testing.F) {
	f.Add(encoded(f, everything))
	f.Add(encoded(f, unknown))
	f.Add(encoded(f, small))
	f.Add(encoded(f, eduBeyondItsBuffer))
	f.Add(encoded(f, nvmeReserved))
	f.Add(encoded(f, ivshmem+
		"main:\n  call waits\n  call waits\n  call stores\nwaits:\n  delay 10s\n  delay 10s\n"+
		"stores:\n  fill.1 m+0x0 <- 0x1 size 1MiB fifo\n"))
	f.Add(encoded(f, cheap(50, 50)))
	f.Add(encoded(f, cheap(300, 0)))
	f.Add(encoded(f, ivshmem+"main:\n  call asks\n  call asks\nasks:\n"+
		strings.Repeat("  expect.4 m+0x0 == 0x1 else ignore\n", 20)+safe))
	f.Add(encoded(f, twoTargets))
	for _, pattern := range []string{"../testdata/images/*.lmb", "../testdata/bad/*.lmb"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			file, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := alignedCopy(data)
		tryHostile(t, "as it is", file)
		mend(file)
		tryHostile(t, "mended", file)
		tryOneFunction(t, file)
	})
}

// twoTargets is an image for two equal devices.
const twoTargets = "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
	"target ivshmem 1af4:1110 bar2 1MiB\n" +
	"window a bar2 offset 0x0 size 4KiB\nwindow b bar2 offset 0x0 size 4KiB target 1\n" +
	"main:\n  write.4 a+0x0 0x1\n  write.4 b+0x0 0x1\n"

// tryOneFunction loads a file for several devices with as many handles of one function:
// it is rejected, and no window is mapped.
func tryOneFunction(t *testing.T, file []byte) {
	view, err := fbs.Verify(file)
	if err != nil || len(view.Devices) < 2 {
		return
	}
	mapped := 0
	devices := make([]hal.Device, len(view.Devices))
	for i := range devices {
		devices[i] = handle{mock.New(view.Board(i)), fmt.Sprintf("handle %d", i), "0000:01:00.0",
			&mapped}
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, devices...)
	if err == nil {
		replay.Close()
	}
	if err == nil || mapped != 0 {
		t.Errorf("%d handles of one function: %v, %d windows mapped", len(devices), err, mapped)
	}
}

// alignedCopy returns a copy at a multiple of 8, like a mapped file.
func alignedCopy(data []byte) []byte {
	return append(make([]byte, 0, len(data)+8), data...)
}
