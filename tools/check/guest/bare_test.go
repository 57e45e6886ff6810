package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFlashHeaderHasOffsetsOfEntries checks encodeFlash, without a machine.
func TestFlashHeaderHasOffsetsOfEntries(t *testing.T) {
	entries := []flashEntry{{flashKindImage, "", []byte("image")},
		{kind: flashKindRun, name: "frame"},
		{flashKindInput, "a", bytes.Repeat([]byte{7}, 5000)}}
	flash, err := encodeFlash(entries)
	if err != nil {
		t.Fatal(err)
	}
	number32 := func(entry int) int { return int(littleEndianValue(flash[entry : entry+4])) }
	if string(flash[:8]) != "LMFLASH1" || number32(8) != len(entries) || number32(12) != 0 {
		t.Fatalf("wrong header %x", flash[:16])
	}
	for i, e := range entries {
		entry := 16 + 24*i
		name, data := number32(entry+4), number32(entry+12)
		gotName := string(flash[name : name+number32(entry+8)])
		gotData := flash[data : data+number32(entry+16)]
		if flashKind(number32(entry)) != e.kind || gotName != e.name ||
			!bytes.Equal(gotData, e.data) || number32(entry+20) != 0 {
			t.Errorf("entry %d: %x, name %q, %d bytes; want kind %d, name %q, %d bytes", i,
				flash[entry:entry+24], gotName, len(gotData), e.kind, e.name, len(e.data))
		}
		if len(e.data) > 0 && data%flashDataAlignment != 0 {
			t.Errorf("entry %d: data at %#x, want a multiple of %#x", i, data, flashDataAlignment)
		}
	}
	large := []flashEntry{{flashKindImage, "", make([]byte, flashSize)}}
	if _, err := encodeFlash(large); err == nil {
		t.Error("encodeFlash accepted data that are as large as the flash")
	}
}

// TestPackWritesFlashWithoutBooting checks the flag -pack, which writes flash 1 to a file for use
// on other machines.
func TestPackWritesFlashWithoutBooting(t *testing.T) {
	const image = "../../../testdata/images/edu-factorial.lmb"
	path := filepath.Join(t.TempDir(), "flash1.img")
	exit, err := runBare([]string{"-pack", path, "-sequence", "compute", image},
		&bareMachine{machine: &machine{}})
	if exit != 0 || err != nil {
		t.Fatalf("exit status %d: %v", exit, err)
	}
	got, err := os.ReadFile(path)
	if err != nil || len(got) != flashSize {
		t.Fatalf("%d bytes, want %d: %v", len(got), flashSize, err)
	}
	entries, err := flashEntries(image, nil, []string{"compute"}, false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := encodeFlash(entries)
	if err != nil || !bytes.Equal(got[:len(want)], want) {
		t.Errorf("flash 1 does not have the image and the sequence's name: %v", err)
	}
	if exit, err := runBare([]string{"-pack", path, "/nonexistent"},
		&bareMachine{machine: &machine{}}); exit != exitNoFile {
		t.Errorf("exit status %d without an image, want %d: %v", exit, exitNoFile, err)
	}
}
