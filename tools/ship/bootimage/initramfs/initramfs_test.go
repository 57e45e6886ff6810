package initramfs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

func packFiles(t *testing.T, files ...File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(&b, files); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveHasEachFolderBeforeItsFiles(t *testing.T) {
	archive := packFiles(t, File{"/m/b/x", 0o644, []byte("x")}, File{"/init", 0o755, []byte("i")},
		File{"/proc/", 0, nil}, File{"/m-", 0o644, nil})
	r, got := cpio.NewReader(bytes.NewReader(archive)), []string{}
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o", h.Name, h.Mode))
		if !h.ModTime.IsZero() && h.ModTime.Unix() != 0 || h.Uid != 0 {
			t.Errorf("%s: time %v, owner %d, want 0 for both", h.Name, h.ModTime, h.Uid)
		}
	}
	want := "init 100755,m- 100644,m 40755,m/b 40755,m/b/x 100644,proc 40755"
	if strings.Join(got, ",") != want {
		t.Errorf("the archive has %s\nwant %s", strings.Join(got, ","), want)
	}
}

func TestArchiveDoesNotDependOnTheOrderOfFiles(t *testing.T) {
	a, b := File{"/a/x", 0o644, []byte("1")}, File{"/b", 0o600, []byte("2")}
	if !bytes.Equal(packFiles(t, a, b), packFiles(t, b, a)) {
		t.Error("the archives of the same files in two orders differ")
	}
}

func TestInvalidPathsAreRejected(t *testing.T) {
	for _, paths := range []string{"x", "", "/", "//x", "/a/../b", "/a,/a", "/a,/a/b", "/a/b,/a",
		"/a//"} {
		var files []File
		for _, p := range strings.Split(paths, ",") {
			files = append(files, File{Path: p})
		}
		if err := Pack(io.Discard, files); err == nil {
			t.Errorf("%q: no error", paths)
		}
	}
}

func TestCompressedArchiveHasNeitherNameNorTime(t *testing.T) {
	var b bytes.Buffer
	if err := Gzip(&b, []byte("archive")); err != nil {
		t.Fatal(err)
	}
	// RFC 1952, 2.3: flags at 3, time at 4.
	if head := b.Bytes(); head[3] != 0 || binary.LittleEndian.Uint32(head[4:]) != 0 {
		t.Errorf("header % x, want neither flags nor time", head[:10])
	}
	r, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); string(text) != "archive" || err != nil {
		t.Errorf("decompressed %q, error %v, want \"archive\"", text, err)
	}
}

func TestArchiveHasTheDeviceNodesOfPID1(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDeviceNodes(&b); err != nil {
		t.Fatal(err)
	}
	if err := Pack(&b, []File{{"/init", 0o755, []byte("i")}}); err != nil {
		t.Fatal(err)
	}
	r, got := cpio.NewReader(&b), ""
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s %o\n", h.Name, h.Mode)
	}
	if want := "dev 40755\ndev/console 20600\ndev/null 20666\ninit 100755\n"; got != want {
		t.Errorf("the archive has\n%s\nwant\n%s", got, want)
	}
}
