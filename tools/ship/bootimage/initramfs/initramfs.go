// Package initramfs packs files into the archive that Linux unpacks as its
// first root: cpio, format "newc" (Linux, Documentation/driver-api/
// early-userspace/buffer-format.rst). Equal files give equal bytes: sorted
// names, numbered inodes, no times, owner 0.
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

// File is a regular file, or a folder where Path ends in a slash. The folders
// above a file need not be named.
type File struct {
	Path string // absolute
	Mode uint32 // permissions
	Data []byte
}

// Pack writes an archive of the files. A path that is not absolute and clean,
// or stands there twice, is an error.
func Pack(w io.Writer, files []File) error {
	archive := cpio.NewWriter(w)
	entries, err := withFolders(files)
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

// Nodes writes the beginning of an archive: what process 1 finds before it mounts
// anything. Without a console Linux starts it with no open files, and Go then opens
// /dev/null in their place, or gives up.
func Nodes(w io.Writer) error {
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

// Gzip compresses an archive, without name and time.
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

// withFolders gives the files in order, each after the folders it lies in.
func withFolders(files []File) ([]File, error) {
	seen := map[string]bool{"/": true}
	var all []File
	add := func(f File) { seen[f.Path] = true; all = append(all, f) }
	for _, f := range files {
		clean := strings.TrimSuffix(f.Path, "/")
		if !strings.HasPrefix(f.Path, "/") || clean == "" || path.Clean(clean) != clean {
			return nil, fmt.Errorf("%q is not the path of a file in an initramfs", f.Path)
		}
		if seen[clean] || seen[clean+"/"] && clean == f.Path {
			return nil, fmt.Errorf("%s occurs twice", f.Path)
		}
		for i := 1; i < len(clean); i++ {
			if folder := clean[:i] + "/"; clean[i] == '/' && !seen[folder] {
				if seen[clean[:i]] {
					return nil, fmt.Errorf("%s is below a file, which is not a directory", f.Path)
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
