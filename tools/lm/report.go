package main

import (
	"bytes"
	"path/filepath"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/look/report"

	"github.com/spf13/cobra"
)

// reportFlags are the flags of lm report as they are typed.
type reportFlags struct {
	out      string
	profile  string
	sequence string
	diff     bool
}

func reportCommand() *cobra.Command {
	var f reportFlags
	c := newCommand("report IMAGE.lmb [--diff IMAGE.lmb]", f.checkArguments, func(args []string) {
		if f.diff {
			reportDifference(args[0], args[1], f.out)
		} else {
			f.run(args[0])
		}
	})
	flags := c.Flags()
	flags.BoolVar(&f.diff, "diff", false,
		"compare two images: with -o, a page with the commands of both side by side")
	flags.StringVarP(&f.out, "out", "o", "", "HTML page to write")
	flags.StringVar(&f.profile, "profile", "", "profile that lm replay --profile wrote")
	flags.StringVar(&f.sequence, "sequence", "",
		"count one run of this sequence (default: every command of the file once)")
	defineJSONFlag(c, "print the report as JSON")
	return c
}

func (f *reportFlags) checkArguments(c *cobra.Command, args []string) error {
	if !f.diff {
		return exactlyOne("image")(c, args)
	}
	if f.profile != "" || f.sequence != "" {
		failUsage("--diff compares whole images; leave --profile and --sequence out")
	}
	return argumentCount(2, 2, "two images with --diff")(c, args)
}

// jsonReport is the output of lm report --json.
type jsonReport struct {
	*report.Report
	Profile *report.Profile `json:"profile,omitempty"`
}

func (f *reportFlags) run(path string) {
	file, view := openVerified(path)
	sequence := report.WholeFile
	if f.sequence != "" {
		sequence = sequenceNamed(view, path, f.sequence)
	}
	profile := f.readProfile(path, view.ID())
	const large = 1_000_000 // commands for which Analyze takes long enough to show progress
	r := report.Analyze(view, sequence, newProgressBar("commands", len(view.Commands), large))
	id := identify(view)
	r.Image, r.Bytes = filepath.Base(path), uint64(len(file.Bytes()))
	r.Checksum, r.SHA256 = id.Checksum, id.SHA256
	size := 0
	if f.out != "" {
		size = writePage(f.out, r, profile)
	}
	switch {
	case asJSON:
		printJSON(messageWriter(f.out), jsonReport{r, profile})
	case f.out != "":
		content := contentText(fail.Must(lmb.StreamView(view)))
		printLine(messageWriter(f.out), "%s: report on %s, %s; %s", outputName(f.out), path,
			content, lmb.SizeText(uint64(size)))
	default:
		fail.On(r.Write(stdout))
		if profile != nil {
			fail.On(profile.Write(stdout))
		}
	}
}

// readProfile reads the profile of an image; it returns nil without --profile.
func (f *reportFlags) readProfile(image, checksum string) *report.Profile {
	if f.profile == "" {
		return nil
	}
	file := openFile(f.profile)
	defer file.Close()
	profile, err := report.ReadTrace(file)
	failIf(hal.BadImage, f.profile, err)
	if profile.Checksum != checksum {
		fail.With(hal.BadImage, "%s is the profile of image %q with checksum %q, but %s has "+
			"checksum %s", f.profile, profile.Image, profile.Checksum, image, checksum)
	}
	return profile
}

func writePage(path string, r *report.Report, profile *report.Profile) (size int) {
	var page bytes.Buffer
	made := report.Generator{Program: thisVersion().program(), Time: time.Now()}
	fail.On(r.WritePage(&page, profile, made))
	writeFile(path, page.Bytes())
	return page.Len()
}
