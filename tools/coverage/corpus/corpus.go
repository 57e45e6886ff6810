// Package corpus makes images that nobody should make: each field of an image set to
// what it may not be, or may be just so.
package corpus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// Image is one with what the verifier of this process says of it: empty where
// that accepts it. Then it may have no main, which is for a run to say.
type Image struct {
	File    []byte
	Refusal string
	NoMain  bool
}

// Mutations are of an image: words and bytes of its envelope set to values at
// which something ends, with a checksum that is right again; and cuts and damage
// of the file. First come those that the verifier refuses each in other words, numbers
// left out, and then those that it refuses, or not, at another place.
func Mutations(file []byte) (first, rest []Image) {
	told := map[string]bool{}
	new := func(key string) bool {
		was := told[key]
		told[key] = true
		return !was
	}
	each(file, func(at int, changed []byte) {
		i := Judged(changed)
		words := digits.ReplaceAllString(i.Refusal, "#")
		if here := new(place(file, at) + words); new(words) {
			first = append(first, i)
		} else if here {
			rest = append(rest, i)
		}
	})
	return first, rest
}

// place names a byte of an envelope: itself, or for commands that of any with the same opcode.
func place(file []byte, at int) string {
	var first gen.Command
	root := gen.GetRootAsImage(file, 0)
	if !root.Commands(&first, 0) {
		return fmt.Sprint(at)
	}
	of := at - int(first.Table().Pos)
	if of < 0 || of >= root.CommandsLength()*fbs.CommandSize {
		return fmt.Sprint(at)
	}
	return fmt.Sprintf("command %d %d", file[at-of%fbs.CommandSize], of%fbs.CommandSize)
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// Judged is a file with what the verifier of this process says.
func Judged(file []byte) Image {
	aligned := append(make([]byte, 0, len(file)+8), file...) // where slices begin at a multiple of 8
	view, err := fbs.Verify(aligned)
	if err != nil {
		return Image{File: file, Refusal: strings.Clone(err.Error())}
	}
	return Image{File: file, NoMain: view.SequenceByName("main") < 0}
}

func each(file []byte, visit func(at int, changed []byte)) {
	at := 0
	change := func(stamp bool, how func([]byte) []byte) {
		changed := how(bytes.Clone(file))
		if size := binary.LittleEndian.Uint64(file[32:]); stamp {
			binary.LittleEndian.PutUint32(changed[12:], fbs.EnvelopeChecksum(changed[:size]))
		}
		visit(at, changed)
	}
	envelope := int(binary.LittleEndian.Uint64(file[32:]))
	for ; at+4 <= envelope; at += 4 {
		if at == 12 { // the checksum
			change(false, func(b []byte) []byte { b[at] ^= 1; return b })
			continue
		}
		behind := at >= 40 || at < 4
		for _, value := range edges(binary.LittleEndian.Uint32(file[at:])) {
			change(behind, func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], value); return b })
		}
		for i := range 4 {
			for _, value := range []byte{0, 1, 2, 3, 4, 9, 0xff} {
				change(behind, func(b []byte) []byte { b[at+i] = value; return b })
			}
		}
	}
	at = -1
	for _, size := range []int{0, 1, fbs.PreambleSize - 1, fbs.PreambleSize, envelope, len(file) - 1} {
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
	signature := lmb.SignatureBlock(make([]byte, 32), make([]byte, 64))
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
	return []uint32{0, 1, 2, old + 1, old - 1, old + 4, old << 1, old ^ 1<<31, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 12, 1<<16 - 1}
}
