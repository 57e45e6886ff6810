package lmbtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// memoryHead declares a device with plain memory.
const memoryHead = `lightmetal 1
target ivshmem 1af4:1110 bar2 4MiB
window m bar2 offset 0 size 4MiB
`

// tilesHead declares a device with windows that point to many tiles at once.
const tilesHead = `lightmetal 1
target wormhole 1e52:401e bar0 512MiB bar4 32MiB
window m tlb size 1MiB
`

// tensors declares the tensors that replay, set, trim, compare and tensor need.
const tensors = `tensor a input uint8[64] = pattern 1 size 64
tensor d output uint8[64] = pattern 2 size 64
`

// Hostile returns valid images by name. They are small files that refer to the same bytes, windows
// or sequences many times: they have `count` commands and `size` bytes of payload. A program that
// reads such an image must use memory in proportion to the file, not to the sum of all references.
// Each image has a sequence "short" with one copy to the output "d", and an input "a", both of 64
// bytes.
func Hostile(t testing.TB, count, size int) map[string][]byte {
	t.Helper()
	var stores, fills, points, inputs, golden, callers strings.Builder
	for i := range count {
		fmt.Fprintf(&stores, "  write.4 m+0x%x 0x0\n", 8*i)
		fmt.Fprintf(&fills, "  fill.8 m+0x0 <- 0x%x size 4MiB\n", i)
		fmt.Fprintf(&points, "  point m tiles 1,1 to 12,11 address 0x0\n  write.4 m+0x%x 0x0\n",
			8*i)
	}
	tensorCount := min(count, fbs.TensorsMax-2)
	for i := range tensorCount {
		fmt.Fprintf(&inputs, "tensor in%d input uint8[%d]\n", i, size)
		fmt.Fprintf(&golden, "  compare.8 m+0x0 uint8 == hex 0011223344556677 absolute 1\n")
	}
	for i := range min(count, fbs.SequencesMax-3) {
		fmt.Fprintf(&callers, "s%d:\n  call long\n", i)
	}
	copyAll := fmt.Sprintf("  copy.8 m+0x0 <- pattern 3 size %d bulk\n", size)
	const short = "short:\n  copy.8 d[:] <- m+0x0 bulk\n"
	plain := memoryHead + tensors + "main:\n" + copyAll + stores.String() + short

	// copies replaces the commands 1 to count, which are stores, by changed copies of command 0.
	copies := func(change func(c *fbs.Command, i int)) func(*fbs.View) {
		return func(view *fbs.View) {
			for i := range count {
				c := &view.Commands[1+i]
				*c = view.Commands[0]
				change(c, i)
			}
		}
	}
	return map[string][]byte{
		"one range": patched(t, plain, copies(func(*fbs.Command, int) {})),
		"overlapping ranges": patched(t, plain, copies(func(c *fbs.Command, i int) {
			c.Value += uint64(i)
			c.Amount -= uint32(i)
		})),
		"sliding ranges": patched(t, plain, copies(func(c *fbs.Command, i int) {
			c.Amount = uint32(size / 2)
			c.Value += uint64(i * (size / 2) / count)
		})),
		"compares": patched(t, plain, copies(func(c *fbs.Command, i int) {
			c.Opcode, c.Mode, c.Option = gen.OpcodeCompare, 0, uint8(gen.PolicyIgnore)
		})),
		"inputs": patched(t, memoryHead+tensors+inputs.String()+"main:\n"+copyAll+short,
			func(view *fbs.View) {
				for i := range tensorCount {
					tensor := &view.Tensors[2+i]
					tensor.HasData, tensor.DataOffset = 1, view.Commands[0].Value
				}
			}),
		"golden data": patched(t, memoryHead+tensors+"main:\n"+copyAll+golden.String()+short,
			func(view *fbs.View) {
				enlargeOutputs(view, tensorCount, uint32(size))
			}),
		"fills": patched(t, memoryHead+tensors+"main:\n"+fills.String()+short, nil),
		"callers": patched(t,
			memoryHead+tensors+"main:\n  call long\nlong:\n"+stores.String()+short+callers.String(),
			nil),
		"points": patched(t, tilesHead+tensors+"main:\n"+points.String()+
			strings.Replace(short, "\n", "\n  point m tile 1,1 address 0x0\n", 1), nil),
	}
}

// enlargeOutputs sets the size of `count` outputs, from tensor 2 on, and makes the bytes of command
// 0 their golden data. Command 1 + i fills tensor 2 + i.
func enlargeOutputs(view *fbs.View, count int, size uint32) {
	arena := binary.LittleEndian.AppendUint64(nil, view.Reservation.ArenaBytes)
	arena = binary.LittleEndian.AppendUint64(arena, view.Reservation.HostBytes)
	reservation := bytes.Index(view.Envelope, arena)
	at := view.Tensors[2].ArenaOffset
	for i := range count {
		tensor := &view.Tensors[2+i]
		tensor.Shape0, tensor.Size, tensor.ArenaOffset = size, uint64(size), at
		tensor.DataOffset = view.Commands[0].Value
		view.Commands[1+i].Amount = size
		at = fbs.RoundUp(at+uint64(size), fbs.ArenaAlign)
	}
	binary.LittleEndian.PutUint64(view.Envelope[reservation:], at)
}

// patched returns the file of a listing after `change` has modified its tables, with valid
// checksums.
func patched(t testing.TB, source string, change func(*fbs.View)) []byte {
	t.Helper()
	file := File(t, source)
	view := View(t, file)
	if change != nil {
		change(view) // the tables are bytes of the file
	}
	lmb.Stamp(file, uint64(len(view.Envelope)))
	View(t, file)
	return file
}
