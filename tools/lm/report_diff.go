package main

import (
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
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
	a, _ := decodeFile(pathA)
	b, _ := decodeFile(pathB)
	d := report.Diff(a, b)
	if asJSON {
		printJSON(stdout, d)
	} else {
		fail.On(d.Write(stdout))
	}
	if !d.Equal {
		fail.On(printedError{hal.CompareFailed})
	}
}
