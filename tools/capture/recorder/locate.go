//go:build linux && (amd64 || arm64)

package recorder

import (
	"debug/elf"
	"fmt"
)

// describeAddress returns the file and the offset that are mapped at an address of a process, and
// the function if the file has symbols.
func describeAddress(process int, address uint64) string {
	p, err := mappingAt(process, address)
	if err != nil || p.path == "" {
		return fmt.Sprintf("%#x", address)
	}
	offset := address - p.start + p.offset
	return fmt.Sprintf("%s+%#x%s", p.path, offset, symbolAt(p.path, offset))
}

// symbolAt returns the name of the function that contains an offset of a file, in parentheses, or
// "".
func symbolAt(path string, offset uint64) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset < p.Off+p.Filesz {
			offset += p.Vaddr - p.Off
			break
		}
	}
	static, _ := file.Symbols()
	dynamic, _ := file.DynamicSymbols()
	for _, s := range append(static, dynamic...) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && offset >= s.Value &&
			offset < s.Value+max(s.Size, 1) {
			return fmt.Sprintf(" (%s+%#x)", s.Name, offset-s.Value)
		}
	}
	return ""
}
