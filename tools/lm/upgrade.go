package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"

	"github.com/spf13/cobra"
)

func upgradeCommand() *cobra.Command {
	var out string
	c := newCommand("upgrade OLD.lmb -o NEW.lmb", exactlyOne("image"), func(args []string) {
		if out == "" {
			failUsage("-o FILE is missing; use -o FILE for the new image")
		}
		upgrade(args[0], out)
	})
	c.Flags().StringVarP(&out, "out", "o", "", "image to write")
	return c
}

// upgrade writes an image of format 2 as an image of this format.
func upgrade(path, out string) {
	file := openImage(path)
	var image *lmb.Image
	var renames []lmb.Rename
	isSigned, checksum := false, uint32(0)
	err := file.Inspect(func(data []byte) (err error) {
		if err = checkIsFormat2(data); err != nil {
			return err
		}
		checksum = fbs.ReadStruct[fbs.Preamble](data).Checksum
		image, renames, err = lmb.DecodeFormat2(data)
		unsigned, _, _ := fbs.SplitSignature(data)
		isSigned = len(unsigned) < len(data)
		return err
	})
	if err != nil && !isImage(file.Bytes()) {
		fail.On(cmp.Or(notAnImageError(path), err))
	}
	fail.On(err)
	written, err := lmb.Encode(image)
	failIf(hal.BadImage, path, err)
	lines := compareListings(image, fail.Must(lmb.Decode(written)))
	writeFile(out, written)

	to := messageWriter(out)
	printWritten(out, image, len(written), fmt.Sprintf("; the listing is that of %s: %s", path,
		english.Count(lines, "line")))
	printLine(to, "  checksum: %s before, %s now", fbs.ImageID(checksum),
		fbs.ImageID(fbs.ReadStruct[fbs.Preamble](written).Checksum))
	for _, r := range renames {
		printLine(to, "  renamed: %s %s is now %s", r.What, strconv.Quote(r.Old), r.New)
	}
	if isSigned {
		printLine(stderr, "lm: warning: %s is signed, but %s is not: sign it again with lm sign",
			path, outputName(out))
	}
}

func checkIsFormat2(data []byte) error {
	p := fbs.ReadStruct[fbs.Preamble](data)
	switch {
	case !isImage(data):
		return newFault(hal.BadImage, "not a Light Metal image")
	case p.Major == fbs.FormatMajor && p.Minor <= fbs.FormatMinor:
		return newFault(hal.BadImage, "the image has format %d.%d already, which this lm reads; "+
			"there is nothing to upgrade", p.Major, p.Minor)
	case p.Major != fbs.FormatMajor-1:
		return newFault(hal.BadImage, "the image has format %d.%d, but lm upgrade reads only %d.0"+
			remakeAdvice,
			p.Major, p.Minor, fbs.FormatMajor-1)
	}
	return nil
}

// compareListings fails unless both images have the same listing. It returns the number of lines.
func compareListings(before, after *lmb.Image) (lines int) {
	var sums [2][sha256.Size]byte
	for i, image := range []*lmb.Image{before, after} {
		hash, count := sha256.New(), &lineCounter{}
		fail.On(listing.Print(io.MultiWriter(hash, count), image))
		hash.Sum(sums[i][:0])
		lines = count.lines
	}
	if sums[0] != sums[1] {
		fail.With(hal.Internal, "the image that was written has another listing")
	}
	return lines
}

// lineCounter counts the lines that are written to it.
type lineCounter struct{ lines int }

// Write implements io.Writer.
func (l *lineCounter) Write(p []byte) (int, error) {
	l.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}
