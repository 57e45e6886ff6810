//go:build !notiles

package boards

// All lists every board that the program supports. Programs that are built with the tag `notiles`
// have the shorter list in all_notiles.go.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}
