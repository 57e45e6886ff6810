//go:build notiles

package boards

// All lists every board. A program that is built with the tag `notiles` does not support boards
// with tiles. For these boards, the list has only the name and the PCI ids, and an empty TLB as the
// mark of a board with tiles. These boards have no rules here. Therefore the verifier rejects every
// access of an image to their BARs.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLBLayout{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLBLayout{}},
}
