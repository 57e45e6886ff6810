package main

import (
	"bytes"
	"io"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/look/report"

	"github.com/spf13/cobra"
)

func diffCommand() *cobra.Command {
	c := newCommand("diff A.lmb B.lmb", argumentCount(2, 2, "two images"),
		func(args []string) { diffImages(args[0], args[1]) })
	defineJSONFlag(c, "print the differences as JSON")
	return c
}

// comparison is the difference of two images. Its JSON is stable.
type comparison struct {
	A report.ComparedImage `json:"a"`
	B report.ComparedImage `json:"b"`
	*report.Difference

	imageA *lmb.Image
}

func compareImages(pathA, pathB string) *comparison {
	_, viewA := openVerified(pathA)
	_, viewB := openVerified(pathB)
	a, err := lmb.FromView(viewA)
	failIf(hal.BadImage, pathA, err)
	b, err := lmb.FromView(viewB)
	failIf(hal.BadImage, pathB, err)
	idA, idB := identify(viewA), identify(viewB)
	return &comparison{report.ComparedImage{Name: pathA, Checksum: idA.Checksum,
		SHA256: idA.SHA256}, report.ComparedImage{Name: pathB, Checksum: idB.Checksum,
		SHA256: idB.SHA256}, report.Diff(a, b, viewA.WorstCaseUs, viewB.WorstCaseUs), a}
}

func diffImages(pathA, pathB string) {
	c := compareImages(pathA, pathB)
	c.print(stdout)
	if !c.Equal {
		fail.On(programStatus(1)) // as diff(1)
	}
}

func (c *comparison) print(to io.Writer) {
	if asJSON {
		printJSON(to, c)
		return
	}
	for _, side := range []struct {
		name  string
		image *report.ComparedImage
	}{{"A", &c.A}, {"B", &c.B}} {
		printLine(to, "%s is %s, checksum %s", side.name, side.image.Name, side.image.Checksum)
	}
	fail.On(c.Write(to, c.imageA))
}

// reportDifference is lm report --diff.
func reportDifference(pathA, pathB, out string) {
	c := compareImages(pathA, pathB)
	if out == "" {
		c.print(stdout)
		return
	}
	var page bytes.Buffer
	made := report.Generator{Program: thisVersion().program(), Time: time.Now()}
	fail.On(c.WritePage(&page, c.A, c.B, c.imageA, made))
	writeFile(out, page.Bytes())
	if asJSON {
		printJSON(messageWriter(out), c)
		return
	}
	printLine(messageWriter(out), "%s: differences of %s and %s; %s", outputName(out), pathA, pathB,
		lmb.SizeText(uint64(page.Len())))
}
