//go:build notiles

package boards

// All lists every board, for programs that are built with the tag `notiles`. These programs do not
// support boards with tiles. The entry of such a board has only its name, its PCI ids, and an empty
// TLBLayout, which marks a board with tiles. The entry has no access rules, so the verifier rejects
// every access to the board's BARs.
var All = []*Board{&Edu, &Ivshmem, &Nvme,
	{Name: "wormhole", Vendor: 0x1e52, Device: 0x401e, TLB: &TLBLayout{}},
	{Name: "blackhole", Vendor: 0x1e52, Device: 0xb140, TLB: &TLBLayout{}},
}
