//go:build linux && (amd64 || arm64)

package recorder

import (
	"slices"
	"strings"
	"testing"
)

// TestPageThatBothWroteIsMarked has a page to which the device has written before, and a page that
// the device is about to lose. Memory that the device only reads has no such page.
func TestPageThatBothWroteIsMarked(t *testing.T) {
	program := compileProgram(t, "testdata/answers.c", "-O2")
	path := createCard(t)
	c, out := recorderCommand(t, []string{requestVariable + "=0x3b71,0x3b72"},
		Options{HostMemoryLimit: 1 << 20}, path, program)
	r := runCommand(t, c, path)
	if r.readRecord(out); r.err != nil || r.exit != 0 {
		t.Fatalf("exit status %d, record: %v, messages %s", r.exit, r.err, r.messages)
	}
	if strings.Contains(r.messages, "does not report which pages") {
		t.Skip("needs Linux 6.7")
	}
	list := r.events()
	want := []string{
		"HR 10000 8 0201010101010101", "HR 20000 8 0201010101010101", "HR 30000 8 0201010101010101",
		"W 0 4 02000000", "HW 10008 8 0301010101010101", "W 0 4 03000000",
		"HR 30010 8 0401010101010101", "HB 10010 16 04010101010101010501010101010101",
		"W 0 4 04000000", "HB 20010 16 06010101010101010701010101010101",
		"HR 30020 8 0801010101010101", "W 0 4 05000000"}
	if at := slices.Index(list, "W 0 4 01000000"); at < 0 || !slices.Equal(list[at+1:], want) {
		t.Errorf("got\n%s\nwant at the end\n%s", strings.Join(list[at+1:], "\n"),
			strings.Join(want, "\n"))
	}
}
