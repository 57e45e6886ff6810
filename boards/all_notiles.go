//go:build notiles

package boards

// All lists every board. A program that is built with the tag notiles does not support boards
// with tiles: of these boards, the list has only the names and PCI ids. They have no rules
// here, therefore the verifier rejects every access of an image to their BARs.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLB{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLB{}},
}
