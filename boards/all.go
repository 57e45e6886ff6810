//go:build !notiles

package boards

// All lists every board. File all_notiles.go has the list for programs that are built with the
// tag notiles.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}
