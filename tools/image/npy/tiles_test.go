package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// TestTilesHaveFourFaces computes the place of each element of a matrix of 2x3 tiles independently:
// by its tile, its face and its place in the face.
func TestTilesHaveFourFaces(t *testing.T) {
	matrix := []uint32{64, 96}
	var data []byte
	for i := range uint16(64 * 96) {
		data = binary.LittleEndian.AppendUint16(data, i)
	}
	tiles := ToTiles(data, matrix, 2)
	for r := range 64 {
		for c := range 96 {
			tile, face := r/32*3+c/32, r%32/16*2+c%32/16
			at := tile*1024 + face*256 + r%16*16 + c%16
			if got := binary.LittleEndian.Uint16(tiles[2*at:]); int(got) != r*96+c {
				t.Fatalf("element %d,%d: place %d has %d, want %d", r, c, at, got, r*96+c)
			}
		}
	}
	if !bytes.Equal(FromTiles(tiles, matrix, 2), data) {
		t.Error("FromTiles does not return the rows that ToTiles had")
	}
}

func TestShapesOfTiles(t *testing.T) {
	for _, c := range []struct {
		shape []uint32
		want  string
	}{
		{[]uint32{2, 3, 2, 2, 16, 16}, "[64 96] true"},
		{[]uint32{1, 1, 2, 2, 16, 16}, "[32 32] true"},
		{[]uint32{2, 3, 2, 2, 16, 8}, "[] false"}, {[]uint32{64, 96}, "[] false"},
		{nil, "[] false"},
	} {
		t.Run(fmt.Sprint(c.shape), func(t *testing.T) {
			matrix, ok := TiledMatrix(c.shape)
			if got := fmt.Sprint(matrix, ok); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
