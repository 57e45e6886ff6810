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
	structure, names []byte
}

func (d *deviceTree) cell(n uint32) {
	d.structure = binary.BigEndian.AppendUint32(d.structure, n)
}

// padded appends bytes up to the next cell.
func (d *deviceTree) padded(data []byte) {
	d.structure = append(d.structure, data...)
	for len(d.structure)%4 != 0 {
		d.structure = append(d.structure, 0)
	}
}

func (d *deviceTree) begin(name string) {
	d.cell(1)
	d.padded(append([]byte(name), 0))
}

func (d *deviceTree) end() { d.cell(2) }

func (d *deviceTree) property(name string, value []byte) {
	d.cell(3)
	d.cell(uint32(len(value)))
	d.cell(uint32(len(d.names)))
	d.names = append(append(d.names, name...), 0)
	d.padded(value)
}

// numbers is a property of 64-bit numbers.
func numbers(list ...uint64) (value []byte) {
	for _, n := range list {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	return value
}

// file returns the tree with its header.
func (d *deviceTree) file() (tree []byte) {
	d.cell(9)
	const header = 40
	names := header + len(d.structure)
	total := (names + len(d.names) + 3) &^ 3
	for _, n := range []int{0xd00dfeed, total, header, names, 0, 17, 16, 0, len(d.names),
		len(d.structure)} {
		tree = binary.BigEndian.AppendUint32(tree, uint32(n))
	}
	tree = append(append(tree, d.structure...), d.names...)
	return append(tree, make([]byte, total-len(tree))...)
}

// virtTree has the nodes that the firmware looks for, the bridge inside of a bus, as on RISC-V.
func virtTree() []byte {
	var d deviceTree
	d.begin("")
	d.property("compatible", []byte("linux,dummy-virt\x00"))
	d.cell(4) // a NOP
	d.begin("memory@40000000")
	d.property("device_type", []byte("memory\x00"))
	d.property("reg", numbers(0x4000_0000, 0x1000_0000))
	d.end()
	d.begin("soc")
	d.property("ranges", nil)
	d.begin("pcie@10000000")
	d.property("ranges", make([]byte, 3*28))
	d.property("reg", numbers(0x40_1000_0000, 0x1000_0000))
	d.property("compatible", []byte("pci-host-ecam-generic\x00"))
	d.begin("child")
	d.property("reg", numbers(1, 2))
	d.end()
	d.end()
	d.begin("pl011@9000000")
	d.property("reg", numbers(0x900_0000, 0x1000))
	d.property("compatible", []byte("arm,pl011\x00arm,primecell\x00"))
	d.end()
	d.end()
	d.begin("flash@0")
	d.property("compatible", []byte("cfi-flash\x00"))
	d.property("reg", numbers(0, 0x400_0000, 0x400_0000, 0x400_0000))
	d.end()
	d.end()
	return d.file()
}

// TestBareFirmwareReadsOnlyItsTreeAndItsFlash compiles the readers for this machine with
// sanitizers, and has them read a hundred thousand damaged trees and flashes.
func TestBareFirmwareReadsOnlyItsTreeAndItsFlash(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("LM_TEST_REQUIRED") == "" {
		t.Skip(err)
	}
	flash, err := encodeFlash([]flashEntry{{flashImage, "", bytes.Repeat([]byte{1}, 5000)},
		{flashInput, "input", []byte{1, 2, 3, 4}}, {kind: flashRun, name: "main"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "host_test")
	tree, flashFile := filepath.Join(dir, "tree"), filepath.Join(dir, "flash")
	for path, data := range map[string][]byte{tree: virtTree(), flashFile: flash} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const sources = "../../../testdata/firmware/bare/"
	build := exec.Command("gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program,
		sources+"host_test.c", sources+"tree.c", sources+"flash.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `arm,pl011: 0x9000000 0x1000, ranges 0 bytes
memory: 0x40000000 0x10000000, ranges 0 bytes
cfi-flash: 0x0 0x4000000, ranges 0 bytes
pci-host-ecam-generic: 0x4010000000 0x10000000, ranges 84 bytes
absent: none
`
	out, err := exec.Command(program, tree, flashFile, "100000").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	t.Log("evidence: 100000 damaged device trees and flashes read without an operating system")
}
