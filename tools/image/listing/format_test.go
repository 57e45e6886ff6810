package listing

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb"
)

// codeBlock returns the first code block after a heading of a page whose first line is ``` and the
// given word.
func codeBlock(t *testing.T, page, heading, word string) string {
	t.Helper()
	_, text, _ := strings.Cut(page, heading)
	_, text, ok := strings.Cut(text, "```"+word+"\n")
	text, _, closed := strings.Cut(text, "```")
	if !ok || !closed {
		t.Fatalf("the page has no code block %s after %q", word, heading)
	}
	return text
}

var (
	// dumpLine matches a line of the dump: offset, bytes, meaning.
	dumpLine = regexp.MustCompile(`^([0-9a-f]{4})  (00 \* \d+|(?:[0-9a-f]{2} ?)+?) +(\S.*)$`)
	// namedNumber matches a meaning that begins with a name and a number.
	namedNumber = regexp.MustCompile(`^[\w ]+: (0x[0-9a-f]+|\d+)\b`)
	// targetPlace matches the position that the meaning of a reference ends with.
	targetPlace = regexp.MustCompile(`, so at ([0-9a-f]{4})$`)
)

// dumpedBytes returns the bytes of a line of the dump.
func dumpedBytes(text string) ([]byte, error) {
	if count, ok := strings.CutPrefix(text, "00 * "); ok {
		n, err := strconv.Atoi(count)
		return make([]byte, n), err
	}
	return hex.DecodeString(strings.ReplaceAll(text, " ", ""))
}

// checkDump compares a dump with an image: the bytes, the offsets, and the numbers in the meanings.
func checkDump(dump string, image []byte) error {
	at := 0
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		field := dumpLine.FindStringSubmatch(line)
		if field == nil {
			return fmt.Errorf("not a line of a dump: %q", line)
		}
		raw, err := dumpedBytes(field[2])
		if want := fmt.Sprintf("%04x", at); err != nil || field[1] != want {
			return fmt.Errorf("%q: the offset should be %s, %v", line, want, err)
		}
		if at+len(raw) > len(image) || !bytes.Equal(raw, image[at:at+len(raw)]) {
			return fmt.Errorf("%q: the image has % x", line, image[at:min(at+len(raw), len(image))])
		}
		var value uint64
		for i, b := range raw {
			value |= uint64(b) << (8 * i)
		}
		if number := namedNumber.FindStringSubmatch(field[3]); number != nil && len(raw) <= 8 {
			if n, err := strconv.ParseUint(number[1], 0, 64); err != nil || n != value {
				return fmt.Errorf("%q: the number is %d", line, value)
			}
		}
		if target := targetPlace.FindStringSubmatch(field[3]); target != nil {
			if want := fmt.Sprintf("%04x", uint64(at)+value); target[1] != want {
				return fmt.Errorf("%q: the place is %s", line, want)
			}
		}
		at += len(raw)
	}
	if at != len(image) {
		return fmt.Errorf("the dump has %d bytes, the image %d", at, len(image))
	}
	return nil
}

// TestDumpInTheFormatMatchesItsListing compares the dump in the appendix of FORMAT.md with the
// image of the listing there.
func TestDumpInTheFormatMatchesItsListing(t *testing.T) {
	text, err := os.ReadFile("../../../fbs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	const heading = "\n## Appendix: a small image, byte by byte\n"
	image, err := lmb.Encode(mustParse(t, codeBlock(t, string(text), heading, "lms")))
	if err != nil {
		t.Fatal(err)
	}
	dump := codeBlock(t, string(text), heading, "hexdump")
	if err := checkDump(dump, image); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][2]string{
		{"0004  4c 4d 42 31", "0004  4c 4d 42 32"}, {"width: 4", "width: 8"},
		{"so at 0104", "so at 0105"}, {"00 * 32", "00 * 31"},
		{"\n000a  00 00  ", "\n000b  00 00  "},
	} {
		changed := strings.Replace(dump, wrong[0], wrong[1], 1)
		if changed == dump || checkDump(changed, image) == nil {
			t.Errorf("a dump with %q instead of %q is accepted", wrong[1], wrong[0])
		}
	}
}
