package runtime_test

import (
	"encoding/binary"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	memories "lightmetal/tools/check/bench/plain"
)

// tlbWindowsHead begins a listing for wormhole with the TLB windows a and b.
const tlbWindowsHead = "lightmetal 1\ntarget wormhole 1e52:401e bar0 1MiB\n" +
	"window a tlb size 1MiB\nwindow b tlb size 16MiB\n"

// TestPointStoresTheRegisterValuesThatLoadEncoded replays on plain memory, which contains the
// windows and the TLB registers. It expects the values of EncodeWindow in the registers; tests of
// boards and of mapped backends check these values.
func TestPointStoresTheRegisterValuesThatLoadEncoded(t *testing.T) {
	v := view(t, tlbWindowsHead+`main:
  point a tile 1,2 address 0x100000 ordering strict
  write.4 a+0x10 0x1111
  point b tile 3,4 address 0x7000000 noc 1
  write.4 b+0x20 0x2222
  call again
again:
  point a tile 5,6 address 0x0
  write.4 a+0x30 0x3333
`)
	memory := make([]byte, memories.Size(v))
	r, err := runtime.Load(v, runtime.AnyTLBWindow, memories.Devices(v, memory)...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := append([]fbs.Command(nil), v.Commands...)
	run(t, r, hal.OK)
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(memory[at:]) }
	const a, b, registers = 1 << 20, 2 << 20, 18 << 20
	if word(a+0x10) != 0x1111 || word(a+0x30) != 0x3333 || word(b+0x20) != 0x2222 {
		t.Errorf("a+0x10, a+0x30 and b+0x20 contain %#x, %#x, %#x, want 0x1111, 0x3333, 0x2222",
			word(a+0x10), word(a+0x30), word(b+0x20))
	}
	for name, want := range map[string]struct {
		at      int
		group   int
		target  fbs.TileRoute
		address uint64
	}{
		"window a": {registers, 0, fbs.TileRoute{X: 5, Y: 6, Ordering: 1}, 0},
		"window b": {registers + 16, 2, fbs.TileRoute{X: 3, Y: 4, NoC: 1, Ordering: 1}, 0x7000000},
	} {
		t.Run(name, func(t *testing.T) {
			words, ok := boards.Wormhole.TLB.EncodeWindow(&boards.Wormhole.TLB.Groups[want.group],
				want.target, want.address)
			if !ok || word(want.at) != words[0] {
				t.Errorf("registers contain %#x, want %#x", word(want.at), words[0])
			}
		})
	}
	for i := range before {
		if v.Commands[i] != before[i] {
			t.Errorf("command %d of the view changed from %+v to %+v", i, before[i], v.Commands[i])
		}
	}
	if c := runtime.CommandsOf(r)[0]; c.Width != 8 || c == before[0] {
		t.Errorf("Load did not encode the window of command 0: %+v", c)
	}
	if n := testing.AllocsPerRun(10, func() { r.Run(0) }); n != 0 {
		t.Errorf("a run makes %v allocations, want none", n)
	}
}

// TestBulkCopyThroughAPortIsAlignedInTheBAR: the offset of a window in its BAR may be odd, so bulk
// copies must align to the offset in the BAR.
func TestBulkCopyThroughAPortIsAlignedInTheBAR(t *testing.T) {
	device := mock.New(&boards.Ivshmem)
	r, err := runtime.Load(view(t, `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x3 size 0x1000
tensor d output uint8[13]
main:
  copy.8 m+0x0 <- hex 00112233445566778899aabbcc bulk
  copy.8 d[0:13] <- m+0x0 bulk
`), runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run(t, r, hal.OK)
	if got := r.Output(0); string(got) != "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc" {
		t.Errorf("output % x after 00 11 ... cc was copied in and out; the mock rejected %q", got,
			device.Refusal())
	}
}
