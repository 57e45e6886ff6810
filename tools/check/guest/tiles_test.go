package main

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
)

// addTiles puts images that no capture is of into /images: a core that masters
// the bus, and stores to a rectangle of tiles and through write-combining
// mappings.
func (m *machine) addTiles(t *testing.T, c *card) {
	t.Helper()
	m.addHosted(t, c)
	m.addRectangle(t, c)
	m.addCombined(t, c)
}

// hostedBytes is what the core moves: more than a page, which the IOMMU may
// have elsewhere, and no more than a request of Wormhole's.
const hostedBytes = 6 << 10

// addHosted: a core of a tile takes data from host memory, adds to them, brings
// them back to other host memory and says so there (testdata/kernels/noc_host.c).
func (m *machine) addHosted(t *testing.T, c *card) {
	t.Helper()
	const add = 0x01020304
	data := xorshift32(91, hostedBytes)
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
`, c.board, c.ids, hostedBytes/4, c.tile, kernelCode(t, "noc_host_"+c.short), hostedBytes, c.pcie,
		add))
}

// kernelCode gives the code of a kernel of testdata, in hexadecimal digits.
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

// addRectangle: one store reaches every tile of a rectangle, and no other.
func (m *machine) addRectangle(t *testing.T, c *card) {
	t.Helper()
	first, last, beside := c.rectangle[0], c.rectangle[1], c.rectangle[2]
	text := fmt.Sprintf(`lightmetal 1
target %s %s bar0 512MiB
window all tlb size 1MiB
window one tlb size 1MiB
main:
  point     one tile %s address 0x0
  write.4   one+0x4000 0x0
`, c.board, c.ids, beside)
	for _, ordering := range []string{"default", "strict", "posted"} {
		value := xorshift32(uint32(len(ordering)), 64)
		text += fmt.Sprintf("  point all tiles %s to %s address 0x0 ordering %s\n"+
			"  copy.4 all+0x4000 <- hex %x\n  fence\n", first, last, ordering, value)
		for _, tile := range []string{first, last} {
			text += fmt.Sprintf("  point one tile %s address 0x0 ordering %s\n"+
				"  compare.4 one+0x4000 uint32 == hex %x\n", tile, ordering, value)
		}
		text += fmt.Sprintf("  point one tile %s address 0x0\n  expect.4 one+0x4000 == 0x0\n",
			beside)
	}
	m.addImage(t, c.board+"/rectangle", text)
}

// combinedBytes are copied through write-combining mappings.
const combinedBytes = 4099

// addCombined: blocks of odd sizes and places, in and out.
func (m *machine) addCombined(t *testing.T, c *card) {
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
