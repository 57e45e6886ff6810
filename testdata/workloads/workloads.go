// Package workloads holds programs on the host API of tools/metal: those that
// upstream's own tests capture, then more. Each makes its data from a fixed
// pattern, and works with nothing behind the device too, but for the
// comparisons with what was read at capture.
package workloads

import (
	"encoding/binary"

	"lightmetal/fbs/gen"
	kernels "lightmetal/testdata/kernels/metal"
	"lightmetal/tools/metal"
)

// All lists the workloads.
var All = []metal.Workload{
	{Name: "buffer-interleaved", Title: "interleaved buffers in DRAM and L1, written and read",
		Run: guarded(interleaved)},
	{Name: "buffer-height-sharded", Title: "height-sharded L1 buffer, written and read",
		Run: guarded(heightSharded)},
	{Name: "buffer-width-sharded", Title: "width-sharded L1 buffer, written and read",
		Run: guarded(widthSharded)},
	{Name: "buffer-block-sharded",
		Title: "block-sharded L1 buffer, both orientations, written and read",
		Run:   guarded(blockSharded)},
	{Name: "buffer-deallocations", Title: "100 buffers of 256 KiB, each released before the next",
		Run: guarded(deallocations)},
	{Name: "loopback", Title: "one data-movement kernel copies DRAM to DRAM",
		Run: guarded(loopback)},
	{Name: "loopback-per-core", Title: "the same on four cores, each with arguments of its own",
		Run: guarded(loopbackPerCore)},
	{Name: "reader-compute-writer",
		Title: "three kernels of a core with circular buffers between them",
		Run:   guarded(readerComputeWriter)},
	{Name: "dynamic-circular-buffer",
		Title: "the same, with circular buffers that lie on sharded buffers and move",
		Run:   guarded(dynamicCircularBuffer)},
	{Name: "early-deallocation", Title: "the same, inputs released before the output is read",
		Run: guarded(earlyDeallocation)},
	{Name: "semaphores", Title: "two kernels of a core take turns", Run: guarded(semaphores)},
	{Name: "core-to-core",
		Title: "cores send pages to each other, two different kernels in one program",
		Run:   guarded(coreToCore)},
	{Name: "trace-one-program", Title: "a trace of one program, replayed", Run: guarded(traceOne)},
	{Name: "trace-two-programs",
		Title: "a trace of two programs, output poisoned before the replay",
		Run:   guarded(traceTwo)},
	{Name: "chain-of-six",
		Title: "six elementwise operations, one after the other, over many cores",
		Run:   guarded(chainOfSix)},
	{Name: "int8-network", Title: "int8 network with weights in DRAM spread over cores",
		Run: guarded(network)},
	{Name: "matmul-64", Title: "64 x 64 x 64 int32 matrix product on eight cores",
		Run: guarded(matmul)},
}

// failure carries an error out of a workload.
type failure struct{ error }

// guarded lets a workload be written without a check after every call.
func guarded(run func(*metal.Device)) func(*metal.Device) error {
	return func(d *metal.Device) (err error) {
		defer func() {
			if f, ok := recover().(failure); ok {
				err = f.error
			}
		}()
		run(d)
		return nil
	}
}

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// words is n numbers of a fixed pattern, small enough that sums do not wrap.
func words(n int, seed uint32) []byte {
	var data []byte
	for range n {
		seed = seed*1664525 + 1013904223
		data = binary.LittleEndian.AppendUint32(data, uint32(int32(seed)>>20))
	}
	return data
}

// bytesOf is n int8 of a fixed pattern.
func bytesOf(n int, seed uint32) []byte {
	data := make([]byte, n)
	for i := range data {
		seed = seed*1664525 + 1013904223
		data[i] = byte(int32(seed) >> 26)
	}
	return data
}

func dram(d *metal.Device, size, page uint64) *metal.Buffer {
	return must(metal.CreateBuffer(d, metal.BufferConfig{Size: size, PageSize: page,
		Type: metal.DRAM}))
}

func kernel(p *metal.Program, name string, cores metal.CoreSpec,
	c metal.KernelConfig) metal.KernelHandle {
	return must(metal.CreateKernel(p, kernels.ELF(name), cores, c))
}

func write(d *metal.Device, b *metal.Buffer, data []byte) {
	check(metal.EnqueueWriteBuffer(d.CommandQueue(), b, data, false))
}

func read(d *metal.Device, b *metal.Buffer) {
	check(metal.EnqueueReadBuffer(d.CommandQueue(), b, nil, true))
}

func launch(d *metal.Device, p *metal.Program) {
	check(metal.EnqueueProgram(d.CommandQueue(), p, false))
}

func golden(d *metal.Device, b *metal.Buffer, data []byte) {
	check(metal.LightMetalCompareToGolden(d.CommandQueue(), b, data, metal.Exact()))
}

// in and out name a buffer's tensor, int32 in one dimension.
func in(b *metal.Buffer, name string) {
	check(metal.NameInput(b, name, gen.DTypeInt32, uint32(b.Size()/4)))
}

func out(b *metal.Buffer, name string) {
	check(metal.NameOutput(b, name, gen.DTypeInt32, uint32(b.Size()/4)))
}

var (
	first  = metal.CoreCoord{X: 0, Y: 0}
	brisc  = metal.DataMovementConfig{Processor: metal.RISCV0, NOC: metal.NOC0}
	ncrisc = metal.DataMovementConfig{Processor: metal.RISCV1, NOC: metal.NOC1}
	trisc0 = metal.ComputeConfig{Processor: metal.TRISC0}
)

func address(b *metal.Buffer) uint32 { return uint32(b.Address()) }

// scratch is L1 for a kernel's own use: a sharded buffer of one page a core.
func scratch(d *metal.Device, size uint64, cores metal.CoreRange) *metal.Buffer {
	n := (cores.End.X - cores.Start.X + 1) * (cores.End.Y - cores.Start.Y + 1)
	return must(metal.CreateBuffer(d, metal.BufferConfig{Size: size * uint64(n), PageSize: size,
		Type: metal.L1, Layout: metal.HeightSharded,
		Shard: &metal.ShardSpec{Grid: cores, Tensor: [2]int{n, 1}, Shard: [2]int{1, 1}}}))
}

var one = metal.CoreRange{}
