// Package corpus makes images for tests of verifiers that no tool should write: each field of an
// image gets invalid values, and values that are just valid.
package corpus

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// Image is a file, and the result of the verifier in this process. Refusal is empty if the verifier
// accepts the file. NoMain is true if an accepted file has no sequence main, which only a run
// rejects.
type Image struct {
	File    []byte
	Refusal string
	NoMain  bool
}

// Mutations changes files: it sets words and bytes of the envelope to limits of valid values, with
// a correct checksum, and it cuts and damages the file. It returns one image for each message of
// the verifier. Messages that differ only in their numbers count as one.
func Mutations(files ...[]byte) (list []Image) {
	seen := map[string]bool{}
	for _, file := range files {
		visitMutations(file, func(changed []byte) {
			i := Judged(changed)
			if words := Words(i.Refusal); !seen[words] {
				seen[words] = true
				list = append(list, i)
			}
		})
	}
	return list
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// Words returns a message with # in place of its numbers.
func Words(message string) string { return digits.ReplaceAllString(message, "#") }

// Judged returns a file together with the result of the verifier.
func Judged(file []byte) Image {
	// the verifier requires a start at a multiple of 8
	aligned := append(make([]byte, 0, len(file)+8), file...)
	view, err := fbs.Verify(aligned)
	if err != nil {
		return Image{File: file, Refusal: strings.Clone(err.Error())}
	}
	return Image{File: file, NoMain: view.SequenceByName("main") < 0}
}

func visitMutations(file []byte, visit func(changed []byte)) {
	at := 0
	change := func(newChecksum bool, how func([]byte) []byte) {
		changed := how(bytes.Clone(file))
		if size := binary.LittleEndian.Uint64(file[32:]); newChecksum {
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
		newChecksum := at >= 40 || at < 4
		for _, value := range limitValues(binary.LittleEndian.Uint32(file[at:])) {
			change(newChecksum,
				func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], value); return b })
		}
		for i := range 4 {
			for _, value := range []byte{0, 1, 2, 3, 4, 9, 0xff} {
				change(newChecksum, func(b []byte) []byte { b[at+i] = value; return b })
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
	change(true, func(b []byte) []byte { // sets the byte before the payload
		if envelope%4096 != 0 && envelope < len(b) {
			b[envelope] = 1
		}
		return b
	})
	signature := lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))
	for _, at := range []int{-1, 0, 8, 12, 31, 32, 64, fbs.SignatureSize - 1} {
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

// limitValues returns values next to an old value, and values at the limits of number ranges.
func limitValues(old uint32) []uint32 {
	return []uint32{0, 1, 2, old + 1, old - 1, old + 4, old << 1, old ^ 1<<31, 1<<31 - 1, 1 << 31,
		1<<32 - 1, 1 << 12, 1<<16 - 1}
}
