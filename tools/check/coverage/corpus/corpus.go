// Package corpus makes images that nobody should make: each field of an image set to
// what it may not be, or may be just so.
package corpus

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// Image is one with what the verifier of this process says of it: empty where
// that accepts it. Then it may have no main, which is for a run to say.
type Image struct {
	File    []byte
	Refusal string
	NoMain  bool
}

// Mutations are of images: words and bytes of an envelope set to values at which
// something ends, with a checksum that is right again; and cuts and damage of the file.
// They are those that the verifier refuses each in other words, numbers left out.
func Mutations(files ...[]byte) (list []Image) {
	told := map[string]bool{}
	for _, file := range files {
		each(file, func(changed []byte) {
			i := Judged(changed)
			if words := digits.ReplaceAllString(i.Refusal, "#"); !told[words] {
				told[words] = true
				list = append(list, i)
			}
		})
	}
	return list
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// Judged is a file with what the verifier of this process says.
func Judged(file []byte) Image {
	// where slices begin at a multiple of 8
	aligned := append(make([]byte, 0, len(file)+8), file...)
	view, err := fbs.Verify(aligned)
	if err != nil {
		return Image{File: file, Refusal: strings.Clone(err.Error())}
	}
	return Image{File: file, NoMain: view.SequenceByName("main") < 0}
}

func each(file []byte, visit func(changed []byte)) {
	at := 0
	change := func(stamp bool, how func([]byte) []byte) {
		changed := how(bytes.Clone(file))
		if size := binary.LittleEndian.Uint64(file[32:]); stamp {
			binary.LittleEndian.PutUint32(changed[12:], fbs.EnvelopeChecksum(changed[:size]))
		}
		visit(changed)
	}
	envelope := int(binary.LittleEndian.Uint64(file[32:]))
	for ; at+4 <= envelope; at += 4 {
		if at == 12 { // the checksum
			change(false, func(b []byte) []byte { b[at] ^= 1; return b })
			continue
		}
		behind := at >= 40 || at < 4
		for _, value := range edges(binary.LittleEndian.Uint32(file[at:])) {
			change(behind,
				func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], value); return b })
		}
		for i := range 4 {
			for _, value := range []byte{0, 1, 2, 3, 4, 9, 0xff} {
				change(behind, func(b []byte) []byte { b[at+i] = value; return b })
			}
		}
	}
	at = -1
	for _, size := range []int{0, 1, fbs.PreambleSize - 1, fbs.PreambleSize, envelope,
		len(file) - 1} {
		change(false, func(b []byte) []byte { return b[:size] })
	}
	change(false, func(b []byte) []byte { return append(b, 0) })
	change(false, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	change(true, func(b []byte) []byte { // one byte in front of the payload
		if envelope%4096 != 0 && envelope < len(b) {
			b[envelope] = 1
		}
		return b
	})
	signature := lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))
	for _, at := range []int{-1, 0, 8, 12, 31, 32, 64, fbs.SignatureBytes - 1} {
		for _, checked := range []bool{false, true} {
			change(false, func(b []byte) []byte {
				block := bytes.Clone(signature)
				if at >= 0 {
					block[at] ^= 1
				}
				if checked {
					binary.LittleEndian.PutUint32(block[8:], fbs.Checksum(block[12:]))
				}
				return append(b, block...)
			})
		}
	}
}

// edges are the values beside one, and those at which numbers end.
func edges(old uint32) []uint32 {
	return []uint32{0, 1, 2, old + 1, old - 1, old + 4, old << 1, old ^ 1<<31, 1<<31 - 1, 1 << 31,
		1<<32 - 1, 1 << 12, 1<<16 - 1}
}
