package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file prints the outcome of an invocation. The only system call here is write(2), since
// the process may be sealed.

// printOutcome prints the outcome as one line of text, or with -json as one JSON object. It
// returns the exit status.
func printOutcome(o args.Options, end outcome) int {
	code := hal.CodeOf(end.err)
	if end.result.Code == hal.OK {
		end.result.Command = -1 // no command has failed
	}
	fd := 1
	for _, b := range o.Outputs {
		if files.IsStdout(b.Path) {
			fd = 2 // standard output carries the data of a tensor
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
		err = printLine(fd, "lmrun: "+o.Image+": the image is valid; nothing was replayed")
	case code == hal.OK:
		err = printLine(fd, "lmrun: done: "+o.Sequence+" of "+o.Image+timingText(end))
	default:
		_ = printLine(2, "lmrun: "+failureText(end))
	}
	if err != nil {
		_ = printLine(2, "lmrun: cannot write to standard output: "+err.Error())
		code = hal.IO
	}
	return code.ExitStatus()
}

// writeText writes text to a file descriptor. It escapes control characters, since the text may
// quote paths and file contents.
func writeText(fd int, text string) error {
	return files.WriteFull(fd, files.EscapeControls([]byte(text)))
}

// printLine writes text to a file descriptor as one line. Line feeds within the text are
// escaped.
func printLine(fd int, text string) error { return writeText(fd, files.Line(text)+"\n") }

// versionText returns what -version prints, as one JSON object if asJSON is true.
func versionText(asJSON bool) string {
	text := version + ", format %d.%d, schema %x\n"
	if asJSON {
		text = `{"version":"` + version + `","format":"%d.%d","schema":"%x"}` + "\n"
	}
	return fbs.Text(text, fbs.FormatMajor, fbs.FormatMinor, fbs.SchemaHash)
}

// timingText returns the number of runs and their durations, after a comma.
func timingText(end outcome) string {
	if end.runs == 0 {
		return ", no runs"
	}
	mean := microsText(end.totalNs / int64(end.runs))
	if end.runs == 1 {
		return ", " + mean + " us"
	}
	return fbs.Text(", %d times; us: least ", end.runs) + microsText(end.leastNs) +
		", mean " + mean + ", most " + microsText(end.mostNs)
}

// microsText returns a duration in microseconds, with one digit after the point.
func microsText(ns int64) string {
	return fbs.Text("%d.%d", uint64(ns/1000), uint64(ns%1000/100))
}

// failureText returns the error text of a failed invocation, followed by the result of the
// sequence safe if that sequence has run.
func failureText(end outcome) string {
	text := end.err.Error()
	if end.result.SafeRan {
		text += "; then ran sequence safe: " + end.result.Safe.Error()
	}
	return text
}
