//go:build linux && (amd64 || arm64)

package recorder

import (
	"debug/elf"
	"fmt"
	"os"
	"strings"
)

// locate says where an address in a process is: in which file, and in which
// function if the file has symbols.
func locate(process int, address uint64) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", process))
	if err != nil {
		return fmt.Sprintf("%#x", address)
	}
	for line := range strings.Lines(string(text)) {
		var start, end, offset, inode uint64
		var rights, device, path string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &start, &end, &rights, &offset, &device, &inode, &path); n == 7 && address >= start &&
			address < end {
			return fmt.Sprintf("%s+%#x%s", path, address-start+offset, symbol(path, address-start+offset))
		}
	}
	return fmt.Sprintf("%#x", address)
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
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && offset >= s.Value && offset < s.Value+max(s.Size, 1) {
			return fmt.Sprintf(" (%s+%#x)", s.Name, offset-s.Value)
		}
	}
	return ""
}
