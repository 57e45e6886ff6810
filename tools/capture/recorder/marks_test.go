//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"
)

func TestMarksOfAFileAreBetweenTheAccesses(t *testing.T) {
	program, path := compileProgram(t, "testdata/marks.c", "-O2"), createCard(t)
	marks := filepath.Join(t.TempDir(), "marks")
	c, out := recorderCommand(t, nil, Options{Marks: marks, Notes: []string{"QEMU: good"}}, path,
		program, marks)
	r := runCommand(t, c, path)
	if r.readRecord(out); r.err != nil || r.exit != 0 {
		t.Fatalf("exit status %d, record: %v, messages %s", r.exit, r.err, r.messages)
	}
	var list []string
	for _, a := range r.capture.Records {
		switch a.Kind {
		case record.BarWrite:
			list = append(list, fmt.Sprint("W ", a.Data[0]))
		case record.Mark:
			list = append(list, string(a.Data))
		}
	}
	want := []string{"W 1", "W 2", "frame 2", "W 3", "frame 3", "frame 4"}
	if !slices.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(record.NewTextReader(file))
	if err != nil || !strings.HasPrefix(string(text), "LMRECORD 2\nNOTE QEMU: good\n") {
		t.Errorf("the record lacks the note at its start (%v):\n%.100s", err, text)
	}
}
