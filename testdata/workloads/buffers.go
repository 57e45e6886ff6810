package workloads

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/metal"
)

// echo writes a buffer as an input and reads it as an output.
func echo(d *metal.Device, b *metal.Buffer, label string, seed uint32) {
	in(b, label)
	out(b, label+"-back")
	write(d, b, words(int(b.Size()/4), seed))
	read(d, b)
}

func interleaved(d *metal.Device) {
	echo(d, dram(d, 14*256, 256), "dram", 1)
	echo(d, must(metal.CreateBuffer(d, metal.BufferConfig{Size: 200 * 64, PageSize: 64,
		Type: metal.L1})), "l1", 2)
	up := true
	fixed := uint64(0x100000)
	echo(d, must(metal.CreateBuffer(d, metal.BufferConfig{Size: 1024, PageSize: 128, Type: metal.L1,
		BottomUp: &up})), "bottom-up", 3)
	echo(d, must(metal.CreateBuffer(d, metal.BufferConfig{Size: 4096, PageSize: 4096,
		Type: metal.DRAM, Address: &fixed})), "fixed", 4)
	// Pages of 100 bytes lie 128 apart in a bank, and data with no name are constant.
	b := dram(d, 20*100, 100)
	write(d, b, words(500, 5))
	golden(d, b, words(500, 5))
	read(d, b)
}

func sharded(d *metal.Device, layout metal.BufferLayout, s metal.ShardSpec,
	t metal.BufferType) *metal.Buffer {
	pages := s.Tensor[0] * s.Tensor[1]
	return must(metal.CreateBuffer(d, metal.BufferConfig{Size: uint64(pages) * 64, PageSize: 64,
		Type: t, Layout: layout, Shard: &s}))
}

func heightSharded(d *metal.Device) {
	cores := metal.CoreRange{Start: metal.CoreCoord{X: 1, Y: 2}, End: metal.CoreCoord{X: 2, Y: 3}}
	echo(d, sharded(d, metal.HeightSharded, metal.ShardSpec{Grid: cores, Tensor: [2]int{8, 2},
		Shard: [2]int{2, 2}}, metal.L1), "height", 1)
	banks := metal.CoreRange{End: metal.CoreCoord{X: 3}}
	echo(d, sharded(d, metal.HeightSharded, metal.ShardSpec{Grid: banks, Tensor: [2]int{7, 2},
		Shard: [2]int{2, 2}}, metal.DRAM), "height-dram", 2)
}

func widthSharded(d *metal.Device) {
	cores := metal.CoreRangeSet{{}, {Start: metal.CoreCoord{X: 3, Y: 1},
		End: metal.CoreCoord{X: 5, Y: 1}}}
	echo(d, sharded(d, metal.WidthSharded, metal.ShardSpec{Grid: cores, Tensor: [2]int{3, 8},
		Shard: [2]int{3, 2}}, metal.L1), "width", 1)
}

func blockSharded(d *metal.Device) {
	cores := metal.CoreRange{Start: metal.CoreCoord{X: 2, Y: 1}, End: metal.CoreCoord{X: 4, Y: 2}}
	echo(d, sharded(d, metal.BlockSharded, metal.ShardSpec{Grid: cores, Tensor: [2]int{4, 6},
		Shard: [2]int{2, 2}}, metal.L1), "rows", 1)
	echo(d, sharded(d, metal.BlockSharded, metal.ShardSpec{Grid: cores, Tensor: [2]int{6, 4},
		Shard: [2]int{2, 2}, Orientation: metal.ColumnMajor},
		metal.L1), "columns", 2)
}

// deallocations needs 25 MiB in all if memory is not given back, of which L1
// has 1.4.
func deallocations(d *metal.Device) {
	const size = 256 << 10
	for i := range 100 {
		b := must(metal.CreateBuffer(d, metal.BufferConfig{Size: size, PageSize: size,
			Type: metal.L1, Layout: metal.HeightSharded,
			Shard: &metal.ShardSpec{Grid: one, Tensor: [2]int{1, 1}, Shard: [2]int{1, 1}}}))
		if i == 99 {
			check(metal.NameOutput(b, "last", gen.DTypeInt32, size/4))
			write(d, b, words(size/4, 7))
			read(d, b)
		}
		check(metal.DeallocateBuffer(b))
	}
}
