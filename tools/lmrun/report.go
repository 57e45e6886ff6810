package main

import (
	"strconv"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"
)

// tell prints how it ended, as a line for people or as one JSON object, and
// gives the exit status. After the seal it only writes.
func printOutcome(o args.Options, end outcome) int {
	code := hal.CodeOf(end.err)
	if end.result.Code == hal.OK { // no command's failure, if there is one
		end.result.Command = -1
	}
	to := 1
	for _, b := range o.Outputs {
		if files.IsStdout(b.Path) {
			to = 2 // standard output is data
		}
	}
	var err error
	switch {
	case o.Help && code == hal.OK:
		err = writeText(to, usage)
	case o.Version && code == hal.OK:
		text := version + ", format %d.%d, schema %x\n"
		if o.JSON {
			text = `{"version":"` + version + `","format":"%d.%d","schema":"%x"}` + "\n"
		}
		err = writeText(to, fbs.Text(text, fbs.FormatMajor, fbs.FormatMinor, fbs.SchemaHash))
	case o.JSON:
		err = writeText(to, jsonText(o, end, code))
	case o.Check && code == hal.OK:
		err = printLine(to, "lmrun: "+o.Image+": whole and valid, verified only")
	case code == hal.OK:
		err = printLine(to, "lmrun: done: "+o.Sequence+" of "+o.Image+timingText(end))
	default:
		_ = printLine(2, "lmrun: "+failureText(end))
	}
	if err != nil {
		_ = printLine(2, "lmrun: standard output: "+err.Error())
		code = hal.IO
	}
	return code.ExitStatus()
}

// print writes a text, made safe for a terminal: all that people read.
func writeText(fd int, text string) error {
	return files.WriteFull(fd, files.EscapeControls([]byte(text)))
}

// printLine prints text as one line, so that a line feed in a path or in text of a file
// does not begin another.
func printLine(fd int, text string) error { return writeText(fd, files.Line(text)+"\n") }

func timingText(end outcome) string {
	if end.runs == 0 {
		return ", no run"
	}
	mean := micros(end.total / int64(end.runs))
	if end.runs == 1 {
		return ", " + mean + " us"
	}
	return fbs.Text(", %d times; us: least ", end.runs) + micros(end.least) + ", mean " + mean +
		", most " + micros(end.most)
}

// reason says what failed, where, and what was seen.
func failureText(end outcome) string {
	text := end.err.Error()
	if end.result.SafeRan {
		text += "; sequence safe: " + end.result.Safe.Error()
	}
	return text
}

// jsonText is the one object of -json. From reason to element its fields come
// on failure only, safe where that ran, and times where a run was done.
func jsonText(o args.Options, end outcome, code hal.Code) string {
	text := fbs.Text(`{"exit":%d,"code":`, uint64(code.ExitStatus())) + files.Quote(code.Error()) +
		`,"image":` + files.Quote(o.Image) +
		`,"sequence":` + files.Quote(o.Sequence) +
		fbs.Text(`,"runs":%d,"ignored":%d`, end.runs, uint64(end.result.Ignored))
	if r := &end.result; code != hal.OK {
		text += `,"reason":` + files.Quote(failureText(end)) + `,"command":` +
			strconv.Itoa(int(r.Command)) +
			fbs.Text(`,"got":%d,"want":%d,"mask":%d,"element":%d`, r.Got, r.Want, r.Mask, r.Element)
		if r.SafeRan {
			text += `,"safe":` + files.Quote(r.Safe.Error())
		}
	}
	if end.runs > 0 {
		text += fbs.Text(`,"least_ns":%d,"mean_ns":%d,"most_ns":%d`, uint64(end.least),
			uint64(end.total)/end.runs, uint64(end.most))
	}
	return text + "}\n"
}

func micros(ns int64) string { return fbs.Text("%d.%d", uint64(ns/1000), uint64(ns%1000/100)) }
