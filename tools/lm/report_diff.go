package main

import (
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

func diffImages(pathA, pathB string) {
	_, viewA := openVerified(pathA)
	_, viewB := openVerified(pathB)
	a, err := lmb.FromView(viewA)
	failIf(hal.BadImage, pathA, err)
	b, err := lmb.FromView(viewB)
	failIf(hal.BadImage, pathB, err)
	d := report.Diff(a, b, viewA.WorstCaseUs, viewB.WorstCaseUs)
	if asJSON {
		printJSON(stdout, d)
	} else {
		fail.On(d.Write(stdout, a))
	}
	if !d.Equal {
		fail.On(programStatus(1)) // as diff(1)
	}
}
