// Package scenario parses scenarios: texts that describe, step by step, what a guest does, on
// which machine, and with which images. The program in tools/check/guest/inside runs the steps of
// the guest. The tests of tools/check/guest set the machines up, make the images, and run the
// steps of the host.
package scenario

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// File has the contents of a file of scenarios.
type File struct {
	Scenarios []Scenario
	Machines  []Scenario // their steps set a machine up; they have no Machines
	Images    []Image
}

// Scenario is a list of steps. If a step fails, the steps after it do not run.
type Scenario struct {
	Name     string
	Machines []string // the kinds of machines on which the scenario runs
	Steps    []Step
}

// Step is a line of a scenario.
type Step struct {
	Place string   // position of the line, as file:line
	Words []string // name of the step, and its arguments
}

// Image describes an image for the machines whose steps name /images/NAME.lmb, or another file for
// those whose steps name /texts/NAME.
type Image struct {
	Place, Name string
	Source      []string // words after the name
	Text        string   // lines of a listing, or of the file
	IsText      bool
}

// HostSteps returns the steps that run on the host, after the boot: `host STEP ARGUMENT...`.
func (s *Scenario) HostSteps() (list []Step) {
	for _, step := range s.Steps {
		if step.Words[0] == "host" {
			list = append(list, Step{step.Place, step.Words[1:]})
		}
	}
	return list
}

// Parse returns what the text of a file describes. file is its name, for messages. The syntax is:
//
//	# a comment
//	machine NAME [like MACHINE]
//	  STEP ARGUMENT... "an argument with blanks, in Go's syntax"
//	image NAME [SOURCE...]
//	  indented lines of a listing, up to the next line that is not indented
//	text NAME
//	  indented lines of another file
//	scenario NAME on MACHINE...
//	  STEP ARGUMENT...
//	  host STEP ARGUMENT...
//	  repeat 3
//	    STEP ARGUMENT...
//	  end
//	  each width|flag 1|-a 2|-b
//	    STEP {width} {flag}
//	  end
//
// A line that ends in a backslash continues on the next.
func Parse(file, text string) (f File, err error) {
	lines, err := expand(splitLines(file, text))
	if err != nil {
		return File{}, err
	}
	var steps *[]Step // of the scenario or machine
	var image *Image
	for _, l := range lines {
		if image != nil && (l.text == "" || strings.HasPrefix(l.text, "  ")) {
			image.Text += strings.TrimPrefix(l.text, "  ") + "\n"
			continue
		}
		words, err := splitWords(l.text)
		switch {
		case err != nil:
		case len(words) == 0:
		case words[0] == "scenario":
			if len(words) < 4 || words[2] != "on" {
				err = errors.New("want `scenario NAME on MACHINE...`")
				break
			}
			f.Scenarios = append(f.Scenarios, Scenario{Name: words[1], Machines: words[3:]})
			steps, image = &f.Scenarios[len(f.Scenarios)-1].Steps, nil
		case words[0] == "machine" && len(words) == 2, len(words) == 4 && words[2] == "like":
			m := Scenario{Name: words[1]}
			for i := range f.Machines {
				if len(words) == 4 && f.Machines[i].Name == words[3] {
					m.Steps = slices.Clone(f.Machines[i].Steps)
				}
			}
			f.Machines = append(f.Machines, m)
			steps, image = &f.Machines[len(f.Machines)-1].Steps, nil
		case (words[0] == "image" || words[0] == "text") && len(words) > 1:
			f.Images = append(f.Images, Image{Place: l.place, Name: words[1], Source: words[2:],
				IsText: words[0] == "text"})
			steps, image = nil, &f.Images[len(f.Images)-1]
		case steps == nil:
			err = errors.New("a step must follow a line `scenario` or `machine`")
		default:
			*steps = append(*steps, Step{l.place, words})
		}
		if err != nil {
			return File{}, fmt.Errorf("%s: %w", l.place, err)
		}
	}
	return f, nil
}

// line is a line of a file, with the lines that continue it.
type line struct{ place, text string }

func splitLines(file, text string) (list []line) {
	// Each \x00 is a removed line end, which counts for the line number.
	text = strings.ReplaceAll(text, "\\\n", " \x00")
	number := 1
	for part := range strings.SplitSeq(text, "\n") {
		list = append(list, line{fmt.Sprintf("%s:%d", file, number),
			strings.ReplaceAll(part, "\x00", " ")})
		number += 1 + strings.Count(part, "\x00")
	}
	return list
}

// blockHead matches the line that begins a block: repeat TIMES, or each NAME VALUE...
var blockHead = regexp.MustCompile(`^ *(repeat|each) +(\S+)(.*)$`)

// expand repeats the lines of blocks.
func expand(lines []line) (out []line, err error) {
	for len(lines) > 0 {
		first := lines[0]
		head := blockHead.FindStringSubmatch(first.text)
		if lines = lines[1:]; head == nil {
			if isEnd(first) {
				return nil, fmt.Errorf("%s: `end` without `repeat` or `each`", first.place)
			}
			out = append(out, first)
			continue
		}
		size := blockSize(lines)
		if size < 0 {
			return nil, fmt.Errorf("%s: a `%s` without `end`", first.place, head[1])
		}
		values, err := splitWords(head[3])
		if head[1] == "repeat" {
			times, _ := strconv.Atoi(head[2])
			if values = make([]string, max(times, 0)); times < 1 {
				err = fmt.Errorf("repeat: invalid number %q", head[2])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", first.place, err)
		}
		for _, value := range values {
			block, err := expand(replaceNames(lines[:size], head[2], value))
			if err != nil {
				return nil, err
			}
			out = append(out, block...)
		}
		lines = lines[size+1:]
	}
	return out, nil
}

func isEnd(l line) bool { return strings.TrimSpace(l.text) == "end" }

// blockSize returns the number of lines up to the `end` of a block, -1 if it has none.
func blockSize(lines []line) int {
	depth := 1
	for i, l := range lines {
		if blockHead.MatchString(l.text) {
			depth++
		} else if isEnd(l) {
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// replaceNames replaces {NAME} in lines: the names in `a|b` by the parts of a value `1|2`.
func replaceNames(lines []line, names, value string) (out []line) {
	var pairs []string
	parts := strings.Split(value, "|")
	for i, name := range strings.Split(names, "|") {
		if i < len(parts) {
			pairs = append(pairs, "{"+name+"}", parts[i])
		}
	}
	for _, l := range lines {
		out = append(out, line{l.place, strings.NewReplacer(pairs...).Replace(l.text)})
	}
	return out
}

// splitWords returns the words of a line without its comment.
func splitWords(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, " \t"); line != "" && line[0] != '#'; {
		word := line
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("a quote is not closed: %s", line)
			}
			line = line[len(quoted):]
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
		} else {
			word, _, _ = strings.Cut(line, " ")
			line = line[len(word):]
		}
		words = append(words, word)
		line = strings.TrimLeft(line, " \t")
	}
	return words, nil
}
