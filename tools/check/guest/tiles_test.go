package main

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
)

// addTileImages adds images for features that no capture uses: a core that is a bus master, stores
// to a rectangle of tiles, and copies through write-combining mappings.
func (m *machine) addTileImages(t *testing.T, c *chip) {
	t.Helper()
	m.addHostMemoryImage(t, c)
	m.addRectangleImage(t, c)
	m.addWriteCombiningImage(t, c)
}

// hostMemoryBytes is the number of bytes that the core copies. It is more than a page, because the
// IOMMU may map two pages to separate memory, and not more than one request on Wormhole can have.
const hostMemoryBytes = 6 << 10

// addHostMemoryImage adds an image in which a core copies data from host memory, adds a number to
// them, copies them to other host memory, and stores there that it has finished
// (testdata/kernels/noc_host.c).
func (m *machine) addHostMemoryImage(t *testing.T, c *chip) {
	t.Helper()
	const add = 0x01020304
	data := xorshift32(91, hostMemoryBytes)
	var sum []byte
	for i := 0; i < len(data); i += 4 {
		sum = binary.LittleEndian.AppendUint32(sum, binary.LittleEndian.Uint32(data[i:])+add)
	}
	m.files["/golden/"+c.board+"/hosted/result"] = sum
	m.addImage(t, c.board+"/hosted", fmt.Sprintf(`lightmetal 1
target %s %s bar0 512MiB
window l1   tlb size 1MiB
window regs tlb size 1MiB
window from host size 8KiB
window to   host size 8KiB
window word host size 4KiB
tensor data   input  uint32[%d] = pattern 91 size %[6]d
tensor result output uint32[%[3]d]
main:
  point   regs tile %[4]s address 0xffb00000 ordering strict
  write.4 regs+0x121b0 0x47800
  point   l1 tile %[4]s address 0x0
  copy.4  l1+0x0 <- hex %[5]s
  copy.4  l1+0x10010 <- uint32 0 %[6]d %[7]d %#[8]x 0x14000 0x600df00d
  write.8 l1+0x10028 bus(from)
  write.8 l1+0x10030 bus(to)
  write.8 l1+0x10038 bus(word)
  copy.8  from+0x0 <- data[:]
  fill.4  word+0x0 <- 0x0 size 16
  fence
  write.4 regs+0x121b0 0x47000
  poll.4  word+0x0 == 0x600df00d within 10s every 100us
  copy.8  result[:] <- to+0x0
  write.4 regs+0x121b0 0x47800
`, c.board, c.ids, hostMemoryBytes/4, c.tile, kernelCode(t, "noc_host_"+c.filePrefix),
		hostMemoryBytes, c.pcieTile, add))
}

// kernelCode returns the code of a kernel in testdata, as hexadecimal digits.
func kernelCode(t *testing.T, name string) string {
	t.Helper()
	file, err := elf.Open("../../../testdata/kernels/" + name + ".elf")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(code)
}

// addRectangleImage adds an image in which one store must reach every tile of a rectangle, and no
// other tile.
func (m *machine) addRectangleImage(t *testing.T, c *chip) {
	t.Helper()
	first, last, outside := c.rectangle[0], c.rectangle[1], c.rectangle[2]
	text := fmt.Sprintf(`lightmetal 1
target %s %s bar0 512MiB
window all tlb size 1MiB
window one tlb size 1MiB
main:
  point     one tile %s address 0x0
  write.4   one+0x4000 0x0
`, c.board, c.ids, outside)
	for _, ordering := range []string{"default", "strict", "posted"} {
		value := xorshift32(uint32(len(ordering)), 64)
		text += fmt.Sprintf("  point all tiles %s to %s address 0x0 ordering %s\n"+
			"  copy.4 all+0x4000 <- hex %x\n  fence\n", first, last, ordering, value)
		for _, tile := range []string{first, last} {
			text += fmt.Sprintf("  point one tile %s address 0x0 ordering %s\n"+
				"  compare.4 one+0x4000 uint32 == hex %x\n", tile, ordering, value)
		}
		text += fmt.Sprintf("  point one tile %s address 0x0\n  expect.4 one+0x4000 == 0x0\n",
			outside)
	}
	m.addImage(t, c.board+"/rectangle", text)
}

// combinedBytes is the number of bytes that are copied through write-combining mappings.
const combinedBytes = 4099

// addWriteCombiningImage adds an image that copies blocks with odd sizes and odd offsets through a
// write-combining mapping, to the chip and back.
func (m *machine) addWriteCombiningImage(t *testing.T, c *chip) {
	t.Helper()
	m.files["/golden/"+c.board+"/combined/result"] = xorshift32(92, combinedBytes+1)[:combinedBytes]
	m.addImage(t, c.board+"/combined", fmt.Sprintf(`lightmetal 1
target %s %s bar0 512MiB
window l1 tlb size 1MiB wc
tensor data   input  uint8[%d] = pattern 92 size %[3]d
tensor result output uint8[%[3]d]
main:
  point  l1 tile %[4]s address 0x0
  copy.8 l1+0x3001 <- data[:] bulk
  fence
  copy.8 result[:] <- l1+0x3001 bulk
  copy.4 l1+0x8000 <- uint32 1 2 3 4
  fence
  compare.4 l1+0x8000 uint32 == uint32 1 2 3 4
`, c.board, c.ids, combinedBytes, c.tile))
}
