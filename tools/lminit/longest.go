package main

import (
	"time"

	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
)

// longest is how long a replay that was asked to end may go on:
// the run that goes on or the one before it, the sequence after, safe, and some
// more. Where the image cannot be read, the replay has not begun either.
func longest(flags []string) time.Duration {
	o, _ := args.Parse(flags) // without an image, there is none to open
	file, err := runtime.Open(o.Image)
	if err != nil {
		return graceTime
	}
	defer file.Close()
	view, err := file.Verify()
	if err != nil {
		return graceTime
	}
	at := func(name string) time.Duration {
		if i := view.SequenceByName(name); i >= 0 {
			return time.Duration(min(view.LongestUs[i], 1<<52)) * time.Microsecond
		}
		return 0
	}
	run := at(o.Sequence)
	if o.Deadline != 0 {
		run = min(run, time.Duration(o.Deadline))
	}
	return graceTime + max(run, at(o.Before)) + at(o.After) + at("safe")
}
