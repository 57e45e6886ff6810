package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file prints the outcome of lmrun. Its functions make no system call except write(2), because
// runtime.Seal forbids most others.

// printOutcome prints the outcome as one line of text, or as one JSON object if -json is given.
// If -help or -version is given, it prints the usage or the version instead. It returns the exit
// status of lmrun.
func printOutcome(o args.Options, end outcome) (exitStatus int) {
	code := hal.CodeOf(end.err)
	if end.result.Code == hal.OK {
		end.result.Command = -1 // the index of the failed command: none
	}
	fd := 1
	for _, b := range o.Outputs {
		if files.IsStdout(b.Path) {
			fd = 2 // standard output contains the data of a tensor, so print to standard error
		}
	}
	var err error
	switch {
	case o.PrintHelp && code == hal.OK:
		err = writeText(fd, usage)
	case o.PrintVersion && code == hal.OK:
		err = writeText(fd, versionText(o.PrintJSON))
	case o.PrintJSON && hasJSON:
		err = writeText(fd, jsonText(o, end, code))
	case o.CheckOnly && code == hal.OK:
		err = printLine(fd, "lmrun: "+o.Image+": the image is valid; nothing was replayed")
	case code == hal.OK:
		err = printLine(fd, "lmrun: done: "+o.Sequence+" of "+o.Image+timingText(end))
	default:
		_ = printLine(2, "lmrun: "+failureText(end))
	}
	if err != nil {
		_ = printLine(2, "lmrun: cannot write to standard output: "+err.Error())
		if code == hal.OK { // a supervisor resets the device by the status of an earlier failure
			code = hal.IO
		}
	}
	return code.ExitStatus()
}

// writeText writes text to the file descriptor fd, with control characters escaped. Otherwise
// control characters in a path, or in a name from the image, could control the terminal.
func writeText(fd int, text string) error {
	return files.WriteFull(fd, files.EscapeControls([]byte(text)))
}

// printLine writes text and a line feed to the file descriptor fd. It escapes line feeds and other
// control characters inside text.
func printLine(fd int, text string) error { return writeText(fd, files.OneLine(text)+"\n") }

// versionText returns the text that -version prints. The text is a JSON object if asJSON is true.
func versionText(asJSON bool) string {
	text := version + ", format %d.%d, schema %x\n"
	if asJSON {
		text = `{"version":"` + version + `","format":"%d.%d","schema":"%x"}` + "\n"
	}
	return fbs.Text(text, fbs.FormatMajor, fbs.FormatMinor, fbs.SchemaHash)
}

// timingText returns the number of runs and their durations in microseconds. lmrun prints this text
// after success. The text begins with a comma, because other text precedes it.
func timingText(end outcome) string {
	if end.runs == 0 {
		return ", no runs"
	}
	mean := microsecondsText(end.totalRunNs / int64(end.runs))
	if end.runs == 1 {
		return ", " + mean + " us"
	}
	return fbs.Text(", %d times, in us: least ", end.runs) + microsecondsText(end.shortestRunNs) +
		", mean " + mean + ", most " + microsecondsText(end.longestRunNs)
}

// microsecondsText returns the time ns, which is in nanoseconds, as a text in microseconds with one
// digit after the decimal point, such as "86.6".
func microsecondsText(ns int64) string {
	return fbs.Text("%d.%d", uint64(ns/1000), uint64(ns%1000/100))
}

// failureText returns the text of end.err. If the sequence named `safe` has run, the returned text
// also contains the result of that sequence.
func failureText(end outcome) string {
	text := end.err.Error()
	if end.result.SafeRan {
		text += "; then sequence safe ran: " + end.result.SafeSequenceCode.Error()
	}
	return text
}
