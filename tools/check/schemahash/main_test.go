package main

import "testing"

func TestCommentsAndBlanksDoNotChangeTheHash(t *testing.T) {
	const bare = "a;\nb;\n"
	if got := canonical(bare); got != bare {
		t.Fatalf("canonical(%q) = %q, want it unchanged", bare, got)
	}
	for _, schema := range []string{"a;\nb;", "// head\n\n  a; // first\n\t\nb;\r\n",
		"a;\n//\nb;\n\n"} {
		if schemaHash(schema) != schemaHash(bare) {
			t.Errorf("hash of %q differs; its canonical text is %q", schema, canonical(schema))
		}
	}
	if schemaHash("a;\nc;\n") == schemaHash(bare) {
		t.Error("two different schemas have the same hash")
	}
}

// TestHashIsTheFirstEightBytesOfSHA256LittleEndian expects the first eight bytes that
// `printf 'a;\nb;\n' | sha256sum` prints, in reverse order.
func TestHashIsTheFirstEightBytesOfSHA256LittleEndian(t *testing.T) {
	if got, want := schemaHash("a;\nb;\n"), uint64(0x48ea44befc5d6902); got != want {
		t.Errorf("hash %#016x, want %#016x", got, want)
	}
}
