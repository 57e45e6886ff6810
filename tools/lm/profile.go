package main

import (
	"bytes"

	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/look/report"
)

func describeClock(device hal.Device) report.Clock {
	switch device.(type) {
	case *mock.Device:
		return report.Clock{Text: "virtual: the mock counts 100 ns for an access, " +
			"and waits advance the clock without real waiting", Virtual: true}
	case *ttsim.Device:
		return report.Clock{Text: "virtual: the simulator counts 1 us for a load " +
			"and nothing for a store, and waits advance the clock without real waiting",
			Virtual: true}
	}
	return report.Clock{Text: "this machine's monotonic clock; " +
		"a store ends when the processor has executed the store, " +
		"but may reach the device later"}
}

// stopAfterFailure stops with the error of the runs, and adds it to the profile. If no command has
// failed, it first runs the sequence safe; otherwise Replay.Run has already run safe.
func (s *session) stopAfterFailure(end *outcome, err error) {
	if !end.runFailed {
		err = s.runSafe(end, err)
	}
	if s.profiler != nil {
		s.profiler.SetFailure(report.Failure{Code: codeOf(err).Error(), Reason: err.Error(),
			Command: end.Command, Got: end.Got, Want: end.Want, Mask: end.Mask,
			Element: end.Element, Safe: end.Safe})
	}
	fail.On(err)
}

// profileGolden adds to the profile how all outputs compare with their golden data.
func (s *session) profileGolden() {
	if s.profiler == nil {
		return
	}
	var results []report.GoldenResult
	for _, c := range s.compareOutputs() {
		results = append(results, report.GoldenResultOf(c))
	}
	s.profiler.SetGolden(results)
}

// writeProfile writes the profile, even if a run has failed.
func (f *replayFlags) writeProfile(s *session, end *outcome) {
	if s.profiler == nil {
		return
	}
	profile := s.profiler.Profile()
	if profile.Runs == 0 {
		return
	}
	end.Profile = profile
	var text bytes.Buffer
	fail.On(profile.WriteTrace(&text))
	writeFile(f.profile, text.Bytes())
}
