// Package fbs is the Light Metal binary: the schema (image.fbs), the Go that
// flatc makes of it (gen), the view of a mapped file and the verifier.
//
// A file is a FlatBuffer, the envelope, followed by page-aligned segments of
// payload. FORMAT.md is its specification, byte by byte. Verify is the only
// way to a View, so whoever holds a View holds a file in which every offset,
// count and reference has been checked.
package fbs
