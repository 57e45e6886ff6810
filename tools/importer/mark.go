package importer

import (
	"fmt"
	"strings"
	"unicode"

	"lightmetal/fbs"
	"lightmetal/tools/importer/traces"
)

// mark reports the marks that lift took from the trace.
func (l *lifter) mark() (out outcome, err error) {
	if len(l.names)+l.blank == 0 {
		return out, nil
	}
	out.did = traces.Counted(len(l.names), "mark")
	if l.blank > 0 {
		out.did += fmt.Sprintf("; %d without text dropped", l.blank)
	}
	return out, nil
}

// addMark takes a mark of the trace as a step.
func (l *lifter) addMark(a *traces.Access) {
	name := markName(a.Name)
	if name == "" {
		l.blank++
		return
	}
	l.names = append(l.names, name)
	l.steps.add(step{op: stepMark, line: uint32(a.Line), time: a.Time, count: 1, aim: -1, to: int32(len(l.names) - 1)})
}

// markName makes a name that an image can hold of text from a trace.
func markName(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	text = strings.TrimSpace(text)
	if len(text) > fbs.NameMax {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:fbs.NameMax], ""))
	}
	return text
}
