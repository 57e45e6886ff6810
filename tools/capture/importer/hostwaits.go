package importer

import (
	"fmt"
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
)

// findOwnWaits finds the polls of an output without which a replay would not wait for the device:
// since the last store to the device, there is no other poll and no load of a register. The image
// waits until the word has changed, so it must know the previous value. copied is the step of the
// output's copy.
func (h *hostTensors) findOwnWaits(t *tensor, copied int) error {
	if t.role != gen.RoleOutput || !h.hostSpaces[t.host].exact {
		return nil
	}
	now, known := slices.Clone(t.data), slices.Repeat([]bool{true}, int(t.size))
	within, waited := h.options.Frame == Part{}, false
	var own []int
	for n := range copied + 1 {
		s := h.steps.at(n)
		from, to := h.loadedPart(s, t)
		isHost := s.accessesDevice() && h.windows[s.window].Kind == gen.WindowKindHost
		switch {
		case s.op == stepSequenceStart:
			if within = segment(s.operand) == segmentFrame; within {
				clear(known) // the previous turn has left its output
			}
		case s.op == stepHostStores:
			for _, l := range h.hostStoreLists[s.operand] {
				l.copyOnto(hostStore{t.host, t.Address, now})
				for from, to := t.overlap(l.host, l.offset,
					uint64(len(l.data))); from < to; from++ {
					known[from] = true
				}
			}
		case s.op == stepStore && !isHost:
			waited, own = false, nil
		case s.op == stepPoll && from == to, s.op == stepLoad && !isHost:
			waited = true // a load of a register fails if the device is not done
		case s.op == stepPoll:
			own = append(own, n)
		case s.op == stepLoad && from < to:
			if within && !waited && len(own) > 0 {
				if err := h.addOwnWaits(t, own, now, known); err != nil {
					return err
				}
			}
			waited = true
			hostStore{t.host, uint64(s.offset), h.dataOf(s)}.copyOnto(
				hostStore{t.host, t.Address, now})
			clear(known[from:to])
		}
	}
	return nil
}

// addOwnWaits makes the image wait until a word of an output has changed. `now` has the output's
// bytes before that.
func (h *hostTensors) addOwnWaits(t *tensor, own []int, now []byte, known []bool) error {
	for _, n := range slices.Backward(own) {
		s := h.steps.at(n)
		from, to := h.loadedPart(s, t)
		if to-from < uint64(s.width) || slices.Contains(known[from:to], false) {
			continue
		}
		before := traces.Little(now[from:to])
		if h.ownWaits[n] = before; len(h.ownWaits) == 1 {
			h.warnings = append(h.warnings, fmt.Sprintf("output %s: only the output shows that "+
				"it is complete, so the image waits until the word at bus address 0x%x is not "+
				"0x%x, and fails for a result with this word", t.Name,
				h.hostSpaces[t.host].bus+uint64(s.offset), before))
		}
		return nil
	}
	return traces.TraceError(int(h.steps.at(own[0]).line), "output %s: only the output shows that "+
		"the device has written it, and the image does not know its bytes before; record again so "+
		"that the program clears it first, or waits for a register, an interrupt or other memory",
		t.Name)
}
