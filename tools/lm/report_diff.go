package main

import (
	"lightmetal/hal"
	"lightmetal/tools/report"

	"github.com/spf13/cobra"
)

func diffCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:  "diff A.lmb B.lmb",
		Args: between(2, 2, "two images"),
		RunE: func(_ *cobra.Command, args []string) error { return diffImages(args[0], args[1], asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func diffImages(pathA, pathB string, asJSON bool) error {
	a, _, err := decode(pathA)
	if err != nil {
		return err
	}
	b, _, err := decode(pathB)
	if err != nil {
		return err
	}
	d := report.Diff(a, b)
	if asJSON {
		printJSON(stdout, d)
	} else if err := d.Write(stdout); err != nil {
		return err
	}
	if !d.Equal {
		return reported{hal.CompareFailed}
	}
	return nil
}
