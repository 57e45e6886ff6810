package chips

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"lightmetal/boards"
)

var update = flag.Bool("update", false, "rewrite testdata/boards.golden")

const goldenFile = "testdata/boards.golden"

// writeConstants writes every constant of `v`, one per line, each after its path.
func writeConstants(b *strings.Builder, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			fmt.Fprintf(b, "%s none\n", path)
			return
		}
		writeConstants(b, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			writeConstants(b, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			writeConstants(b, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		fmt.Fprintf(b, "%s %#x\n", path, v.Uint())
	default:
		fmt.Fprintf(b, "%s %v\n", path, v)
	}
}

func TestEveryConstantIsAsInTheGoldenFile(t *testing.T) {
	var b strings.Builder
	for _, board := range boards.All {
		writeConstants(&b, board.Name, reflect.ValueOf(board))
	}
	for _, c := range All {
		chip := *c
		chip.Board = nil // the board is already written
		writeConstants(&b, "chip "+c.Name, reflect.ValueOf(chip))
	}
	if *update {
		if err := os.WriteFile(goldenFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(string(golden), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s:%d: want %s, got %s\nif the change is intended: go test -update",
				goldenFile, i+1, want[i], got[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: want %d lines, got %d\nif the change is intended: go test -update",
			goldenFile, len(want), len(got))
	}
}
