package runtime_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
)

// acceleratedMock is a strict mock on which every replay ends soon: its clock advances a second
// each time it is read, Sleep returns immediately, and operations after operationsMax fail. The
// cores of tiles run only while the time of the embedded mock passes.
type acceleratedMock struct {
	*mock.Device
	clockReads int64
}

const operationsMax = 20_000

func newAcceleratedMock(board *boards.Board) *acceleratedMock {
	device := &acceleratedMock{Device: mock.New(board)}
	for n := range len(board.BarSizes) { // at least as many faults as a replay has runs, with safe
		device.Inject(mock.Fault{Kind: mock.BusFault, Operation: operationsMax + n})
	}
	return device
}

func (d *acceleratedMock) Now() int64 {
	d.clockReads++
	return d.clockReads * 1_000_000_000
}

func (d *acceleratedMock) Sleep(int64) {}

// modelOnlyRejection matches rejections that only a device model can make, and not the verifier:
// registers that the model does not have, transfers of edu, and values of nvme's CC and doorbells.
var modelOnlyRejection = regexp.MustCompile(
	`the device model rejects the access: .*(register|DMA transfer|not mapped|\bCC\b|queue)`)

// tryFile verifies a file of unknown content, loads it and runs all its sequences. It reports
// whether the file was verified and whether it was loaded. The test fails if the mock rejects an
// access.
func tryFile(t *testing.T, what string, file []byte) (verified, loaded bool) {
	view, err := fbs.Verify(file)
	if err != nil {
		return false, false
	}
	const bytesMax = 1 << 26 // memory of this process; fuzzing has many processes
	board := view.Board(0)
	if len(view.Devices) != 1 || max(view.Reservation.HostBytes,
		view.Reservation.ArenaBytes) > bytesMax {
		return true, false
	}
	for sequence := range view.Sequences {
		device := newAcceleratedMock(board)
		replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
		if err != nil {
			if device.Operations() != 0 {
				t.Errorf("%s: Load fails with %v after %d operations, want none", what, err,
					device.Operations())
			}
			return true, false
		}
		for i := range view.Tensors {
			if tensor := &view.Tensors[i]; tensor.Role == gen.RoleInput && tensor.HasData == 0 {
				replay.Input(i)
			}
		}
		result := replay.Run(sequence)
		// Only the device knows what a value of a register starts, and which tiles are missing.
		byModel := modelOnlyRejection.MatchString(device.Refusal()) ||
			chips.ForBoard(board).Grid != nil
		if plainMemory := board == &boards.Ivshmem ||
			len(view.Rules) > 0; device.Refusal() != "" && (plainMemory || !byModel) {
			t.Errorf("%s: the mock rejected an access of a verified image: %q", what,
				device.Refusal())
		}
		if result.Code == hal.Internal {
			t.Errorf("%s: run ends with an internal error: %+v", what, result)
		}
		replay.Close()
	}
	if view.WorstCaseUs[0] < 100_000 {
		checkCommandCount(t, what, view, newAcceleratedMock(board))
	}
	return true, true
}

// checkCommandCount runs the first sequence and counts the commands that are executed. The
// worst-case time includes at least a microsecond for each of them, also for cheap commands and in
// called sequences.
func checkCommandCount(t *testing.T, what string, view *fbs.View, device hal.Device) {
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
		t.Errorf("%s: a run executed %d commands, but its worst-case time is %d us", what, count,
			most)
	}
}

// callsOfFences returns a listing that calls a sequence of fences. Each command takes little time,
// but their number is the product of calls and fences.
func callsOfFences(calls, fences int) string {
	return ivshmemHead + "main:\n" + strings.Repeat("  call fences\n", calls) + "fences:\n" +
		strings.Repeat("  fence\n", fences)
}

// fixChecksum updates the checksum after a change, so that the verifier does not reject the file
// because of its checksum.
func fixChecksum(file []byte) {
	if len(file) < 72 {
		return
	}
	envelope := min(max(72, binary.LittleEndian.Uint64(file[32:])), uint64(len(file)))
	lmb.Stamp(file, envelope)
}

// object is a struct or a table of an image. The methods of value include the generated ones that
// change a field (Mutate...).
type object struct {
	name  string // type and index, such as "Window 1"
	value reflect.Value
}

// objects returns all structs and tables of a file that have scalar fields. If the schema has a
// table that is missing here, TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely fails.
func objects(file []byte) (list []object) {
	root := gen.GetRootAsImage(file, 0)
	reservation := reflect.ValueOf(root.Reservation(nil))
	return slices.Concat([]object{{"Reservation 0", reservation}},
		elements("Target", root.DevicesLength(), root.Devices),
		elements("Rule", root.RulesLength(), root.Rules),
		elements("Window", root.WindowsLength(), root.Windows),
		elements("Sequence", root.SequencesLength(), root.Sequences),
		elements("Tensor", root.TensorsLength(), root.Tensors),
		elements("Segment", root.SegmentsLength(), root.Segments),
		elements("Command", root.CommandsLength(), root.Commands))
}

// elements returns the elements of a vector, which get reads.
func elements[T any](name string, count int, get func(x *T, i int) bool) (list []object) {
	for i := range count {
		x := new(T)
		get(x, i)
		list = append(list, object{fmt.Sprintf("%s %d", name, i), reflect.ValueOf(x)})
	}
	return list
}

// edgeValues returns the values that tests try for a field with a number of bits and a present
// value.
func edgeValues(bits int, now uint64) []uint64 {
	most := ^uint64(0) >> (64 - bits)
	half := uint64(1) << (bits - 1)
	return []uint64{0, 1, 2, most, most - 1, half, half - 1, half + 1, (now + 1) & most,
		(now - 1) & most, now << 1 & most, now ^ 4}
}

// mutate sets each field of an object to each of its edge values, calls f after each change, and
// restores the field. It returns the number of fields.
func (o *object) mutate(f func(what string)) (fields int) {
	for i := range o.value.NumMethod() {
		field, isMutator := strings.CutPrefix(o.value.Type().Method(i).Name, "Mutate")
		if !isMutator {
			continue
		}
		set := func(value reflect.Value) bool {
			return o.value.Method(i).Call([]reflect.Value{value})[0].Bool()
		}
		old := o.value.MethodByName(field).Call(nil)[0]
		if !set(old) {
			continue // the field is absent, because it has its default
		}
		fields++
		for _, value := range valuesOf(old) {
			set(value)
			f(fmt.Sprintf("%s.%s = %v", o.name, field, value))
		}
		set(old)
	}
	return fields
}

// valuesOf returns the edge values of a field's type.
func valuesOf(old reflect.Value) (values []reflect.Value) {
	if old.Kind() == reflect.Bool {
		return []reflect.Value{reflect.ValueOf(!old.Bool())}
	}
	for _, edge := range edgeValues(old.Type().Bits(), old.Uint()) {
		values = append(values, reflect.ValueOf(edge).Convert(old.Type()))
	}
	return values
}

// fullListing describes an image for plain memory with every command that plain memory accepts.
const fullListing = `lightmetal 1
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

// unknownDeviceListing is fullListing for an unknown device, whose rules are in the image.
var unknownDeviceListing = strings.Replace(fullListing, "target ivshmem 1af4:1110 bar2 1MiB\n",
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

// eduOverflowListing starts a transfer that is larger than edu's buffer of 4 KiB. The verifier
// accepts the image, and only the device can reject the transfer.
const eduOverflowListing = `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0 size 1MiB
main:
  write.8 r+0x80 0x40000
  write.8 r+0x90 0x7f000000000001
  write.8 r+0x98 0x3
`

// nvmeReservedBitsListing sets reserved bits of nvme's CC.
const nvmeReservedBitsListing = `lightmetal 1
target nvme 1b36:0010 bar0 16KiB
window r bar0 offset 0 size 4KiB
main:
  write.4 r+0x14 0xffffffff
`

// TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely sets every scalar field of an image to its edge
// values and updates the checksum. Such a file must be rejected, or run on the strict mock without
// an access that the mock rejects.
func TestEdgeValuesOfEveryFieldAreRejectedOrRunSafely(t *testing.T) {
	edu, err := os.ReadFile("../testdata/images/edu-factorial.lmb")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{"everything": assembleImage(t, fullListing),
		"stranger": assembleImage(t, unknownDeviceListing), "edu-factorial": edu} {
		t.Run(name, func(t *testing.T) {
			if verified, loaded := tryFile(t, name, file); !verified || !loaded {
				t.Fatalf("%s, unchanged: verified %v, loaded %v; want both true", name, verified,
					loaded)
			}
			work := bytes.Clone(file)
			tried, verified, loaded, fields := 0, 0, 0, map[string]int{}
			for _, o := range objects(work) {
				kind, _, _ := strings.Cut(o.name, " ")
				fields[kind] = max(fields[kind], o.mutate(func(what string) {
					if tried++; tried%effort.Cases(5, 1, 1) != 0 {
						return
					}
					candidate := bytes.Clone(work)
					fixChecksum(candidate)
					v, l := tryFile(t, name+": "+what, candidate)
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
				t.Error("mutate did not restore all fields")
			}
			if name == "stranger" {
				checkFieldCounts(t, fields)
			}
		})
	}
}

// checkFieldCounts checks that as many fields of each type were tried as its Go struct has.
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
				t.Errorf("%s: %d fields were tried, want %d", kind, fields[kind], want)
			}
		})
	}
}

// FuzzReplay verifies, loads and runs any bytes as a target does with a file. go test runs it on
// the seeds, go test -fuzz also on mutations of them.
func FuzzReplay(f *testing.F) {
	f.Add(assembleImage(f, fullListing))
	f.Add(assembleImage(f, unknownDeviceListing))
	f.Add(assembleImage(f, smallListing))
	f.Add(assembleImage(f, eduOverflowListing))
	f.Add(assembleImage(f, nvmeReservedBitsListing))
	f.Add(assembleImage(f, ivshmemHead+
		"main:\n  call waits\n  call waits\n  call stores\nwaits:\n  delay 10s\n  delay 10s\n"+
		"stores:\n  fill.1 m+0x0 <- 0x1 size 1MiB fifo\n"))
	f.Add(assembleImage(f, callsOfFences(50, 50)))
	f.Add(assembleImage(f, callsOfFences(300, 0)))
	f.Add(assembleImage(f, ivshmemHead+"main:\n  call asks\n  call asks\nasks:\n"+
		strings.Repeat("  expect.4 m+0x0 == 0x1 else ignore\n", 20)+safeListing))
	f.Add(assembleImage(f, twoTargetsListing))
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
		tryFile(t, "unchanged", file)
		fixChecksum(file)
		tryFile(t, "with a valid checksum", file)
	})
}

// twoTargetsListing describes an image for two equal devices.
const twoTargetsListing = "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
	"target ivshmem 1af4:1110 bar2 1MiB\n" +
	"window a bar2 offset 0x0 size 4KiB\nwindow b bar2 offset 0x0 size 4KiB target 1\n" +
	"main:\n  write.4 a+0x0 0x1\n  write.4 b+0x0 0x1\n"

// alignedCopy returns a copy at a multiple of 8, like a mapped file.
func alignedCopy(data []byte) []byte {
	return append(make([]byte, 0, len(data)+8), data...)
}
