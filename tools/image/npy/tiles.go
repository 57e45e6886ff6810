package npy

// Conversion of matrices between rows and tt-metal's tiles. A tile has 32x32 elements, in four
// faces of 16x16. Tiles, the faces of a tile and the rows of a face follow each other row by row
// (tt-metal, tt_metal/api/tt-metalium/constants.hpp and tilize_utils.hpp). A tensor of such data
// has the shape AxBx2x2x16x16.

import "slices"

const (
	faceSide = 16
	tileSide = 2 * faceSide
)

// TiledMatrix returns the shape of the matrix that a tensor of tiles contains. `ok` is false if the
// tensor has another shape.
func TiledMatrix(shape []uint32) (matrix []uint32, ok bool) {
	if len(shape) != 6 || !slices.Equal(shape[2:], []uint32{2, 2, faceSide, faceSide}) {
		return nil, false
	}
	return []uint32{tileSide * shape[0], tileSide * shape[1]}, true
}

// ToTiles returns the elements of a matrix, each of size bytes, in the order of its tiles.
func ToTiles(data []byte, matrix []uint32, size int) []byte {
	tiles := make([]byte, len(data))
	eachFaceRow(matrix, size, func(inRows, inTiles, length int) {
		copy(tiles[inTiles:][:length], data[inRows:])
	})
	return tiles
}

// FromTiles is the inverse of ToTiles.
func FromTiles(tiles []byte, matrix []uint32, size int) []byte {
	data := make([]byte, len(tiles))
	eachFaceRow(matrix, size, func(inRows, inTiles, length int) {
		copy(data[inRows:][:length], tiles[inTiles:])
	})
	return data
}

// eachFaceRow calls `do` for each row of each face of a matrix, in the order of the tiles, with the
// offset of the row's bytes in the matrix, their offset in the tiles, and their number.
func eachFaceRow(matrix []uint32, size int, do func(inRows, inTiles, length int)) {
	rows, columns := int(matrix[0]), int(matrix[1])
	length, inTiles := faceSide*size, 0
	for tileRow := 0; tileRow < rows; tileRow += tileSide {
		for tileColumn := 0; tileColumn < columns; tileColumn += tileSide {
			for face := range 4 {
				row, column := tileRow+face/2*faceSide, tileColumn+face%2*faceSide
				for i := range faceSide {
					do(((row+i)*columns+column)*size, inTiles, length)
					inTiles += length
				}
			}
		}
	}
}
