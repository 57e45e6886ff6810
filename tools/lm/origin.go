package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"

	"github.com/spf13/pflag"
)

// originInfo says how an image was made; its JSON is stable.
type originInfo struct {
	Tool   string `json:"tool"`
	Source string `json:"source"`
	Time   uint64 `json:"time"`
	Git    string `json:"git"`

	Captures  []captureInfo `json:"captures,omitempty"`
	Arguments string        `json:"arguments,omitempty"`
	Verdict   string        `json:"verdict,omitempty"`
}

type captureInfo struct {
	Name   string `json:"name"`
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func describeOrigin(image *lmb.Image) originInfo {
	o := &image.Origin
	info := originInfo{Tool: o.Tool, Source: o.Source, Time: o.Time, Git: o.Git,
		Arguments: o.Arguments, Verdict: o.Verdict}
	for _, c := range image.Captures {
		info.Captures = append(info.Captures,
			captureInfo{c.Name, c.Size, fmt.Sprintf("%x", c.SHA256)})
	}
	return info
}

// imageOrigin is the output of lm info --origin.
type imageOrigin struct {
	identity
	Origin originInfo `json:"origin"`
}

// String formats the origin as text.
func (o *imageOrigin) String() string {
	var b strings.Builder
	line := func(name, format string, a ...any) {
		printLine(&b, "%-12s %s", name, fmt.Sprintf(format, a...))
	}
	line("identity", "%s", o.identity)
	line("origin", "%s", o.Origin)
	for _, c := range o.Origin.Captures {
		line("capture", "%s, %s, SHA-256 %s", c.Name, lmb.SizeText(c.Bytes), c.SHA256)
	}
	if o.Origin.Arguments != "" {
		line("arguments", "%s", o.Origin.Arguments)
	}
	if o.Origin.Verdict != "" {
		line("verdict", "%s", o.Origin.Verdict)
	}
	return b.String()
}

// setOrigin records what the image was made from and, unless it must be reproducible, by which
// build, when and how.
func (f *importFlags) setOrigin(image *lmb.Image, path string, trace *limitedInput) {
	image.Captures = append([]lmb.Capture{captureOf(path, trace)}, f.captures...)
	if f.reproducible {
		return
	}
	o := &image.Origin
	o.Git, o.Time, o.Arguments = thisVersion().Revision, uint64(time.Now().Unix()), f.arguments
	if thisVersion().Modified && o.Git != "" {
		o.Git += "-modified"
	}
}

// captureOf describes a file that openTrace opened. It first reads the rest of the file.
func captureOf(path string, in *limitedInput) lmb.Capture {
	c := lmb.Capture{Name: filepath.Base(path)}
	if in.position != in.hashed {
		fail.Must(in.Seek(in.hashed, io.SeekStart))
	}
	fail.Must(io.Copy(io.Discard, struct{ io.Reader }{in}))
	c.Size = uint64(in.hashed)
	in.hash.Sum(c.SHA256[:0])
	return c
}

// typedFlags returns the flags of a command line in the order of their names, without those that
// only say what is written or where, and without --rehearsal, whose flags have been set.
func typedFlags(flags *pflag.FlagSet) string {
	var words []string
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"out", "json", "reproducible", "rehearsal"}, f.Name) {
			return
		}
		for _, value := range flagValues(f) {
			if f.Value.Type() == "bool" && value == "true" {
				words = append(words, "--"+f.Name)
				continue
			}
			words = append(words, "--"+f.Name, shellWord(value))
		}
	})
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord quotes text for a shell if that is needed.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// checkMadeFrom fails if a file is not one of those from which an image was made.
func checkMadeFrom(image string, captures []lmb.Capture, path string) {
	in := openTrace(path)
	defer in.Close()
	got := captureOf(path, in)
	if slices.ContainsFunc(captures, func(c lmb.Capture) bool { return c.SHA256 == got.SHA256 }) {
		return
	}
	if len(captures) == 0 {
		fail.With(hal.BadImage, "%s names no captures, so it is unknown whether it was made from "+
			"%s; images of lm import of this version name them", image, path)
	}
	fail.With(hal.BadImage, "%s was not made from %s with SHA-256 %x, but from %s", image, path,
		got.SHA256, english.Join(captures, ", ", func(c lmb.Capture) string {
			return fmt.Sprintf("%s with SHA-256 %x", c.Name, c.SHA256)
		}))
}

// String formats the tool, the source, the time and the revision.
func (o originInfo) String() string {
	text := cmp.Or(o.Tool, "unknown") + " from " + cmp.Or(o.Source, "unknown")
	if o.Time != 0 {
		text += ", " + time.Unix(int64(o.Time), 0).UTC().Format(time.RFC3339)
	}
	if o.Git != "" {
		text += ", revision " + o.Git
	}
	return text
}
