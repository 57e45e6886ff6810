//go:build linux && (amd64 || arm64)

package recorder

import (
	"debug/elf"
	"fmt"
)

// locate says where an address in a process is: in which file, and in which
// function if the file has symbols.
func locate(process int, address uint64) string {
	p, err := mappingAt(process, address)
	if err != nil || p.path == "" {
		return fmt.Sprintf("%#x", address)
	}
	offset := address - p.start + p.offset
	return fmt.Sprintf("%s+%#x%s", p.path, offset, symbol(p.path, offset))
}

// symbol names the function that holds an offset of a file.
func symbol(path string, offset uint64) string {
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
