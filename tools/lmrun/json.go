//go:build !nojson

package main

import (
	"strconv"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file formats the JSON object that -json prints. In builds with the tag nojson, the file
// json_none.go replaces this file.

const (
	hasJSON   = true
	jsonUsage = jsonHelp
)

// jsonText returns the JSON object that -json prints, followed by a line feed. After a failure, the
// object also contains the fields from failureJSONFields. If at least one run was completed, it
// also contains the durations of the runs.
func jsonText(o args.Options, end outcome, code hal.Code) string {
	text := fbs.Text(`{"exit":%d,"code":`, uint64(code.ExitStatus())) +
		files.JSONString(code.Error()) +
		`,"image":` + files.JSONString(o.Image) +
		`,"sequence":` + files.JSONString(o.Sequence) +
		fbs.Text(`,"runs":%d,"ignored":%d`, end.runs, end.ignoredFailures)
	if code != hal.OK {
		text += failureJSONFields(end)
	}
	if end.runs > 0 {
		text += fbs.Text(`,"least_ns":%d,"mean_ns":%d,"most_ns":%d`, uint64(end.shortestRunNs),
			uint64(end.totalRunNs)/end.runs, uint64(end.longestRunNs))
	}
	return text + "}\n"
}

// failureJSONFields returns the JSON fields that describe a failure, with a comma before each
// field. The field "safe" is present only if the sequence named `safe` has run.
func failureJSONFields(end outcome) string {
	r := &end.result
	text := `,"reason":` + files.JSONString(failureText(end)) +
		`,"command":` + strconv.Itoa(int(r.Command)) +
		fbs.Text(`,"got":%d,"want":%d,"mask":%d,"element":%d`, r.Got, r.Want, r.Mask,
			r.ElementIndex)
	if r.SafeRan {
		text += `,"safe":` + files.JSONString(r.SafeSequenceCode.Error())
	}
	return text
}
