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

func TestNestedCallsAreNotRecorded(t *testing.T) {
	r := newMockRig(t)
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	p := r.scaleProgram("local.brisc", a, b, 2, 0)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), true))
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.LightMetalCompareToCapture(r.q, b, metal.Exact()))
	ok(t, metal.Finish(r.q))
	ok(t, metal.ReleaseProgram(p))
	ok(t, metal.DeallocateBuffer(a))
	image := r.endCapture()
	want := []string{"CreateBuffer", "CreateBuffer", "CreateProgram", "CreateKernel",
		"SetRuntimeArgsBuffers", "EnqueueWriteBuffer",
		"EnqueueProgram", "LightMetalCompareToCapture", "Finish", "ReleaseProgram",
		"DeallocateBuffer"}
	if got := callNames(image.Calls); !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	if len(image.Image.Tensors) != 0 {
		t.Errorf("the image has %d tensors, want 0: the read inside LightMetalCompareToCapture "+
			"must not become an output", len(image.Image.Tensors))
	}
}

func TestCallsOutsideACaptureTakeEffectAndAreNotRecorded(t *testing.T) {
	d, err := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	ok(t, err)
	r := &rig{d, d.CommandQueue(), t}
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.scaleProgram("local.brisc", a, b, 2, 0), false))
	ok(t, metal.LightMetalBeginCapture(d))
	if got := r.readBuffer(b)[3]; got != 8 {
		t.Errorf("b[3] = %d, want 8", got)
	}
	if got := callNames(r.endCapture().Calls); !slices.Equal(got, []string{"EnqueueReadBuffer"}) {
		t.Errorf("recorded %v, want only EnqueueReadBuffer", got)
	}
}

func TestCaptureWithRecordingOffIsEmpty(t *testing.T) {
	d, err := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	ok(t, err)
	d.RecordingOff = true
	ok(t, metal.LightMetalBeginCapture(d))
	r := &rig{d, d.CommandQueue(), t}
	a := r.createL1Buffer(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	ok(t, metal.LightMetalCompareToCapture(r.q, a, metal.Exact()))
	if got := r.readBuffer(a)[3]; got != 4 {
		t.Errorf("a[3] = %d, want 4: the calls must still take effect", got)
	}
	if b := r.endCapture(); !b.IsEmpty() || b.Size() != 0 {
		t.Errorf("the binary has %d calls and %d bytes, want an empty binary", len(b.Calls),
			b.Size())
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
		r := newMockRig(t)
		a, b := r.createL1Buffer(64), r.createL1Buffer(64)
		p := must(metal.CreateProgram(r.Device))
		k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
		ok(t, form.set(p, k, a, b))
		ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
		ok(t, metal.EnqueueProgram(r.q, p, true))
		if got := r.readBuffer(b)[4]; got != 11 {
			t.Errorf("%s: b[4] = %d, want 11", form.name, got)
		}
		binary := r.endCapture()
		if !slices.Contains(callNames(binary.Calls), form.name) {
			t.Errorf("the call %s is not recorded", form.name)
		}
		outputs, result := replay(t, binary.Bytes(), mock.New(&boards.Wormhole), nil)
		if got := decodeInt32s(outputs["buffer-2"]); result.Code != hal.OK || got[4] != 11 {
			t.Errorf("%s: the replay's output is %v, result %+v; want element 4 to be 11",
				form.name, got, result)
		}
	}
}

// TestComparisonsPassAtReplayAndFailForOtherData replays each image twice: with an input that is
// close enough to the golden data, and with one that is not, for which the comparison must fail.
func TestComparisonsPassAtReplayAndFailForOtherData(t *testing.T) {
	floats := func(list ...float32) (data []byte) {
		for _, f := range list {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
		}
		return append(data, make([]byte, 64-len(data))...)
	}
	data := floats(1, 2, 3, 4)
	for _, test := range []struct {
		how    metal.Comparison
		near   []byte // input for which the comparison must pass
		far    []byte // input for which the comparison must fail
		device bool   // the golden data are those that the device had at capture
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
		r := newMockRig(t)
		b := r.createL1Buffer(64)
		ok(t, metal.NameInput(b, "b", gen.DTypeFloat32, 16))
		ok(t, metal.EnqueueWriteBuffer(r.q, b, data, false))
		if test.device {
			ok(t, metal.LightMetalCompareToCapture(r.q, b, test.how))
		} else {
			ok(t, metal.LightMetalCompareToGolden(r.q, b, data, test.how))
		}
		file := r.endCapture().Bytes()
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
				t.Errorf("%+v of a buffer that begins with %v: %v, want %v", test.how, input[:16],
					got, want)
			}
		}
	}
}

func TestCompareToCaptureWithoutADeviceIsRejected(t *testing.T) {
	r := newRig(t, &boards.Wormhole, nil)
	wantError(t, metal.LightMetalCompareToCapture(r.q, r.createL1Buffer(64), metal.Exact()),
		"this capture computes nothing")
}

func TestInvalidComparisonsAreRejected(t *testing.T) {
	r := newMockRig(t)
	b, of12Bytes := r.createL1Buffer(64), r.createL1Buffer(12)
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
		{metal.Tolerance(gen.DTypeFloat64, 0, 0), of12Bytes,
			"12 bytes, must be a multiple of the element size, 8 bytes"},
	} {
		wantError(t, metal.LightMetalCompareToGolden(r.q, test.b, make([]byte, test.b.Size()),
			test.how), test.want)
	}
	wantError(t, metal.LightMetalCompareToGolden(r.q, b, make([]byte, 4), metal.Exact()),
		"there are 4 golden bytes, but buffer 1 has 64 bytes")
}

func TestUseAfterReleaseIsRejected(t *testing.T) {
	r := newMockRig(t)
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	p := r.scaleProgram("local.brisc", a, b, 1, 0)
	k := must(metal.CreateKernel(p, kernels.ELF("writer.ncrisc"), metal.CoreCoord{},
		metal.DataMovementConfig{Processor: metal.RISCV1}))
	ok(t, metal.DeallocateBuffer(a))
	const released = "buffer 1 was released"
	wantError(t, metal.DeallocateBuffer(a), released)
	wantError(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false), released)
	wantError(t, metal.EnqueueReadBuffer(r.q, a, nil, false), released)
	wantError(t, metal.LightMetalCompareToCapture(r.q, a, metal.Exact()), released)
	wantError(t, metal.LightMetalCompareToGolden(r.q, a, ascending(16), metal.Exact()), released)
	wantError(t, metal.NameInput(a, "a", gen.DTypeUint8, 64), released)
	wantError(t, metal.EnqueueProgram(r.q, p, false), released)
	wantError(t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{},
		[]metal.RuntimeArg{metal.AddressOf(a)}), released)
	_, err := metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{0: 64}, Buffer: a})
	wantError(t, err, released)
	ok(t, metal.ReleaseProgram(p))
	wantError(t, metal.ReleaseProgram(p), "program 3 was released")
	wantError(t, metal.EnqueueProgram(r.q, p, false), "program 3 was released")
	wantError(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, nil), "program 3 was released")
	_, err = metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc)
	wantError(t, err, "program 3 was released")
	ok(t, metal.CloseDevice(must(metal.CreateDevice(&boards.Wormhole, nil))))
}

func TestUnknownObjectsAreRejected(t *testing.T) {
	r, other := newMockRig(t), newMockRig(t)
	foreign := other.createL1Buffer(64)
	wantError(t, metal.EnqueueWriteBuffer(r.q, foreign, ascending(16), false),
		"the buffer is nil, or belongs to another device")
	wantError(t, metal.EnqueueWriteBuffer(r.q, nil, ascending(16), false),
		"the buffer is nil, or belongs to another device")
	wantError(t, metal.EnqueueWriteBuffer(nil, foreign, ascending(16), false),
		"the command queue is nil")
	wantError(t, metal.DeallocateBuffer(&metal.Buffer{}), "the buffer is nil")
	wantError(t, metal.ReleaseProgram(nil), "the program is nil")
	wantError(t, metal.EnqueueProgram(r.q, must(metal.CreateProgram(other.Device)), false),
		"the program is nil, or belongs to another device")
	p := must(metal.CreateProgram(r.Device))
	wantError(t, metal.EnqueueProgram(r.q, p, false), "program 1 has no kernel")
	wantError(t, metal.SetRuntimeArgs(p, 99, metal.CoreCoord{}, nil),
		"kernel 99 does not belong to program 1")
	wantError(t, metal.UpdateCircularBufferTotalSize(p, 99, 64),
		"circular buffer 99 does not belong to program 1")
	k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	wantError(t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{},
		[]metal.RuntimeArg{metal.AddressOf(foreign)}), "buffer 1 belongs to another device")
	wantError(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{X: 1}, nil),
		"kernel 2 is not on core (1,0)")
}

func TestArgumentsThatDoNotFitAreRejected(t *testing.T) {
	r := newMockRig(t)
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	wantError(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, make([]uint32, 257)),
		"257 arguments are too many: a kernel has room for 256")
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, make([]uint32, 256)))
	wantError(t, metal.SetRuntimeArgsPerCore(p, k, []metal.CoreCoord{{}}, nil), "1 cores, but 0 "+
		"lists")
	wantError(t, metal.SetRuntimeArgsPerCore(p, k, []metal.CoreCoord{{}, {}}, [][]uint32{{}, {}}),
		"core (0,0) occurs twice")
}

func TestInvalidKernelFilesAreRejected(t *testing.T) {
	good := kernels.ELF("local.brisc")
	withWord := func(at int, value uint32) []byte {
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
		{withWord(16, 0x003e0002), "an ELF file for EM_X86_64, not for RISC-V"},
		{must(os.ReadFile("/proc/self/exe")), "not for RISC-V"},
		{withWord(16, 0x00f30003), "must be a linked executable"},
		{withWord(flags, 1), "compressed instructions"},
		{withWord(header+20, 0x20001), "has 131073 bytes and is too large"},
		{withWord(header+8, 0x1fff0), "outside the part of L1 for kernels, 0x0..0x20000"},
		{withWord(header+8, 0xffb00000), "outside the part of L1"},
		{withWord(header+8, 2), "not aligned to 4 bytes"},
		{withWord(entry, 0x8000), "the entry address of the kernel, 0x8000, must be in a segment"},
		{withWord(header+16, 0x10000), "more bytes in the file than in memory"},
	} {
		p := must(metal.CreateProgram(newMockRig(t).Device))
		_, err := metal.CreateKernel(p, test.file, metal.CoreCoord{}, brisc)
		wantError(t, err, test.want)
	}
	for end := range good { // CreateKernel must not panic, whatever the bytes
		p := must(metal.CreateProgram(newMockRig(t).Device))
		metal.CreateKernel(p, good[:end], metal.CoreCoord{}, brisc)
	}
}

func TestConflictingKernelsAreRejected(t *testing.T) {
	r := newMockRig(t)
	p := must(metal.CreateProgram(r.Device))
	all := metal.CoreRange{End: metal.CoreCoord{X: 3, Y: 3}}
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), all, brisc))
	add := func(name string, config metal.KernelConfig) error {
		_, err := metal.CreateKernel(p, kernels.ELF(name), metal.CoreCoord{X: 3, Y: 3}, config)
		return err
	}
	wantError(t, add("copy.brisc", brisc), "core (3,3) already has kernel 2 on the same processor")
	wantError(t, add("copy.brisc", metal.DataMovementConfig{Processor: metal.RISCV1}),
		"overlaps kernel 2")
	wantError(t, add("copy.brisc", metal.DataMovementConfig{Processor: metal.TRISC0}),
		"must run on RISCV0")
	wantError(t, add("copy.brisc", metal.DataMovementConfig{NOC: 2}), "there is no NOC2")
	wantError(t, add("copy.brisc", metal.ComputeConfig{Processor: metal.NCRISC}),
		"must run on TRISC0")
	wantError(t, add("copy.brisc", nil), "pass a DataMovementConfig")
	for _, spec := range []metal.CoreSpec{nil, metal.CoreRangeSet{}} {
		_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), spec, brisc)
		wantError(t, err, "the list of cores must not be empty")
	}
	for spec, want := range map[metal.CoreSpec]string{
		metal.CoreCoord{X: 8}: "(0,0) to (7,9)", metal.CoreCoord{Y: -1}: "not on the board " +
			"wormhole",
		metal.CoreRange{Start: metal.CoreCoord{X: 1}}: "ends before it starts",
	} {
		_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), spec, brisc)
		wantError(t, err, want)
	}
	_, err := metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreRangeSet{{}, all}, brisc)
	wantError(t, err, "core (0,0) occurs twice")
}

func TestInvalidBuffersAreRejected(t *testing.T) {
	r := newMockRig(t)
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
		wantError(t, err, test.want)
	}
}

func TestInvalidCircularBuffersAreRejected(t *testing.T) {
	r := newMockRig(t)
	p := must(metal.CreateProgram(r.Device))
	one := func(index uint8, page uint64) map[uint8]uint64 { return map[uint8]uint64{index: page} }
	add := func(c metal.CircularBufferConfig) error {
		_, err := metal.CreateCircularBuffer(p, metal.CoreCoord{}, c)
		return err
	}
	ok(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(3, 64)}))
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(3, 64)}),
		"circular buffer 3 already exists on core (0,0)")
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 256}), "needs at least one index")
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(32, 64)}),
		"must be 0 to 31")
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 100, PageSizes: one(0, 64)}),
		"multiple of the page size, 64")
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 4 << 20, PageSizes: one(0, 64)}),
		"does not fit into L1")
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(0, 64),
		Buffer: r.createL1Buffer(64)}), "larger than the 64 bytes of buffer")
	dram := must(metal.CreateBuffer(r.Device,
		metal.BufferConfig{Size: 256, PageSize: 64, Type: metal.DRAM}))
	wantError(t, add(metal.CircularBufferConfig{TotalSize: 256, PageSizes: one(0, 64),
		Buffer: dram}), "must be sharded and in L1")
	// This buffer leaves less room than the circular buffers need.
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	low := uint64(0x22080)
	must(metal.CreateBuffer(r.Device, metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1,
		Address: &low}))
	wantError(t, metal.EnqueueProgram(r.q, p, false),
		"circular buffers of program 1 end at 0x22100 on core (0,0), so they overlap a buffer "+
			"at 0x22080")
}

// TestCircularBuffersMayTouchButNotOverlapABuffer has circular buffers that end at 0x22080. A
// buffer may begin at that address, and a buffer that begins before it is an error, whether the
// buffer was created first, second or last.
func TestCircularBuffersMayTouchButNotOverlapABuffer(t *testing.T) {
	for low, fits := range map[uint64]bool{0x22080: true, 0x22040: false, 0x22000: false} {
		r := newMockRig(t)
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
		wantError(t, err, fmt.Sprintf("circular buffers of program 1 end at 0x22080 on core "+
			"(0,0), so they overlap a buffer at %#x", low))
	}
}

func TestUpdatesOfCircularBuffersReachTheNextLaunch(t *testing.T) {
	r := newMockRig(t)
	p := must(metal.CreateProgram(r.Device))
	must(metal.CreateKernel(p, kernels.ELF("local.brisc"), metal.CoreCoord{}, brisc))
	cb := must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 256, PageSizes: map[uint8]uint64{2: 64}}))
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.UpdateCircularBufferTotalSize(p, cb, 512))
	ok(t, metal.UpdateCircularBufferPageSize(p, cb, 2, 128))
	wantError(t, metal.UpdateCircularBufferPageSize(p, cb, 3, 128),
		"has no page size for buffer index 3")
	wantError(t, metal.UpdateCircularBufferTotalSize(p, cb, 100), "multiple of the page size")
	wantError(t, metal.UpdateDynamicCircularBufferAddress(p, cb, nil), "the buffer is nil")
	ok(t, metal.EnqueueProgram(r.q, p, false))
	var got [][]int32
	for _, c := range r.endCapture().Image.Sequences[0].Commands {
		if c.Opcode == gen.OpcodeCopyIn && c.Offset == 0x20320 {
			got = append(got, decodeInt32s(c.Data))
		}
	}
	want := [][]int32{{0x22000, 256, 64, 4}, {0x22000, 512, 128, 4}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("descriptors %v, want %v", got, want)
	}
}

func TestBuffersAndCoresReportTheirTiles(t *testing.T) {
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
			t.Errorf("%s: board %s, %s; want %s", board.Name, r.Board().Name, got, want)
		}
		_, err = r.WorkerCore(metal.CoreCoord{X: 99})
		wantError(t, err, "not on the board "+board.Name)
	}
}

func TestInvalidTensorNamesAndSizesAreRejected(t *testing.T) {
	r := newMockRig(t)
	b := r.createL1Buffer(64)
	wantError(t, metal.NameInput(b, "", gen.DTypeInt32, 16), "must have 1 to")
	wantError(t, metal.NameInput(b, strings.Repeat("x", 300), gen.DTypeInt32, 16), "must have 1 to")
	wantError(t, metal.NameOutput(b, "b", gen.DTypeInt32, 15),
		"tensor b has 60 bytes, but the buffer has 64")
	wantError(t, metal.NameOutput(b, "b", gen.DTypeInt32, 16, 1, 1, 1, 1, 1, 1, 1, 1),
		"9 dimensions")
	wantError(t, metal.EnqueueWriteBuffer(r.q, b, make([]byte, 60), true),
		"the slice data has 60 bytes, but buffer 1 has 64 bytes")
	wantError(t, metal.EnqueueReadBuffer(r.q, b, make([]byte, 60), true),
		"the slice data has 60 bytes, but buffer 1 has 64 bytes")
}

func TestRepeatedTensorNamesAreNumbered(t *testing.T) {
	r := newMockRig(t)
	b := r.createL1Buffer(64)
	ok(t, metal.NameInput(b, "in", gen.DTypeInt32, 4, 4))
	for _, data := range [][]byte{ascending(16), make([]byte, 64), ascending(16)} {
		ok(t, metal.EnqueueWriteBuffer(r.q, b, data, false))
		ok(t, metal.EnqueueReadBuffer(r.q, b, nil, false))
	}
	var got []string
	for _, tensor := range r.endCapture().Image.Tensors {
		got = append(got, fmt.Sprint(tensor.Name, tensor.Shape))
	}
	if want := []string{"in[4 4]", "buffer-1[64]", "in.2[4 4]", "buffer-1.2[64]",
		"buffer-1.3[64]"}; !slices.Equal(got, want) {
		t.Errorf("tensors %v, want %v", got, want)
	}
}

func TestProgramThatHangsIsReportedAndLeavesCoresInReset(t *testing.T) {
	device := mock.New(&boards.Wormhole)
	r := newRig(t, &boards.Wormhole, device)
	p := must(metal.CreateProgram(r.Device))
	// The writer waits for a page that no kernel pushes.
	k := must(metal.CreateKernel(p, kernels.ELF("writer.ncrisc"), metal.CoreCoord{},
		metal.DataMovementConfig{Processor: metal.RISCV1}))
	must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{16: 64}}))
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, []uint32{64, 0, 1, 64}))
	r.Deadline = 1e6 // 1 ms
	err := metal.EnqueueProgram(r.q, p, true)
	wantError(t, err, "poll deadline passed: mock:wormhole: command")
	wantError(t, err, "of EnqueueProgram program 1: a kernel failed or did not finish; the "+
		"kernel's done word is 0x0")
	wantError(t, metal.Finish(r.q), "poll deadline passed")
	a, errMap := device.Map(fbs.Window{Kind: gen.WindowKindTlb, Size: 1 << 20, Slot: fbs.AnySlot})
	ok(t, errMap)
	reset := chips.ForBoard(&boards.Wormhole).Grid.TensixReset
	device.ProgramWindow(&a, fbs.TileRoute{X: 18, Y: 18, Ordering: boards.OrderingDefault},
		reset.Address&^0xfffff)
	v, c := mock.LoadAt(&a, uint32(reset.Address&0xfffff), 4)
	if c != hal.OK || v != uint64(reset.Mask) {
		t.Errorf("SOFT_RESET_0 is %#x (%v), want %#x", v, c, reset.Mask)
	}
	r.Deadline = 0
	wantError(t, metal.EnqueueProgram(r.q, p, true), "deadline 0s must be 1 us to 71 minutes")
}

func TestFailedKernelIsReportedWithItsDoneWord(t *testing.T) {
	r := newMockRig(t)
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF("eltwise.trisc0"), metal.CoreCoord{},
		metal.ComputeConfig{}))
	must(metal.CreateCircularBuffer(p, metal.CoreCoord{},
		metal.CircularBufferConfig{TotalSize: 64, PageSizes: map[uint8]uint64{16: 64}}))
	ok(t, metal.SetRuntimeArgs(p, k, metal.CoreCoord{}, []uint32{99}))
	r.Deadline = 1e6
	wantError(t, metal.EnqueueProgram(r.q, p, true),
		"the kernel's done word is 0xbad00001, not 0x600df00d")
}

func TestCaptureMisuseIsRejected(t *testing.T) {
	r := newMockRig(t)
	wantError(t, metal.LightMetalBeginCapture(r.Device), "a capture has begun already")
	wantError(t, metal.CloseDevice(r.Device), "call LightMetalEndCapture before CloseDevice")
	b := r.endCapture()
	if !b.IsEmpty() {
		t.Error("the binary of a capture without calls is not empty")
	}
	_, err := metal.LightMetalEndCapture(r.Device)
	wantError(t, err, "no capture has begun; call LightMetalBeginCapture first")
	ok(t, metal.CloseDevice(r.Device))
	wantError(t, metal.CloseDevice(r.Device), "the device is closed")
	_, err = metal.CreateProgram(r.Device)
	wantError(t, err, "the device is closed")
	_, err = metal.CreateDevice(&boards.Edu, nil)
	wantError(t, err, "the board must have a grid of cores")
	_, err = metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Blackhole))
	wantError(t, err, "mock:blackhole has PCI ids 1e52:b140, but board wormhole has 1e52:401e")
}

func TestImageNamesTheCallsAndTheirObjects(t *testing.T) {
	r := newMockRig(t)
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.scaleProgram("local.brisc", a, b, 1, 1), false))
	var marks []string
	binary := r.endCapture()
	for _, c := range binary.Image.Sequences[0].Commands {
		if c.Opcode == lmb.OpcodeMark {
			marks = append(marks, string(c.Data))
		}
	}
	if want := []string{"EnqueueWriteBuffer buffer 1",
		"EnqueueProgram program 3"}; !slices.Equal(marks, want) {
		t.Errorf("marks %q, want %q", marks, want)
	}
	path := filepath.Join(t.TempDir(), "x.lmb")
	ok(t, binary.SaveToFile(path))
	if file := must(os.ReadFile(path)); !bytes.Equal(file, binary.Bytes()) ||
		len(file) != binary.Size() {
		t.Errorf("SaveToFile wrote %d bytes that differ from the %d bytes of the binary (Size %d)",
			len(file), len(binary.Bytes()), binary.Size())
	}
}
