package main

import (
	"bytes"
	"maps"
	"slices"

	"github.com/cavaliergopher/cpio"
)

// initramfs packs files by absolute path, all of them executable, and the
// mount points that process 1 needs. Equal files give equal bytes: sorted
// names, numbered inodes, no times.
func initramfs(files map[string][]byte) ([]byte, error) {
	var archive bytes.Buffer
	w := cpio.NewWriter(&archive)
	for _, dir := range []string{"dev", "proc", "sys", "input"} {
		if err := w.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		data := files[path]
		if err := w.WriteHeader(&cpio.Header{Name: path[1:], Mode: cpio.TypeReg | 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
