// Guest boots an arm64 machine under QEMU whose only programs are lminit and lmrun, replays
// one image on it and ends with lmrun's exit status.
//
//	guest -kernel VMLINUZ -lmrun LMRUN [-dir DIR] [-trace FILE] [-timeout 1m] IMAGE.lmb [-- lmrun
//
// flags]
//
// The machine has three PCI devices that are not ours: edu (1234:11e8),
// ivshmem-plain (1af4:1110, 1 MiB) and, unless a drive takes outputs, nvme
// (1b36:0010, 16 MiB). Files that -input and -output name are the host's.
//
// The package is also the oracle of the system tests: QEMU's own trace of what
// reached a device (trace.go) is held (match.go) against what the image says
// (expand.go), and none of the three uses code of the runtime.
//
// `guest bare` boots a machine without an operating system, whose firmware replays the image
// (testdata/firmware/bare/README.md).
//
// Two things are tried at length: ./build.sh object-coverage has QEMU tell which instructions
// of the shipped lmrun ran (tools/check/coverage/README.md), and ./build.sh soak FRAMES has frames
// go through an NVMe controller and a served Wormhole with a kill, or a fault of the device, after
// every thousand (inside/soak.go): each that comes is held against what went in, none may be
// missing.
package main
