package hal

import (
	"strconv"
	"testing"

	"lightmetal/fbs/gen"
)

func BenchmarkStore(b *testing.B) {
	a := MappedAperture(mapped(b, 4096), 0, 4096, -1, false)
	for _, width := range widths {
		b.Run(strconv.Itoa(int(width)), func(b *testing.B) {
			for i := range b.N {
				a.Store(64, width, uint64(i))
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	a := MappedAperture(mapped(b, 4096), 0, 4096, -1, false)
	for _, width := range widths {
		b.Run(strconv.Itoa(int(width)), func(b *testing.B) {
			for range b.N {
				a.Load(64, width)
			}
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	const sizeMax = 1 << 20
	device := mapped(b, sizeMax)
	memory := mapped(b, sizeMax)
	uncached := MappedAperture(device, 0, sizeMax, -1, false)
	combining := MappedAperture(device, 0, sizeMax, -1, true)
	ways := []struct {
		name string
		copy func(data []byte)
	}{
		{"Go", func(data []byte) { copy(device, data) }},
		{"Bulk", func(data []byte) { uncached.CopyIn(0, 8, gen.AccessBulk, data) }},
		{"BulkCombining", func(data []byte) { combining.CopyIn(0, 8, gen.AccessBulk, data) }},
		{"BulkOut", func(data []byte) { uncached.CopyOut(0, 8, gen.AccessBulk, data) }},
		{"Exact8", func(data []byte) { uncached.CopyIn(0, 8, gen.AccessExact, data) }},
		{"Exact4", func(data []byte) { uncached.CopyIn(0, 4, gen.AccessExact, data) }},
		{"FillBulk", func(data []byte) { uncached.Fill(0, 4, gen.AccessBulk, 1, uint64(len(data))) }},
	}
	for size := 4 << 10; size <= sizeMax; size *= 4 {
		for _, way := range ways {
			b.Run(way.name+"/"+strconv.Itoa(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for range b.N {
					way.copy(memory[:size])
				}
			})
		}
	}
}
