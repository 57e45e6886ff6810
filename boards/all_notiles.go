//go:build notiles

package boards

// All lists every board. A program that was built with the tag notiles knows boards with tiles by
// their ids only: without rules, no image for them may access anything.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLB{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLB{}},
}
