//go:build !notiles

package boards

// All lists every board. In programs that are built with the tag `notiles`, the file all_notiles.go
// has the list instead.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}
