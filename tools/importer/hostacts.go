package importer

import (
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
)

// hostAct is what happened to host memory between two commands. What the
// program stored there, and what it saw that the device wrote, is what changed:
// it depends on the data, and so is no command.
type hostAct struct {
	step   int32
	before int32 // token that it is in front of
	wrote  bool  // by the device
}

// act takes a step that is one, and tells whether it is.
func (f *finder) act(s *step, index int) bool {
	wrote := s.touches() && f.windows[s.window].Kind == gen.WindowKindHost
	if s.op != stepHost && !wrote {
		return false
	}
	f.acts = append(f.acts, hostAct{int32(index), int32(len(f.ids)), wrote})
	return true
}

// lead is the first line of what belongs to a token: of what the program stored
// to host memory in front of it, or its own.
func (f *finder) lead(at int) int {
	line := f.lineOf(at)
	for _, a := range f.actsOf(at, at+1, false) {
		line = min(line, int(f.steps.at(int(a.step)).line))
	}
	return line
}

// actsOf gives what happened to host memory in a repetition from one token to
// another: what the program stored in front of its commands, or what the device
// had written behind them.
func (f *finder) actsOf(from, to int, wrote bool) (list []hostAct) {
	if wrote {
		from, to = from+1, to+1
	}
	low, _ := slices.BinarySearchFunc(f.acts, from, func(a hostAct, at int) int { return int(a.before) - at })
	for _, a := range f.acts[low:] {
		if int(a.before) >= to {
			break
		}
		if a.wrote == wrote {
			list = append(list, a)
		}
	}
	return list
}

// stored is the bytes of host memory in a list of acts.
func (f *finder) stored(list []hostAct) []hostStore {
	var all []hostStore
	for _, a := range list {
		s := f.steps.at(int(a.step))
		switch {
		case s.op == stepHost:
			all = append(all, f.late[s.to]...)
		case s.op == stepLoad:
			data := make([]byte, 0, s.size())
			for k := range s.run() {
				data = append(data, traces.Bytes(f.datum(s, k), s.width)...)
			}
			all = append(all, hostStore{int(f.windows[s.window].bar - hostBar), uint64(s.offset), data})
		}
	}
	return joined(all)
}
