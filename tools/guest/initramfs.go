package main

import (
	"bytes"
	"maps"
	"path"
	"slices"

	"github.com/cavaliergopher/cpio"
)

// initramfs packs files by absolute path, all of them executable, with the
// folders they lie in and the mount points that process 1 needs. Equal files
// give equal bytes: sorted names, numbered inodes, no times.
func initramfs(files map[string][]byte) ([]byte, error) {
	var archive bytes.Buffer
	w := cpio.NewWriter(&archive)
	for _, dir := range folders(files) {
		if err := w.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		if err := w.WriteHeader(&cpio.Header{Name: name[1:], Mode: cpio.TypeReg | 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}

func folders(files map[string][]byte) []string {
	dirs := []string{"dev", "proc", "sys", "tmp"}
	for name := range files {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, dir[1:])
		}
	}
	slices.Sort(dirs) // parents first
	return slices.Compact(dirs)
}
