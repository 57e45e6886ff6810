// Exactsize prints how many bytes a program has that the kernel maps, beyond
// another program: its code and data, without the steps of pages and segments in
// which a file grows.
//
//	exactsize PROGRAM EMPTY
package main

import (
	"debug/elf"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: exactsize PROGRAM EMPTY")
		os.Exit(64)
	}
	var bytes [2]uint64
	for i, path := range os.Args[1:] {
		var err error
		if bytes[i], err = mapped(path); err != nil {
			fmt.Fprintf(os.Stderr, "exactsize: %v\n", err)
			os.Exit(66)
		}
	}
	fmt.Println(bytes[0] - bytes[1])
}

// mapped adds up the sections that are in the file and in memory.
func mapped(path string) (bytes uint64, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += s.Size
		}
	}
	return bytes, nil
}
