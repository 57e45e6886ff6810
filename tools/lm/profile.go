package main

import (
	"bytes"

	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/look/report"
)

// clockOf describes the clock of a device.
func clockOf(device hal.Device) report.Clock {
	switch device.(type) {
	case *mock.Device:
		return report.Clock{Text: "virtual: the mock counts 100 ns for an access, and waits " +
			"pass at once", Virtual: true}
	case *ttsim.Device:
		return report.Clock{Text: "virtual: the simulator counts 1 us for a load and nothing for " +
			"a store, and waits pass at once", Virtual: true}
	}
	return report.Clock{Text: "this machine's monotonic clock; a store's time is the " +
		"processor's, and the store may arrive later"}
}

// stopAfterFailure notes in the profile that a run failed, and stops with its error.
func (s *session) stopAfterFailure(end *outcome, err error) {
	if s.profiler != nil {
		s.profiler.Fail(report.Failure{Code: codeOf(err).Error(), Reason: err.Error(),
			Command: end.Command, Got: end.Got, Want: end.Want, Mask: end.Mask,
			Element: end.Element, Safe: end.Safe})
	}
	fail.On(err)
}

// profileGolden notes in the profile how all outputs compare with their golden data.
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

// writeProfile writes the profile, also of a run that failed.
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
