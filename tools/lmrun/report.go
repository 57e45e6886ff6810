package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// After the seal, these functions make no system call except write(2), and allocate nothing.

const pathMax = 4096 // PATH_MAX of Linux

// Messages are built in messageRoom, and escaped in escapedRoom. A message has at most two paths,
// and JSON has three.
var (
	messageRoom [3 * pathMax]byte
	escapedRoom [files.EscapedMax * 4 * pathMax]byte
)

// printOutcome prints the outcome, or what -help or -version asks for, and returns the exit status.
func printOutcome(o args.Options, end outcome) (exitStatus int) {
	code := hal.CodeOf(end.err)
	if end.result.Code == hal.OK {
		end.result.Command = -1 // none has failed
	}
	fd := 1
	for _, b := range o.Outputs {
		if files.IsStdout(b.Path) {
			fd = 2 // standard output has the data of a tensor
		}
	}
	var err error
	message := messageRoom[:0]
	switch {
	case o.PrintHelp && code == hal.OK:
		err = writeText(fd, usage)
	case o.PrintVersion && code == hal.OK:
		err = files.WriteFull(fd, appendVersion(message, o.PrintJSON))
	case o.PrintJSON:
		err = files.WriteFull(fd, appendJSON(escapedRoom[:0], o, &end, code))
	case o.CheckOnly && code == hal.OK:
		if end.warning != "" {
			_ = printLine(2, "lmrun: warning: ", end.warning)
		}
		err = printLine(fd, "lmrun: ", o.Image, ": the image is valid, checksum ", end.imageID,
			"; nothing was replayed")
	case code == hal.OK:
		timing := hal.TextOf(appendTiming(message, &end))
		err = printLine(fd, "lmrun: done: ", o.Sequence, " of ", o.Image, timing)
	default:
		_ = printLine(2, "lmrun: ", hal.TextOf(appendFailure(message, &end)))
	}
	if err != nil {
		_ = printLine(2, "lmrun: cannot write to standard output: ", err.Error())
		if code == hal.OK { // a supervisor resets the device by the status of an earlier failure
			code = hal.IO
		}
	}
	return code.ExitStatus()
}

// writeText escapes control characters: those in a path, or in a name from the image, could control
// the terminal.
func writeText(fd int, text string) error {
	return files.WriteFull(fd, files.AppendEscaped(escapedRoom[:0], files.Terminal, []byte(text)))
}

// printLine writes parts and a line feed. It also escapes line feeds in the parts.
func printLine(fd int, parts ...string) error {
	line := escapedRoom[:0]
	for _, part := range parts {
		line = files.AppendEscaped(line, files.TerminalLine, []byte(part))
	}
	return files.WriteFull(fd, append(line, '\n'))
}

func appendVersion(text []byte, asJSON bool) []byte {
	before, format := "", ", format %d.%d, schema %x\n"
	if asJSON {
		before, format = `{"version":"`, `","format":"%d.%d","schema":"%x"}`+"\n"
	}
	text = hal.AppendParts(text, before, version)
	return fbs.AppendText(text, format, fbs.FormatMajor, fbs.FormatMinor, fbs.SchemaHash)
}

// appendTiming appends the number of runs and their durations, after a comma.
func appendTiming(text []byte, end *outcome) []byte {
	if end.runs == 0 {
		return hal.AppendParts(text, ", no runs")
	}
	const unit = 100 // ns in the last digit
	least, most := uint64(end.shortestRunNs)/unit, uint64(end.longestRunNs)/unit
	mean := uint64(end.totalRunNs) / end.runs / unit
	if end.runs == 1 {
		return fbs.AppendText(text, ", %d.%d us", mean/10, mean%10)
	}
	const format = ", %d times, in us: least %d.%d, mean %d.%d, most %d.%d"
	return fbs.AppendText(text, format, end.runs, least/10, least%10, mean/10, mean%10, most/10,
		most%10)
}

// appendFailure appends the text of end.err, and the result of `safe` if it has run.
func appendFailure(text []byte, end *outcome) []byte {
	text = hal.AppendError(text, end.err)
	if end.result.SafeRan {
		const then = "; then sequence safe ran: "
		text = hal.AppendParts(text, then, end.result.SafeSequenceCode.Error())
	}
	return text
}
