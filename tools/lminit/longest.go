package main

import (
	"time"

	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
)

// longest is how long a replay that was asked to end may go on:
// the run that goes on or the one before it, the sequence after, safe, and some
// more. Where the image is refused, which is the error, the replay has not begun either.
func longest(flags []string) (time.Duration, error) {
	o, _ := args.Parse(flags) // without an image, there is none to open
	file, err := runtime.Open(o.Image)
	if err != nil {
		return graceTime, err
	}
	defer file.Close()
	view, err := file.Verify()
	if err != nil {
		return graceTime, err
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
	view.AllowedUs = uint64(o.Longest) / 1000
	return graceTime + max(run, at(o.Before)) + at(o.After) + at("safe"), runtime.CheckTime(view)
}

// hopeless tells that a failure would come again: a mistake, what is not permitted, or
// an image that is refused. An input whose data did not fit may be whole the next time.
func (s *supervisor) hopeless(exit int) bool {
	again := exit == hal.Usage.Exit() || exit == hal.Denied.Exit()
	for i := 0; i < len(s.replays) && exit == hal.BadImage.Exit(); i++ {
		_, err := longest(append(s.replays[i], s.flags...))
		again = again || hal.CodeOf(err) == hal.BadImage
	}
	return again
}
