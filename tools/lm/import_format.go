package main

import (
	"bytes"
	"io"

	"lightmetal/tools/importer"
)

// otherFormat says which format a file seems to have, where that is another than
// what was asked for. QEMU's binary traces begin with an event of number ~0 and a
// magic number (trace/simple.c).
func otherFormat(trace *input, from string) string {
	if _, err := trace.Seek(0, io.SeekStart); err != nil { // a pipe
		return ""
	}
	head := make([]byte, 64<<10)
	n, _ := io.ReadFull(trace.File, head)
	head = head[:n]
	seems := ""
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2")):
		return "; this is a binary trace of QEMU's backend simple: the backend log writes text (qemu -trace EVENT -D FILE)"
	case bytes.HasPrefix(head, []byte("LMRECORD")) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		seems = importer.FromRecord
	case bytes.HasPrefix(head, []byte("VERSION 2")):
		seems = importer.FromMmiotrace
	case bytes.Contains(head, []byte("memory_region_ops_")) || bytes.Contains(head, []byte("vfio_region_")):
		seems = importer.FromQemu
	}
	if seems == "" || seems == from {
		return ""
	}
	return "; it looks like --from " + seems
}
