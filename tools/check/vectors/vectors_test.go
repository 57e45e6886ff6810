package main

// This file runs all vectors with the oracle and with the Go runtime.

import (
	"testing"

	"lightmetal/tools/check/vectors/reader"
	"lightmetal/tools/check/vectors/vector"
)

const folder = "../../../testdata/vectors"

// agreesWith reports whether a reader agrees with the text of one vector.
func agreesWith(t *testing.T, text string, r reader.Reader) bool {
	t.Helper()
	vectors, err := vector.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	machine := vector.NewMachine(vectors[0])
	return reader.Check(vectors[0], reader.ImageOf(t, folder, vectors[0]), machine, r) == nil
}

func TestOracleAgreesWithVectors(t *testing.T) {
	reader.CheckAll(t, folder, false, &reader.Oracle{})
}

func TestRuntimeAgreesWithVectors(t *testing.T) {
	reader.CheckAll(t, folder, true, &reader.Runtime{})
}
