package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"
)

// This file prints how an invocation ended. After the seal it only writes.

// printOutcome prints the outcome, as a line for people or as one JSON object, and
// returns the exit status.
func printOutcome(o args.Options, end outcome) int {
	code := hal.CodeOf(end.err)
	if end.result.Code == hal.OK {
		end.result.Command = -1 // no command has failed
	}
	fd := 1
	for _, b := range o.Outputs {
		if files.IsStdout(b.Path) {
			fd = 2 // standard output has the data of a tensor
		}
	}
	var err error
	switch {
	case o.Help && code == hal.OK:
		err = writeText(fd, usage)
	case o.Version && code == hal.OK:
		err = writeText(fd, versionText(o.JSON))
	case o.JSON && hasJSON:
		err = writeText(fd, jsonText(o, end, code))
	case o.Check && code == hal.OK:
		err = printLine(fd, "lmrun: "+o.Image+": whole and valid, verified only")
	case code == hal.OK:
		err = printLine(fd, "lmrun: done: "+o.Sequence+" of "+o.Image+timingText(end))
	default:
		_ = printLine(2, "lmrun: "+failureText(end))
	}
	if err != nil {
		_ = printLine(2, "lmrun: standard output: "+err.Error())
		code = hal.IO
	}
	return code.ExitStatus()
}

// writeText writes a text with its control characters escaped, since it may quote paths
// and files.
func writeText(fd int, text string) error {
	return files.WriteFull(fd, files.EscapeControls([]byte(text)))
}

// printLine prints text as one line: a line feed in a path or in text of a file is
// escaped.
func printLine(fd int, text string) error { return writeText(fd, files.Line(text)+"\n") }

func versionText(json bool) string {
	text := version + ", format %d.%d, schema %x\n"
	if json {
		text = `{"version":"` + version + `","format":"%d.%d","schema":"%x"}` + "\n"
	}
	return fbs.Text(text, fbs.FormatMajor, fbs.FormatMinor, fbs.SchemaHash)
}

func timingText(end outcome) string {
	if end.runs == 0 {
		return ", no run"
	}
	mean := microsText(end.total / int64(end.runs))
	if end.runs == 1 {
		return ", " + mean + " us"
	}
	return fbs.Text(", %d times; us: least ", end.runs) + microsText(end.least) +
		", mean " + mean + ", most " + microsText(end.most)
}

func microsText(ns int64) string {
	return fbs.Text("%d.%d", uint64(ns/1000), uint64(ns%1000/100))
}

// failureText returns what failed, in which command, with the values, and how the
// sequence safe ended.
func failureText(end outcome) string {
	text := end.err.Error()
	if end.result.SafeRan {
		text += "; sequence safe: " + end.result.Safe.Error()
	}
	return text
}
