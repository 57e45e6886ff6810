// Package initramfs packs files into the archive that Linux unpacks as its first root file system:
// cpio, format "newc" (Linux, Documentation/driver-api/early-userspace/buffer-format.rst). Equal
// files result in equal bytes: sorted names, numbered inodes, no times, owner 0.
package initramfs

import (
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// File is a regular file, or a directory if Path ends in a slash. Pack adds the directories that
// contain a file.
type File struct {
	Path string // absolute
	Mode uint32 // permissions
	Data []byte
}

// Pack writes an archive of the files. It returns an error if a path is not absolute and clean, or
// occurs twice.
func Pack(w io.Writer, files []File) error {
	archive := cpio.NewWriter(w)
	entries, err := addDirectories(files)
	if err != nil {
		return err
	}
	for _, f := range entries {
		header := &cpio.Header{Name: strings.Trim(f.Path, "/"),
			Mode: cpio.TypeReg | cpio.FileMode(f.Mode), Size: int64(len(f.Data)), Links: 1}
		if strings.HasSuffix(f.Path, "/") {
			header.Mode, header.Links = cpio.TypeDir|0o755, 2
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// WriteDeviceNodes writes the beginning of an archive: the device nodes that PID 1 finds before it
// mounts anything. Without /dev/console, Linux starts PID 1 with no open files. Go then opens
// /dev/null instead, and ends the program if there is none.
func WriteDeviceNodes(w io.Writer) error {
	const folder, device = 0o040755, 0o020600
	for _, n := range []struct {
		name         string
		mode         int
		major, minor int
	}{{"dev", folder, 0, 0}, {"dev/console", device, 5, 1}, {"dev/null", device | 0o066, 1, 3}} {
		// Magic, inode, mode, owner, group, links, time, size, device, node, length of the name,
		// sum.
		header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0,
			n.mode, 0, 0, 1, 0, 0, 0, 0, n.major, n.minor,
			len(n.name)+1, 0)
		entry := header + n.name + "\x00"
		if _, err := io.WriteString(w, entry+"\x00\x00\x00"[:-len(entry)&3]); err != nil {
			return err
		}
	}
	return nil
}

// Gzip compresses an archive. The header contains no name and no time.
func Gzip(w io.Writer, archive []byte) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(archive); err != nil {
		return err
	}
	return z.Close()
}

// addDirectories returns the files in the order of their paths, each after the directories that
// contain it.
func addDirectories(files []File) ([]File, error) {
	seen := map[string]bool{"/": true}
	var all []File
	add := func(f File) { seen[f.Path] = true; all = append(all, f) }
	for _, f := range files {
		clean := strings.TrimSuffix(f.Path, "/")
		if !strings.HasPrefix(f.Path, "/") || clean == "" || path.Clean(clean) != clean {
			return nil, fmt.Errorf("%q must be an absolute path without `//`, `.` and `..`", f.Path)
		}
		if seen[clean] || seen[clean+"/"] && clean == f.Path {
			return nil, fmt.Errorf("the path %s occurs twice in the initramfs", f.Path)
		}
		for i := 1; i < len(clean); i++ {
			if folder := clean[:i] + "/"; clean[i] == '/' && !seen[folder] {
				if seen[clean[:i]] {
					return nil, fmt.Errorf("%s cannot be added, because %s is a file and not a "+
						"directory", f.Path, clean[:i])
				}
				add(File{Path: folder})
			}
		}
		if !seen[f.Path] {
			add(f)
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}
