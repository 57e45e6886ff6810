// Command sizebeyond prints by how many bytes the code and data of a program exceed those of an
// empty program: sizebeyond PROGRAM EMPTY.
package main

import (
	"debug/elf"
	"fmt"
	"os"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sizebeyond PROGRAM EMPTY")
		os.Exit(hal.Usage.ExitStatus())
	}
	err := fail.Try(func() { fmt.Println(mappedBytes(os.Args[1]) - mappedBytes(os.Args[2])) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizebeyond:", err)
		os.Exit(hal.NoFile.ExitStatus())
	}
}

// mappedBytes returns the total size of a program's code and data: the sections that are in the
// file and in memory. Unlike the size of the file, it does not grow in steps of pages and segments.
func mappedBytes(path string) (bytes int64) {
	file := fail.Must(elf.Open(path))
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += int64(s.Size)
		}
	}
	return bytes
}
