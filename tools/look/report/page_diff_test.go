package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// diffPageOf returns the page of the differences of two images, a<b>.lmb and b.lmb.
func diffPageOf(t *testing.T, viewA, viewB *fbs.View) []byte {
	t.Helper()
	a, errA := lmb.FromView(viewA)
	b, errB := lmb.FromView(viewB)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	d := Diff(a, b, viewA.WorstCaseUs, viewB.WorstCaseUs)
	var page bytes.Buffer
	image := func(name string, v *fbs.View) ComparedImage {
		return ComparedImage{Name: name, Checksum: v.ID(), SHA256: strings.Repeat("5a", 32)}
	}
	err := d.WritePage(&page, image("a<b>.lmb", viewA), image("b.lmb", viewB), a,
		Generator{"lm test", time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return page.Bytes()
}

// TestDiffPageShowsBothImagesSideBySide checks an inserted command, changed data, a changed
// deadline, names with markup, and that the page is well-formed.
func TestDiffPageShowsBothImagesSideBySide(t *testing.T) {
	const header = "lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB\n" +
		"window r bar0 offset 0 size 1MiB\nmain:\n"
	viewA := verify(t, assemble(t, header+"  write.4 r+0x4 0x1\n"+
		"  copy.4 r+0x8 <- hex 01000000 02000000\n"))
	viewB := verify(t, assemble(t, header+"  write.4 r+0x4 0x1\n  write.4 r+0x20 0x7\n"+
		"  copy.4 r+0x8 <- hex 01000000 03000000\n"))
	page := diffPageOf(t, viewA, viewB)
	text := string(page)
	for _, want := range []string{"The images differ.", "a&lt;b&gt;.lmb", viewA.ID(), viewB.ID(),
		`<tr class="same"><td class="number"></td><td>write.4 r&#43;0x4 0x1</td>`,
		`<tr class="changed"><td class="number"></td><td></td><td class="number">1</td>` +
			`<td>write.4 r&#43;0x20 0x7</td></tr>`,
		"the same command; other data: byte 4 of 8"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	decoder := xml.NewDecoder(bytes.NewReader(page))
	decoder.Strict = true
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
}
