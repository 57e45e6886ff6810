//go:build !notiles

package boards

// All lists every board.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}
