// Package kernels holds the precompiled kernels of testdata/workloads.
package kernels

import "embed"

//go:embed *.elf
var files embed.FS

// ELF gives a kernel's file by its name without ".elf". It panics where there
// is none.
func ELF(name string) []byte {
	data, err := files.ReadFile(name + ".elf")
	if err != nil {
		panic(err)
	}
	return data
}
