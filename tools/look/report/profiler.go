package report

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// stampsMax is the largest number of commands in a run that is profiled. Twelve
// bytes are kept for each.
const stampsMax = 1 << 25

// calibration is the number of stamps by which the cost of one is measured.
const calibration = 1000

// Profiler loads an image so that every command of a run is timed. The runtime runs
// the image's own commands, and calls the Profiler before each. All else is as
// without it: one loop, the same accesses in the same order. Only runs of writes are
// not taken together.
type Profiler struct {
	view   *fbs.View
	replay *runtime.Replay
	clock  hal.Device

	at       []int64  // when the commands of the last run began
	commands []uint32 // their indexes in the image

	profile Profile
	decoder decoder
	took    int64 // by the last run
}

// Clock says what the clock of a device is.
type Clock struct {
	Text    string
	Virtual bool // it counts accesses
}

// NewProfiler loads an image on its devices, as runtime.Load does, to run one
// sequence. The clock is the first device's.
func NewProfiler(view *fbs.View, sequence, slot int, clock Clock, devices ...hal.Device) (*Profiler,
	error) {
	stamps := stampsOf(view, sequence)
	if stamps > stampsMax {
		return nil, &hal.Fault{Code: hal.Usage,
			Reason: fmt.Sprintf("a run of %s runs %d commands; at most %d can be profiled",
				view.Name(view.Sequences[sequence].Name), stamps, stampsMax)}
	}
	replay, err := runtime.Load(view, slot, devices...)
	if err != nil {
		return nil, err
	}
	p := &Profiler{view: view, replay: replay, clock: devices[0],
		at: make([]int64, 0, stamps+1), commands: make([]uint32, 0, stamps+1)}
	replay.SetObserver(p.stamp)
	p.decoder.init(view)
	name := view.Name(view.Sequences[sequence].Name)
	p.profile = Profile{Device: devices[0].Identity().Name, Clock: clock.Text,
		Virtual: clock.Virtual, Sequence: name}
	return p, nil
}

// stamp notes the time at which a command begins.
func (p *Profiler) stamp(command int) {
	p.at = append(p.at, p.clock.Now())
	p.commands = append(p.commands, uint32(command))
}

// stampsOf returns how many commands a run of a sequence executes, End and those
// of "safe" among them.
func stampsOf(view *fbs.View, sequence int) uint64 {
	of := func(index int) (total uint64) {
		s := &view.Sequences[index]
		total = uint64(s.Count)
		for _, c := range view.Commands[s.First : s.First+s.Count] {
			if c.Opcode == gen.OpcodeCall {
				total += uint64(view.Sequences[c.Index].Count)
			}
		}
		return total
	}
	total := of(sequence)
	if safe := view.SequenceByName("safe"); safe >= 0 && safe != sequence {
		total += of(safe)
	}
	return max(total, calibration)
}

// Replay returns the loaded image, for inputs and outputs.
func (p *Profiler) Replay() *runtime.Replay { return p.replay }

// Run executes the sequence once, as Replay.Run does. A run to warm up is not in
// the profile unless it fails.
func (p *Profiler) Run(sequence int, warmUp bool) runtime.Result {
	result := p.RunUntimed(sequence)
	end := p.clock.Now()
	if len(p.at) > 0 && (!warmUp || result.Code != hal.OK) {
		p.took = end - p.at[0]
		p.decoder.run(&p.profile, p.commands, append(p.at, end), result.Code == hal.OK)
	}
	return result
}

// RunUntimed executes a sequence without adding it to the profile.
func (p *Profiler) RunUntimed(sequence int) runtime.Result {
	p.at, p.commands = p.at[:0], p.commands[:0]
	return p.replay.Run(sequence)
}

// Calibrate measures what one stamp costs. It comes before the first Run.
func (p *Profiler) Calibrate() {
	p.at, p.commands = p.at[:0], p.commands[:0]
	for range calibration {
		p.stamp(0)
	}
	costs := make([]int64, calibration-1)
	for i := range costs {
		costs[i] = p.at[i+1] - p.at[i]
	}
	slices.Sort(costs)
	p.profile.OverheadNs = costs[len(costs)/2]
}

// Profile is where the time of the runs so far went.
func (p *Profiler) Profile() *Profile {
	p.decoder.finish(&p.profile)
	return &p.profile
}

// CommandText is one command as a listing has it.
func CommandText(view *fbs.View, index int) string {
	if view.Commands[index].Opcode == gen.OpcodeEnd {
		return "end"
	}
	c := lmb.CommandAt(view, index)
	return plain(strings.Join(strings.Fields(listing.CommandText(lmb.Header(view), &c)), " "))
}

// Fail notes that the last run failed, at a command or, -1, after all of them. It fills in the time
// until the command ended.
func (p *Profiler) Fail(f Failure) {
	f.Ns = p.took
	for i := len(p.commands) - 1; i >= 0 && f.Command >= 0; i-- {
		if p.commands[i] == uint32(f.Command) && i+1 < len(p.at) {
			f.Ns = p.at[i+1] - p.at[0]
			break
		}
	}
	p.profile.Failed = &f
}

// SetGolden notes how the outputs of the last run compare with their golden data.
func (p *Profiler) SetGolden(results []GoldenResult) { p.profile.Golden = results }

// Name says which image is profiled, for whoever reads the profile.
func (p *Profiler) Name(image, id string) { p.profile.Image, p.profile.ID = image, id }
