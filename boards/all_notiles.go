//go:build notiles

package boards

// All lists every board. A program that is built with the tag notiles knows only the PCI ids
// of boards with tiles. Here these boards have no rules, therefore every access of an image
// to them is rejected.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLB{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLB{}},
}
