package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deviceTree builds a flattened device tree (Devicetree Specification 0.4, chapter 5).
type deviceTree struct {
	structure []byte // structure block
	strings   []byte // strings block: the names of properties
}

// appendCell appends a 32-bit number to the structure block.
func (d *deviceTree) appendCell(n uint32) {
	d.structure = binary.BigEndian.AppendUint32(d.structure, n)
}

// appendPadded appends data, and zeros up to the next multiple of 4 bytes.
func (d *deviceTree) appendPadded(data []byte) {
	d.structure = append(d.structure, data...)
	for len(d.structure)%4 != 0 {
		d.structure = append(d.structure, 0)
	}
}

// beginNode starts a node. The nodes and properties that follow belong to it, up to endNode.
func (d *deviceTree) beginNode(name string) {
	d.appendCell(1)
	d.appendPadded(append([]byte(name), 0))
}

// endNode ends the node that the last beginNode started.
func (d *deviceTree) endNode() { d.appendCell(2) }

// appendProperty appends a property of the current node.
func (d *deviceTree) appendProperty(name string, value []byte) {
	d.appendCell(3)
	d.appendCell(uint32(len(value)))
	d.appendCell(uint32(len(d.strings)))
	d.strings = append(append(d.strings, name...), 0)
	d.appendPadded(value)
}

// encodeNumbers returns the value of a property that consists of 64-bit numbers.
func encodeNumbers(list ...uint64) (value []byte) {
	for _, n := range list {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	return value
}

// encode returns the bytes of the tree, with its header.
func (d *deviceTree) encode() (tree []byte) {
	d.appendCell(9)
	const header = 40
	names := header + len(d.structure)
	total := (names + len(d.strings) + 3) &^ 3
	for _, n := range []int{0xd00dfeed, total, header, names, 0, 17, 16, 0, len(d.strings),
		len(d.structure)} {
		tree = binary.BigEndian.AppendUint32(tree, uint32(n))
	}
	tree = append(append(tree, d.structure...), d.strings...)
	return append(tree, make([]byte, total-len(tree))...)
}

// virtMachineTree returns a tree with the nodes that the firmware searches for. The PCI host bridge
// is in the node of a bus, as on RISC-V.
func virtMachineTree() []byte {
	var d deviceTree
	d.beginNode("")
	d.appendProperty("compatible", []byte("linux,dummy-virt\x00"))
	d.appendCell(4) // a NOP
	d.beginNode("memory@40000000")
	d.appendProperty("device_type", []byte("memory\x00"))
	d.appendProperty("reg", encodeNumbers(0x4000_0000, 0x1000_0000))
	d.endNode()
	d.beginNode("soc")
	d.appendProperty("ranges", nil)
	d.beginNode("pcie@10000000")
	d.appendProperty("ranges", make([]byte, 3*28))
	d.appendProperty("reg", encodeNumbers(0x40_1000_0000, 0x1000_0000))
	d.appendProperty("compatible", []byte("pci-host-ecam-generic\x00"))
	d.beginNode("child")
	d.appendProperty("reg", encodeNumbers(1, 2))
	d.endNode()
	d.endNode()
	d.beginNode("pl011@9000000")
	d.appendProperty("reg", encodeNumbers(0x900_0000, 0x1000))
	d.appendProperty("compatible", []byte("arm,pl011\x00arm,primecell\x00"))
	d.endNode()
	d.endNode()
	d.beginNode("flash@0")
	d.appendProperty("compatible", []byte("cfi-flash\x00"))
	d.appendProperty("reg", encodeNumbers(0, 0x400_0000, 0x400_0000, 0x400_0000))
	d.endNode()
	d.endNode()
	return d.encode()
}

// TestBareFirmwareReadsOnlyItsTreeAndItsFlash compiles the firmware's parsers of device trees and
// flashes for the host, with sanitizers. They parse 100000 damaged trees and flashes.
func TestBareFirmwareReadsOnlyItsTreeAndItsFlash(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("LM_TEST_REQUIRED") == "" {
		t.Skip(err)
	}
	flash, err := encodeFlash([]flashEntry{{flashKindImage, "", bytes.Repeat([]byte{1}, 5000)},
		{flashKindInput, "input", []byte{1, 2, 3, 4}}, {kind: flashKindRun, name: "main"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "host_test")
	tree, flashFile := filepath.Join(dir, "tree"), filepath.Join(dir, "flash")
	for path, data := range map[string][]byte{tree: virtMachineTree(), flashFile: flash} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const sources = "../../../testdata/firmware/bare/"
	build := exec.Command("gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program,
		sources+"host_test.c", sources+"tree.c", sources+"flash.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	const want = `arm,pl011: 0x9000000 0x1000, ranges 0 bytes
memory: 0x40000000 0x10000000, ranges 0 bytes
cfi-flash: 0x0 0x4000000, ranges 0 bytes
pci-host-ecam-generic: 0x4010000000 0x10000000, ranges 84 bytes
absent: none
`
	out, err := exec.Command(program, tree, flashFile, "100000").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
		t.Errorf("host_test: error %v, output\n%s\nwant\n%s", err, out, want)
	}
	t.Log("evidence: 100000 damaged device trees and flashes read without an operating system")
}
