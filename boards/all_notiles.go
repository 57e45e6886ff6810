//go:build notiles

package boards

// All lists every board. A program that is built with the tag `notiles` does not support boards
// with tiles. For such a board, the list has only the name, the PCI ids, and an empty TLBLayout,
// which shows that the board has tiles. The list has no rules for such a board. Therefore the
// verifier rejects every access to its BARs.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLBLayout{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLBLayout{}},
}
