package main

import (
	"bytes"
	"path/filepath"

	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/report"

	"github.com/spf13/cobra"
)

// reportFlags are the flags of lm report as they are typed.
type reportFlags struct {
	out      string
	profile  string
	sequence string
	json     bool
}

func reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:  "report IMAGE.lmb",
		Args: one("image"),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args[0]) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "HTML page to write")
	flags.StringVar(&f.profile, "profile", "", "profile that lm replay wrote")
	flags.StringVar(&f.sequence, "sequence", "", "count one run of this sequence (default: every command of the file once)")
	flags.BoolVar(&f.json, "json", false, "as JSON")
	return c
}

// reportedImage is what lm report --json prints.
type reportedImage struct {
	*report.Report
	Profile *report.Profile `json:"profile,omitempty"`
}

func (f *reportFlags) run(path string) error {
	if f.out != "" {
		if err := files.Distinct([]string{f.out}, path, f.profile); err != nil {
			return err
		}
	}
	file, view, err := verified(path)
	if err != nil {
		return err
	}
	sequence := report.Whole
	if f.sequence != "" {
		if sequence = view.SequenceByName(f.sequence); sequence < 0 {
			return usage("no sequence %q in %s; it has %s", f.sequence, path, sequenceNames(view))
		}
	}
	id := report.ImageID(file.Bytes())
	profile, err := f.readProfile(path, id)
	if err != nil {
		return err
	}
	const large = 1_000_000 // commands that take longer than a blink
	r := report.Analyze(view, sequence, progressOf("commands", len(view.Commands), large))
	r.Image, r.ID, r.Bytes = filepath.Base(path), id, uint64(len(file.Bytes()))
	if f.out != "" {
		if err := writePage(f.out, r, profile); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		printJSON(tell(f.out), reportedImage{r, profile})
	case f.out == "":
		if err := r.Write(stdout); err != nil || profile == nil {
			return err
		}
		return profile.Write(stdout)
	}
	return nil
}

// readProfile reads the profile of an image, nil where none is asked for.
func (f *reportFlags) readProfile(image, id string) (*report.Profile, error) {
	if f.profile == "" {
		return nil, nil
	}
	file, err := openFile(f.profile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	profile, err := report.ReadTrace(file)
	if err != nil {
		return nil, wrong(hal.BadImage, "%s: %v", f.profile, err)
	}
	if profile.ID != id {
		return nil, wrong(hal.BadImage, "%s is the profile of another image: of %q with checksum %q, %s has %s", f.profile, profile.Image, profile.ID,
			image, id)
	}
	return profile, nil
}

func writePage(path string, r *report.Report, profile *report.Profile) error {
	var page bytes.Buffer
	if err := r.WritePage(&page, profile); err != nil {
		return err
	}
	return writeFile(path, page.Bytes())
}
