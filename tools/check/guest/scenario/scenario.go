// Package scenario parses scenarios: texts that describe, step by step, what a guest does. The
// program in tools/check/guest/inside runs them. The tests of tools/check/guest boot the machines,
// and compare QEMU's trace with the accesses that the steps require.
package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

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

// Parse returns the scenarios in the text of a file. The parameter file is its name, for messages.
// The syntax is:
//
//	# a comment
//	scenario NAME on MACHINE...
//	  STEP ARGUMENT... "an argument with blanks, in Go's syntax"
//	  repeat 3
//	    STEP ARGUMENT...
//	  end
//
// A line that ends in a backslash continues on the next.
func Parse(file, text string) (list []Scenario, err error) {
	// Join continued lines. Each \x00 is a removed line end, which counts for the line number.
	text = strings.ReplaceAll(text, "\\\n", " \x00")
	number := 1
	var block *repetition
	for line := range strings.SplitSeq(text, "\n") {
		place := fmt.Sprintf("%s:%d", file, number)
		number += 1 + strings.Count(line, "\x00")
		words, err := splitWords(strings.ReplaceAll(line, "\x00", " "))
		switch {
		case err != nil:
		case len(words) == 0:
		case words[0] == "scenario":
			if len(words) < 4 || words[2] != "on" || block != nil {
				err = errors.New("want `scenario NAME on MACHINE...`, and no open `repeat`")
				break
			}
			list = append(list, Scenario{Name: words[1], Machines: words[3:]})
		case len(list) == 0:
			err = errors.New("a step must follow a line `scenario`")
		case words[0] == "repeat":
			block, err = openRepetition(block, words, len(list[len(list)-1].Steps))
		case words[0] == "end":
			err = block.close(&list[len(list)-1])
			block = nil
		default:
			last := &list[len(list)-1]
			last.Steps = append(last.Steps, Step{place, words})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	if block != nil {
		return nil, fmt.Errorf("%s: a `repeat` without `end`", file)
	}
	return list, nil
}

// repetition is an open block `repeat`.
type repetition struct {
	times     int // how often the steps run
	firstStep int // index in the scenario of the first step
}

// openRepetition returns a new block for the words of a line `repeat`. open is the block that is
// open already, or nil; blocks cannot be nested.
func openRepetition(open *repetition, words []string, firstStep int) (*repetition, error) {
	if open != nil || len(words) != 2 {
		return nil, errors.New("want `repeat TIMES`, outside of another `repeat`")
	}
	times, err := strconv.Atoi(words[1])
	if err != nil || times < 1 {
		return nil, fmt.Errorf("repeat: invalid number %q", words[1])
	}
	return &repetition{times, firstStep}, nil
}

// close ends the block: it appends the steps of the block to the scenario times-1 times, because
// the scenario already has them once.
func (r *repetition) close(s *Scenario) error {
	if r == nil {
		return errors.New("`end` without `repeat`")
	}
	block := s.Steps[r.firstStep:]
	for range r.times - 1 {
		s.Steps = append(s.Steps, block...)
	}
	return nil
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
