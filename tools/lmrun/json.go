package main

import (
	"strconv"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// appendJSON appends the object that -json prints, and a line feed.
func appendJSON(text []byte, o args.Options, end *outcome, code hal.Code) []byte {
	text = fbs.AppendText(text, `{"exit":%d`, uint64(code.ExitStatus()))
	text = appendStringField(text, `,"code":"`, code.Error())
	text = appendStringField(text, `,"image":"`, o.Image)
	if end.imageID != "" {
		text = appendStringField(text, `,"image_checksum":"`, end.imageID)
	}
	text = appendStringField(text, `,"sequence":"`, o.Sequence)
	text = fbs.AppendText(text, `,"runs":%d,"ignored":%d`, end.runs, end.ignoredFailures)
	if end.warning != "" {
		text = append(appendStringField(text, `,"warnings":["`, end.warning), ']')
	}
	if code != hal.OK {
		text = appendFailureFields(text, end)
	}
	if end.runs > 0 {
		text = fbs.AppendText(text, `,"least_ns":%d,"mean_ns":%d,"most_ns":%d`,
			uint64(end.shortestRunNs), uint64(end.totalRunNs)/end.runs, uint64(end.longestRunNs))
	}
	return hal.AppendParts(text, "}\n")
}

// appendFailureFields appends what describes a failure; "safe" only if `safe` has run.
func appendFailureFields(text []byte, end *outcome) []byte {
	r := &end.result
	reason := appendFailure(messageRoom[:0], end)
	text = appendStringField(text, `,"reason":"`, hal.TextOf(reason))
	text = strconv.AppendInt(hal.AppendParts(text, `,"command":`), int64(r.Command), 10)
	text = fbs.AppendText(text, `,"got":%d,"want":%d,"mask":%d,"element":%d`, r.Got, r.Want, r.Mask,
		r.ElementIndex)
	if r.SafeRan {
		text = appendStringField(text, `,"safe":"`, r.SafeSequenceCode.Error())
	}
	return text
}

// appendStringField appends a string after before, which ends with the first quotation mark.
func appendStringField(text []byte, before, value string) []byte {
	text = files.AppendEscaped(hal.AppendParts(text, before), files.JSON, []byte(value))
	return append(text, '"')
}
