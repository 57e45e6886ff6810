//go:build !nolightmetal

package metal_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	kernels "lightmetal/testdata/kernels/metal"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/metal"
)

func TestCallsAreRecordedAtDepthOne(t *testing.T) {
	r := mocked(t)
	a, b := r.l1(64), r.l1(64)
	p := r.local("local.brisc", a, b, 2, 0)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), true))
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.LightMetalCompareToCapture(r.q, b, metal.Exact()))
	ok(t, metal.Finish(r.q))
	ok(t, metal.ReleaseProgram(p))
	ok(t, metal.DeallocateBuffer(a))
	image := r.end()
	want := []string{"CreateBuffer", "CreateBuffer", "CreateProgram", "CreateKernel",
		"SetRuntimeArgsBuffers", "EnqueueWriteBuffer",
		"EnqueueProgram", "LightMetalCompareToCapture", "Finish", "ReleaseProgram",
		"DeallocateBuffer"}
	if got := names(image.Calls); !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	if len(image.Image.Tensors) != 0 {
		t.Error("the read inside CompareToCapture became an output")
	}
}

func TestCallsOutsideACaptureTakeEffectAndAreNotRecorded(t *testing.T) {
	d, err := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	ok(t, err)
	r := &rig{d, d.CommandQueue(), t}
	a, b := r.l1(64), r.l1(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.local("local.brisc", a, b, 2, 0), false))
	ok(t, metal.LightMetalBeginCapture(d))
	if got := r.read(b)[3]; got != 8 {
		t.Errorf("b[3] = %d, want 8", got)
	}
	if got := names(r.end().Calls); !slices.Equal(got, []string{"EnqueueReadBuffer"}) {
		t.Errorf("recorded %v", got)
	}
}

func TestRecordingThatIsOffGivesAnEmptyBinary(t *testing.T) {
	d, err := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	ok(t, err)
	d.RecordingOff = true
	ok(t, metal.LightMetalBeginCapture(d))
	r := &rig{d, d.CommandQueue(), t}
	a := r.l1(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	ok(t, metal.LightMetalCompareToCapture(r.q, a, metal.Exact()))
	if got := r.read(a)[3]; got != 4 {
		t.Errorf("a[3] = %d, want 4: the calls must still take effect", got)
	}
	if b := r.end(); !b.IsEmpty() || b.Size() != 0 {
		t.Errorf("%d calls, %d bytes", len(b.Calls), b.Size())
	}
}

func TestArgumentsReachKernelsInAllThreeForms(t *testing.T) {
	for _, form := range []struct {
		name string
		set  func(p *metal.Program, k metal.KernelHandle, a, b *metal.Buffer) error
	}{
		{"SetRuntimeArgs", func(p *metal.Program, k metal.KernelHandle, a, b *metal.Buffer) error {
			return metal.SetRuntimeArgs(p, k, metal.CoreRange{},
				[]uint32{16, uint32(a.Address()), uint32(b.Address()), 2, 1})
		}},
		{"SetRuntimeArgsPerCore", func(p *metal.Program, k metal.KernelHandle, a,
			b *metal.Buffer) error {
			return metal.SetRuntimeArgsPerCore(p, k, []metal.CoreCoord{{}},
				[][]uint32{{16, uint32(a.Address()), uint32(b.Address()), 2, 1}})
		}},
		{"SetRuntimeArgsBuffers", func(p *metal.Program, k metal.KernelHandle, a,
			b *metal.Buffer) error {
			return metal.SetRuntimeArgsBuffers(p, k, metal.CoreRangeSet{{}},
				[]metal.RuntimeArg{metal.Word(16), metal.AddressOf(a), metal.AddressOf(b),
					metal.Word(2), metal.Word(1)})
		}},
	} {
		r := mocked(t)
		a, b := r.l1(64), r.l1(64)
		p := must(metal.CreateProgram(r.Device))
		k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
		ok(t, form.set(p, k, a, b))
		ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
		ok(t, metal.EnqueueProgram(r.q, p, true))
		if got := r.read(b)[4]; got != 11 {
			t.Errorf("%s: b[4] = %d, want 11", form.name, got)
		}
		binary := r.end()
		if !slices.Contains(names(binary.Calls), form.name) {
			t.Errorf("%s is not recorded", form.name)
		}
		outputs, result := replay(t, binary.Bytes(), mock.New(&boards.Wormhole), nil)
		if got := numbers(outputs["buffer-2"]); result.Code != hal.OK || got[4] != 11 {
			t.Errorf("%s: replay gives %v (%+v)", form.name, got, result)
		}
	}
}

// TestComparisonsHoldAtReplayAndFailForOtherData replays an image whose golden data must
// match, then corrupts one byte that it writes and expects the comparison to fail.
func TestComparisonsHoldAtReplayAndFailForOtherData(t *testing.T) {
	floats := func(list ...float32) (data []byte) {
		for _, f := range list {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
		}
		return append(data, make([]byte, 64-len(data))...)
	}
	data := floats(1, 2, 3, 4)
	for _, test := range []struct {
		how    metal.Comparison
		near   []byte // must pass as golden
		far    []byte // must not
		device bool   // capture the golden from the device
	}{
		{metal.Exact(), data, floats(1, 2, 3, 5), false},
		{metal.Tolerance(gen.DTypeFloat32, 0.1, 0), floats(1.05, 2, 3, 4), floats(1.2, 2, 3, 4),
			false},
		{metal.Correlation(gen.DTypeFloat32, 0.99), floats(2, 4, 6, 8), floats(4, 3, 2, 1), false},
		{metal.Exact(), data, floats(1, 2, 3, 5), true},
		{metal.Tolerance(gen.DTypeFloat32, 0.1, 0), floats(1.05, 2, 3, 4), floats(1.2, 2, 3, 4),
			true},
		{metal.Correlation(gen.DTypeFloat32, 0.99), floats(2, 4, 6, 8), floats(4, 3, 2, 1), true},
	} {
		r := mocked(t)
		b := r.l1(64)
		ok(t, metal.NameInput(b, "b", gen.DTypeFloat32, 16))
		ok(t, metal.EnqueueWriteBuffer(r.q, b, data, false))
		if test.device {
			ok(t, metal.LightMetalCompareToCapture(r.q, b, test.how))
		} else {
			ok(t, metal.LightMetalCompareToGolden(r.q, b, data, test.how))
		}
		file := r.end().Bytes()
		for want, input := range map[hal.Code][]byte{hal.OK: test.near,
			hal.CompareFailed: test.far} {
			outputs, result := replay(t, file, mock.New(&boards.Wormhole),
				map[string][]byte{"b": input})
			got := result.Code
			for _, out := range must(lmb.Decode(file)).Tensors {
				if out.Golden.Kind != 0 && !out.Golden.Compare(out.Name, out.DType, out.Shape,
					outputs[out.Name], out.Data).Matches {
					got = hal.CompareFailed
				}
			}
			if got != want {
				t.Errorf("%+v with %v: %v, want %v", test.how, input[:16], got, want)
			}
		}
	}
}

func TestCompareToCaptureNeedsSomethingThatComputes(t *testing.T) {
	r := newRig(t, &boards.Wormhole, nil)
	refused(t, metal.LightMetalCompareToCapture(r.q, r.l1(64), metal.Exact()),
		"this capture computes nothing")
}

func TestComparisonThatMakesNoSenseIsRefused(t *testing.T) {
	r := mocked(t)
	b, odd := r.l1(64), r.l1(12)
	for _, test := range []struct {
		how  metal.Comparison
		b    *metal.Buffer
		want string
	}{
		{metal.Comparison{}, b, "a comparison needs a type"},
		{metal.Tolerance(gen.DTypeFloat32, -1, 0), b, "tolerance -1 must be finite and not " +
			"negative"},
		{metal.Tolerance(gen.DTypeFloat32, 0, float32(math.NaN())), b, "tolerance NaN"},
		{metal.Correlation(gen.DTypeFloat32, 2), b, "correlation 2 must be between"},
		{metal.Tolerance(gen.DTypeInvalid, 0, 0), b, "a comparison needs a type"},
		{metal.Tolerance(gen.DTypeFloat64, 0, 0), odd,
			"12 bytes, must be a multiple of the element size, 8 bytes"},
	} {
		refused(t, metal.LightMetalCompareToGolden(r.q, test.b, make([]byte, test.b.Size()),
			test.how), test.want)
	}
	refused(t, metal.LightMetalCompareToGolden(r.q, b, make([]byte, 4), metal.Exact()),
		"there are 4 golden bytes, but buffer 1 has 64 bytes")
}

func TestUseAfterReleaseIsRefused(t *testing.T) {
	r := mocked(t)
	a, b := r.l1(64), r.l1(64)
	p := r.local("local.brisc", a, b, 1, 0)
	k := must(metal.CreateKernel(p, kernels.ELF("writer.ncrisc"), metal.CoreCoord{},
		metal.DataMovementConfig{Processor: metal.RISCV1}))
	ok(t, metal.DeallocateBuffer(a))
	const released = "buffer 1 was released"
	refused(t, metal.DeallocateBuffer(a), released)
	refused(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false), released)
	refused(t, metal.EnqueueReadBuffer(r.q, a, nil, false), released)
	refused(t, metal.LightMetalCompareToCapture(r.q, a, metal.Exact()), released)
	refused(t, metal.LightMetalCompareToGolden(r.q, a, counted(16), metal.Exact()), released)
	refused(t, metal.NameInput(a, "a", gen.DTypeUint8, 64), released)
	refused(t, metal.EnqueueProgram(r.q, p, false), released)
	refused(t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{},
		[]metal.RuntimeArg{metal.AddressOf(a)}), released)
	_, err := metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{0: 64}, Buffer: a})
	refused(t, err, released)
	ok(t, metal.ReleaseProgram(p))
	refused(t, metal.ReleaseProgram(p), "program 3 was released")
	refused(t, metal.EnqueueProgram(r.q, p, false), "program 3 was released")
	refused(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, nil), "program 3 was released")
	_, err = metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc)
	refused(t, err, "program 3 was released")
	ok(t, metal.CloseDevice(must(metal.CreateDevice(&boards.Wormhole, nil))))
}

func TestUnknownObjectsAreRefused(t *testing.T) {
	r, other := mocked(t), mocked(t)
	foreign := other.l1(64)
	refused(t, metal.EnqueueWriteBuffer(r.q, foreign, counted(16), false),
		"the buffer is nil, or belongs to another device")
	refused(t, metal.EnqueueWriteBuffer(r.q, nil, counted(16), false),
		"the buffer is nil, or belongs to another device")
	refused(t, metal.EnqueueWriteBuffer(nil, foreign, counted(16), false),
		"the command queue is nil")
	refused(t, metal.DeallocateBuffer(&metal.Buffer{}), "the buffer is nil")
	refused(t, metal.ReleaseProgram(nil), "the program is nil")
	refused(t, metal.EnqueueProgram(r.q, must(metal.CreateProgram(other.Device)), false),
		"the program is nil, or belongs to another device")
	p := must(metal.CreateProgram(r.Device))
	refused(t, metal.EnqueueProgram(r.q, p, false), "program 1 has no kernel")
	refused(t, metal.SetRuntimeArgs(p, 99, metal.CoreCoord{}, nil),
		"kernel 99 does not belong to program 1")
	refused(t, metal.UpdateCircularBufferTotalSize(p, 99, 64),
		"circular buffer 99 does not belong to program 1")
	k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	refused(t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{},
		[]metal.RuntimeArg{metal.AddressOf(foreign)}), "buffer 1 belongs to another device")
	refused(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{X: 1}, nil),
		"kernel 2 is not on core (1,0)")
}

func TestArgumentBlockThatDoesNotFitIsRefused(t *testing.T) {
	r := mocked(t)
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	refused(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, make([]uint32, 257)),
		"257 arguments are too many: a kernel has room for 256")
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, make([]uint32, 256)))
	refused(t, metal.SetRuntimeArgsPerCore(p, k, []metal.CoreCoord{{}}, nil), "1 cores, but 0 "+
		"lists")
	refused(t, metal.SetRuntimeArgsPerCore(p, k, []metal.CoreCoord{{}, {}}, [][]uint32{{}, {}}),
		"core (0,0) occurs twice")
}

func TestKernelsThatDoNotFitAreRefused(t *testing.T) {
	good := kernels.ELF("local.brisc")
	change := func(at int, value uint32) []byte {
		file := bytes.Clone(good)
		binary.LittleEndian.PutUint32(file[at:], value)
		return file
	}
	// offsets in an ELF32 file; the first program header follows
	const entry, flags, header = 24, 36, 52
	for _, test := range []struct {
		file []byte
		want string
	}{
		{nil, "not an ELF file"},
		{[]byte("#!/bin/sh"), "not an ELF file"},
		{good[:60], "not an ELF file"},
		{change(16, 0x003e0002), "an ELF file for EM_X86_64, not for RISC-V"},
		{must(os.ReadFile("/proc/self/exe")), "not for RISC-V"},
		{change(16, 0x00f30003), "must be a linked executable"},
		{change(flags, 1), "compressed instructions"},
		{change(header+20, 0x20001), "has 131073 bytes and is too large"},
		{change(header+8, 0x1fff0), "outside the part of L1 for kernels, 0x0..0x20000"},
		{change(header+8, 0xffb00000), "outside the part of L1"},
		{change(header+8, 2), "not aligned to 4 bytes"},
		{change(entry, 0x8000), "the entry address of the kernel, 0x8000, must be in a segment"},
		{change(header+16, 0x10000), "more bytes in the file than in memory"},
	} {
		p := must(metal.CreateProgram(mocked(t).Device))
		_, err := metal.CreateKernel(p, test.file, metal.CoreCoord{}, brisc)
		refused(t, err, test.want)
	}
	for end := range good { // any bytes give an error, never a panic
		p := must(metal.CreateProgram(mocked(t).Device))
		metal.CreateKernel(p, good[:end], metal.CoreCoord{}, brisc)
	}
}

func TestKernelsThatDoNotGetAlongAreRefused(t *testing.T) {
	r := mocked(t)
	p := must(metal.CreateProgram(r.Device))
	all := metal.CoreRange{End: metal.CoreCoord{X: 3, Y: 3}}
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), all, brisc))
	add := func(name string, config metal.KernelConfig) error {
		_, err := metal.CreateKernel(p, kernels.ELF(name), metal.CoreCoord{X: 3, Y: 3}, config)
		return err
	}
	refused(t, add("copy.brisc", brisc), "core (3,3) already has kernel 2 on the same processor")
	refused(t, add("copy.brisc", metal.DataMovementConfig{Processor: metal.RISCV1}),
		"overlaps kernel 2")
	refused(t, add("copy.brisc", metal.DataMovementConfig{Processor: metal.TRISC0}),
		"must run on RISCV0")
	refused(t, add("copy.brisc", metal.DataMovementConfig{NOC: 2}), "there is no NOC2")
	refused(t, add("copy.brisc", metal.ComputeConfig{Processor: metal.NCRISC}),
		"must run on TRISC0")
	refused(t, add("copy.brisc", nil), "pass a DataMovementConfig")
	for _, spec := range []metal.CoreSpec{nil, metal.CoreRangeSet{}} {
		_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), spec, brisc)
		refused(t, err, "the list of cores must not be empty")
	}
	for spec, want := range map[metal.CoreSpec]string{
		metal.CoreCoord{X: 8}: "(0,0) to (7,9)", metal.CoreCoord{Y: -1}: "not on the board " +
			"wormhole",
		metal.CoreRange{Start: metal.CoreCoord{X: 1}}: "ends before it starts",
	} {
		_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), spec, brisc)
		refused(t, err, want)
	}
	_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreRangeSet{{}, all}, brisc)
	refused(t, err, "core (0,0) occurs twice")
}

func TestBuffersThatMakeNoSenseAreRefused(t *testing.T) {
	r := mocked(t)
	at := func(v uint64) *uint64 { return &v }
	grid := metal.CoreRange{End: metal.CoreCoord{X: 1, Y: 1}}
	shard := func(rows, columns, high, wide int) *metal.ShardSpec {
		return &metal.ShardSpec{Grid: grid, Tensor: [2]int{rows, columns},
			Shard: [2]int{high, wide}}
	}
	must(metal.CreateBuffer(r.Device, metal.BufferConfig{Size: 4096, PageSize: 4096,
		Type: metal.DRAM, Address: at(0x10000)}))
	for _, test := range []struct {
		c    metal.BufferConfig
		want string
	}{
		{metal.BufferConfig{Size: 64, PageSize: 64}, "in DRAM or in L1"},
		{metal.BufferConfig{Size: 64, PageSize: 6, Type: metal.L1},
			"page size 6 must be a multiple of 4"},
		{metal.BufferConfig{Size: 64, Type: metal.L1}, "page size 0"},
		{metal.BufferConfig{PageSize: 64, Type: metal.L1}, "buffer size 0 must be a multiple"},
		{metal.BufferConfig{Size: 100, PageSize: 64, Type: metal.L1},
			"buffer size 100 must be a multiple of the page size, 64 bytes"},
		{metal.BufferConfig{Size: 1 << 32, PageSize: 64, Type: metal.L1}, "smaller than 4 GiB"},
		{metal.BufferConfig{Size: 1 << 28, PageSize: 1 << 28, Type: metal.L1},
			"L1 has no room for 268435456 bytes per bank"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.DRAM, Address: at(0x10fc0)},
			"0x10fc0..0x11000 in DRAM overlaps a buffer at 0x10000..0x11000"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.DRAM, Address: at(0x20020)},
			"address 0x20020 must be a multiple of 64"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Address: at(0x20000)},
			"is outside the part of L1 for buffers"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Address: at(1 << 63)},
			"is outside the part of L1 for buffers"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Layout: metal.HeightSharded},
			"must have a ShardSpec"},
		{metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Layout: 9},
			"buffer layout 9 does not exist"},
		{metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.L1, Layout: metal.HeightSharded,
			Shard: shard(2, 1, 1, 1)}, "2 x 1 pages in all, but the buffer has 4"},
		{metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.L1, Layout: metal.HeightSharded,
			Shard: shard(2, 2, 1, 1)}, "must have the width of the tensor"},
		{metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.L1, Layout: metal.WidthSharded,
			Shard: shard(2, 2, 1, 1)}, "must have the height of the tensor"},
		{metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.L1, Layout: metal.HeightSharded,
			Shard: shard(4, 1, 0, 1)}, "must not be empty"},
		{metal.BufferConfig{Size: 512, PageSize: 64, Type: metal.L1, Layout: metal.HeightSharded,
			Shard: shard(8, 1, 1, 1)}, "8 shards need one core each, but the grid has 4 cores"},
		{metal.BufferConfig{Size: 512, PageSize: 64, Type: metal.L1, Layout: metal.BlockSharded,
			Shard: shard(4, 2, 1, 1)}, "4 x 2 shards do not fit on a grid of 2 x 2"},
		{metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.DRAM, Layout: metal.HeightSharded,
			Shard: shard(4, 1, 1, 1)}, "(0,1) is not a DRAM bank"},
	} {
		_, err := metal.CreateBuffer(r.Device, test.c)
		refused(t, err, test.want)
	}
}

func TestCircularBuffersThatMakeNoSenseAreRefused(t *testing.T) {
	r := mocked(t)
	p := must(metal.CreateProgram(r.Device))
	one := func(index uint8, page uint64) map[uint8]uint64 { return map[uint8]uint64{index: page} }
	add := func(c metal.CircularBufferConfig) error {
		_, err := metal.CreateCircularBuffer(p, metal.CoreCoord{}, c)
		return err
	}
	ok(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(3, 64)}))
	refused(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(3, 64)}),
		"circular buffer 3 already exists on core (0,0)")
	refused(t, add(metal.CircularBufferConfig{TotalSize: 256}), "needs at least one index")
	refused(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(32, 64)}),
		"must be 0 to 31")
	refused(t, add(metal.CircularBufferConfig{TotalSize: 100, PageSizes: one(0, 64)}),
		"multiple of the page size, 64")
	refused(t, add(metal.CircularBufferConfig{TotalSize: 4 << 20, PageSizes: one(0, 64)}),
		"does not fit into L1")
	refused(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(0, 64),
		Buffer: r.l1(64)}), "larger than the 64 bytes of buffer")
	dram := must(metal.CreateBuffer(r.Device,
		metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.DRAM}))
	refused(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(0, 64), Buffer: dram}),
		"must be sharded and in L1")
	// A buffer that leaves less room than circular buffers take.
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	low := uint64(0x22080)
	must(metal.CreateBuffer(r.Device, metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1,
		Address: &low}))
	refused(t, metal.EnqueueProgram(r.q, p, false),
		"circular buffers of program 1 end at 0x22100 on core (0,0), so they overlap a buffer "+
			"at 0x22080")
}

// Circular buffers end at 0x22080 here. Every buffer counts, whichever was made
// first, and one may begin right behind them.
func TestCircularBuffersMayTouchABufferAndNotOverlapIt(t *testing.T) {
	for low, fits := range map[uint64]bool{0x22080: true, 0x22040: false, 0x22000: false} {
		r := mocked(t)
		p := must(metal.CreateProgram(r.Device))
		must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
		for index := range uint8(2) {
			must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
				metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{index: 64}}))
		}
		for _, address := range []uint64{0x30000, low, 0x28000} {
			must(metal.CreateBuffer(r.Device,
				metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Address: &address}))
		}
		err := metal.EnqueueProgram(r.q, p, false)
		if fits {
			ok(t, err)
			continue
		}
		refused(t, err, fmt.Sprintf("circular buffers of program 1 end at 0x22080 on core (0,0), "+
			"so they overlap a buffer at %#x", low))
	}
}

func TestUpdatesOfCircularBuffersReachTheNextLaunch(t *testing.T) {
	r := mocked(t)
	p := must(metal.CreateProgram(r.Device))
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	cb := must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 256, PageSizes: map[uint8]uint64{2: 64}}))
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.UpdateCircularBufferTotalSize(p, cb, 512))
	ok(t, metal.UpdateCircularBufferPageSize(p, cb, 2, 128))
	refused(t, metal.UpdateCircularBufferPageSize(p, cb, 3, 128), "has no index 3")
	refused(t, metal.UpdateCircularBufferTotalSize(p, cb, 100), "multiple of the page size")
	refused(t, metal.UpdateDynamicCircularBufferAddress(p, cb, nil), "the buffer is nil")
	ok(t, metal.EnqueueProgram(r.q, p, false))
	var got [][]int32
	for _, c := range r.end().Image.Sequences[0].Commands {
		if c.Opcode == gen.OpcodeCopyIn && c.Offset == 0x20320 {
			got = append(got, numbers(c.Data))
		}
	}
	want := [][]int32{{0x22000, 256, 64, 4}, {0x22000, 512, 128, 4}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("descriptors %v, want %v", got, want)
	}
}

func TestBuffersAndCoresSayWhereTheyAre(t *testing.T) {
	for board, want := range map[*boards.Board]string{
		&boards.Wormhole:  "grid (8,10), 6 banks, core 0x1719, page 0x1719, bank 0x500",
		&boards.Blackhole: "grid (14,10), 8 banks, core 0x70a, page 0x70a, bank 0xf12",
	} {
		r := newRig(t, board, nil)
		core := metal.CoreCoord{X: 7, Y: 5}
		l1, err := metal.CreateBuffer(r.Device,
			metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1, Layout: metal.WidthSharded,
				Shard: &metal.ShardSpec{Grid: core, Tensor: [2]int{1, 1}, Shard: [2]int{1, 1}}})
		ok(t, err)
		dram, err := metal.CreateBuffer(r.Device,
			metal.BufferConfig{Size: 1024, PageSize: 64, Type: metal.DRAM})
		ok(t, err)
		got := fmt.Sprintf("grid %v, %d banks, core %#x, page %#x, bank %#x", r.GridSize(),
			r.DRAMBanks(), must(r.WorkerCore(core)), l1.Tile(0), dram.Tile(1))
		if r.Board() != board || got != want {
			t.Errorf("%s: %s, want %s", board.Name, got, want)
		}
		_, err = r.WorkerCore(metal.CoreCoord{X: 99})
		refused(t, err, "not on the board "+board.Name)
	}
}

func TestTensorNamesThatMakeNoSenseAreRefused(t *testing.T) {
	r := mocked(t)
	b := r.l1(64)
	refused(t, metal.NameInput(b, "", gen.DTypeInt32, 16), "must have 1 to")
	refused(t, metal.NameInput(b, strings.Repeat("x", 300), gen.DTypeInt32, 16),
		"must have 1 to")
	refused(t, metal.NameOutput(b, "b", gen.DTypeInt32, 15),
		"tensor b has 60 bytes, but the buffer has 64")
	refused(t, metal.NameOutput(b, "b", gen.DTypeInt32, 16, 1, 1, 1, 1, 1, 1, 1, 1), "9 dimensions")
	refused(t, metal.EnqueueWriteBuffer(r.q, b, make([]byte, 60), true),
		"the slice data has 60 bytes, but buffer 1 has 64 bytes")
	refused(t, metal.EnqueueReadBuffer(r.q, b, make([]byte, 60), true),
		"the slice data has 60 bytes, but buffer 1 has 64 bytes")
}

func TestTensorsAreNumberedWhereANameComesAgain(t *testing.T) {
	r := mocked(t)
	b := r.l1(64)
	ok(t, metal.NameInput(b, "in", gen.DTypeInt32, 4, 4))
	for _, data := range [][]byte{counted(16), make([]byte, 64), counted(16)} {
		ok(t, metal.EnqueueWriteBuffer(r.q, b, data, false))
		ok(t, metal.EnqueueReadBuffer(r.q, b, nil, false))
	}
	var got []string
	for _, tensor := range r.end().Image.Tensors {
		got = append(got, fmt.Sprint(tensor.Name, tensor.Shape))
	}
	if want := []string{"in[4 4]", "buffer-1[64]", "in.2[4 4]", "buffer-1.2[64]",
		"buffer-1.3[64]"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestProgramThatHangsIsReportedAndLeavesCoresInReset(t *testing.T) {
	on := mock.New(&boards.Wormhole)
	r := newRig(t, &boards.Wormhole, on)
	p := must(metal.CreateProgram(r.Device))
	// The writer waits for a page that nobody pushes.
	k := must(metal.CreateKernel(p, kernels.ELF("writer.ncrisc"), metal.CoreCoord{},
		metal.DataMovementConfig{Processor: metal.RISCV1}))
	must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{16: 64}}))
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, []uint32{64, 0, 1, 64}))
	r.Deadline = 1e6 // 1 ms
	err := metal.EnqueueProgram(r.q, p, true)
	refused(t, err, "poll deadline passed: mock:wormhole: command")
	refused(t, err, "of EnqueueProgram program 1: a kernel failed or did not finish; the "+
		"kernel's done word is 0x0")
	refused(t, metal.Finish(r.q), "poll deadline passed")
	a, errMap := on.Map(fbs.Window{Kind: gen.WindowKindTlb, Size: 1 << 20, Slot: fbs.AnySlot})
	ok(t, errMap)
	reset := chips.ForBoard(&boards.Wormhole).Grid.TensixReset
	on.ProgramWindow(&a, fbs.TileRoute{X: 18, Y: 18, Ordering: boards.OrderingDefault},
		reset.Address&^0xfffff)
	if v, c := a.Load(uint32(reset.Address&0xfffff), 4); c != hal.OK || v != uint64(reset.Mask) {
		t.Errorf("SOFT_RESET_0 is %#x (%v)", v, c)
	}
	r.Deadline = 0
	refused(t, metal.EnqueueProgram(r.q, p, true), "deadline 0s must be 1 us to 71 minutes")
}

func TestKernelThatFailsIsReportedWithItsNumber(t *testing.T) {
	r := mocked(t)
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF("eltwise.trisc0"), metal.CoreCoord{},
		metal.ComputeConfig{}))
	must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{16: 64}}))
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, []uint32{99}))
	r.Deadline = 1e6
	refused(t, metal.EnqueueProgram(r.q, p, true),
		"the kernel's done word is 0xbad00001, not 0x600df00d")
}

func TestCaptureMisuseIsRefused(t *testing.T) {
	r := mocked(t)
	refused(t, metal.LightMetalBeginCapture(r.Device), "a capture has begun already")
	refused(t, metal.CloseDevice(r.Device), "call LightMetalEndCapture before CloseDevice")
	b := r.end()
	if !b.IsEmpty() {
		t.Error("a capture of nothing is not empty")
	}
	_, err := metal.LightMetalEndCapture(r.Device)
	refused(t, err, "no capture has begun; call LightMetalBeginCapture first")
	ok(t, metal.CloseDevice(r.Device))
	refused(t, metal.CloseDevice(r.Device), "the device is closed")
	_, err = metal.CreateProgram(r.Device)
	refused(t, err, "the device is closed")
	_, err = metal.CreateDevice(&boards.Edu, nil)
	refused(t, err, "the board must have a grid of cores")
	_, err = metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Blackhole))
	refused(t, err, "mock:blackhole has PCI ids 1e52:b140, but board wormhole has 1e52:401e")
}

func TestImageNamesTheCallsAndTheirObjects(t *testing.T) {
	r := mocked(t)
	a, b := r.l1(64), r.l1(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.local("local.brisc", a, b, 1, 1), false))
	var marks []string
	binary := r.end()
	for _, c := range binary.Image.Sequences[0].Commands {
		if c.Opcode == lmb.OpcodeMark {
			marks = append(marks, string(c.Data))
		}
	}
	if want := []string{"EnqueueWriteBuffer buffer 1",
		"EnqueueProgram program 3"}; !slices.Equal(marks, want) {
		t.Errorf("%v, want %v", marks, want)
	}
	path := filepath.Join(t.TempDir(), "x.lmb")
	ok(t, binary.SaveToFile(path))
	if file := must(os.ReadFile(path)); !bytes.Equal(file, binary.Bytes()) ||
		len(file) != binary.Size() {
		t.Error("the file is not the binary")
	}
}
