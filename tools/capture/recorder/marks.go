//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"os"
	"strings"
	"unicode"
)

const markBytesMax = 200 // longer marks are cut

// markFile follows the lines that are appended to Options.Marks.
type markFile struct {
	file *os.File // nil: not there yet
	rest []byte   // a line that does not end yet
}

// readMarks writes a MARK line for each line that was appended since the last stop: before the
// access that follows.
func (r *recording) readMarks() {
	m := &r.marks
	if r.options.Marks == "" {
		return
	}
	if m.file == nil {
		var err error
		if m.file, err = os.Open(r.options.Marks); err != nil {
			m.file = nil
			return
		}
	}
	var buffer [4096]byte
	for {
		n, _ := m.file.Read(buffer[:])
		if n == 0 {
			return
		}
		m.rest = append(m.rest, buffer[:n]...)
		for {
			line, rest, found := bytes.Cut(m.rest, []byte("\n"))
			if !found {
				break
			}
			m.rest = rest
			if text := markText(line); text != "" {
				r.out.Clock()
				r.out.Line("MARK %s", text)
			}
		}
	}
}

func markText(line []byte) string {
	text := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, string(line[:min(len(line), markBytesMax)]))
	return strings.TrimSpace(text)
}
