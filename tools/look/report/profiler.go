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

// profiledCommandsMax is the largest number of commands that a profiled run may execute. A Profiler
// stores twelve bytes for each.
const profiledCommandsMax = 1 << 25

// calibrationStamps is the number of time stamps with which Calibrate measures the cost of a stamp.
const calibrationStamps = 1000

// Profiler loads an image, and measures the time of every command of a run. The runtime calls the
// Profiler before each command. Otherwise a run is the same as without a Profiler: it makes the
// same accesses in the same order. Only consecutive writes are executed one by one.
type Profiler struct {
	view        *fbs.View
	replay      *runtime.Replay
	clockDevice hal.Device

	startTimes []int64  // times at which the commands of the last run began
	commands   []uint32 // indexes of these commands in the image

	profile   Profile
	builder   profileBuilder
	lastRunNs int64 // duration of the last run
}

// Clock describes the clock of a device.
type Clock struct {
	Text    string
	Virtual bool // the clock counts accesses
}

// NewProfiler loads an image on its devices, as runtime.Load does, to run one
// sequence. The clock is the first device's.
func NewProfiler(view *fbs.View, sequence, slot int, clock Clock, devices ...hal.Device) (*Profiler,
	error) {
	stamps := stampCount(view, sequence)
	if stamps > profiledCommandsMax {
		return nil, &hal.Fault{Code: hal.Usage,
			Reason: fmt.Sprintf("a run of sequence %s executes %d commands; at most %d can be "+
				"profiled",
				view.Name(view.Sequences[sequence].Name), stamps, profiledCommandsMax)}
	}
	replay, err := runtime.Load(view, slot, devices...)
	if err != nil {
		return nil, err
	}
	p := &Profiler{view: view, replay: replay, clockDevice: devices[0],
		startTimes: make([]int64, 0, stamps+1), commands: make([]uint32, 0, stamps+1)}
	replay.SetObserver(p.stamp)
	p.builder.init(view)
	name := view.Name(view.Sequences[sequence].Name)
	p.profile = Profile{Device: devices[0].Identity().Name, Clock: clock.Text,
		Virtual: clock.Virtual, Sequence: name}
	return p, nil
}

func (p *Profiler) stamp(command int) {
	p.startTimes = append(p.startTimes, p.clockDevice.Now())
	p.commands = append(p.commands, uint32(command))
}

// stampCount returns the number of time stamps that a run of a sequence needs: one for each command
// that it executes, including End commands and the sequence "safe".
func stampCount(view *fbs.View, sequence int) uint64 {
	of := func(index int) (total uint64) {
		for i, runs := range lmb.RunCounts(view, index) {
			total += runs * uint64(view.Sequences[i].Count)
		}
		return total
	}
	total := of(sequence)
	if safe := view.SequenceByName("safe"); safe >= 0 && safe != sequence {
		total += of(safe)
	}
	return max(total, calibrationStamps)
}

// Replay returns the loaded image, for inputs and outputs.
func (p *Profiler) Replay() *runtime.Replay { return p.replay }

// Run executes the sequence once, as Replay.Run does. A warm-up run is added to the profile only if
// it fails.
func (p *Profiler) Run(sequence int, warmUp bool) runtime.Result {
	result := p.RunUntimed(sequence)
	end := p.clockDevice.Now()
	if len(p.startTimes) > 0 && (!warmUp || result.Code != hal.OK) {
		p.lastRunNs = end - p.startTimes[0]
		p.builder.addRun(&p.profile, p.commands, append(p.startTimes, end), result.Code == hal.OK)
	}
	return result
}

// RunUntimed executes a sequence without adding it to the profile.
func (p *Profiler) RunUntimed(sequence int) runtime.Result {
	p.startTimes, p.commands = p.startTimes[:0], p.commands[:0]
	return p.replay.Run(sequence)
}

// Calibrate measures how long one time stamp takes. It must be called before the first Run.
func (p *Profiler) Calibrate() {
	p.startTimes, p.commands = p.startTimes[:0], p.commands[:0]
	for range calibrationStamps {
		p.stamp(0)
	}
	costs := make([]int64, calibrationStamps-1)
	for i := range costs {
		costs[i] = p.startTimes[i+1] - p.startTimes[i]
	}
	slices.Sort(costs)
	p.profile.OverheadNs = costs[len(costs)/2]
}

// Profile returns the profile of the runs so far.
func (p *Profiler) Profile() *Profile {
	p.builder.finishProfile(&p.profile)
	return &p.profile
}

// CommandText returns a command in the form of a listing.
func CommandText(view *fbs.View, index int) string {
	if view.Commands[index].Opcode == gen.OpcodeEnd {
		return "end"
	}
	c := lmb.CommandAt(view, index)
	return sanitize(strings.Join(strings.Fields(listing.CommandText(lmb.Header(view), &c)), " "))
}

// SetFailure stores how the last run failed: at the command f.Command, or, if that is -1, after all
// commands. SetFailure computes f.Ns.
func (p *Profiler) SetFailure(f Failure) {
	f.Ns = p.lastRunNs
	for i := len(p.commands) - 1; i >= 0 && f.Command >= 0; i-- {
		if p.commands[i] == uint32(f.Command) && i+1 < len(p.startTimes) {
			f.Ns = p.startTimes[i+1] - p.startTimes[0]
			break
		}
	}
	p.profile.Failed = &f
}

// SetGolden stores how the outputs of the last run compare with their golden data.
func (p *Profiler) SetGolden(results []GoldenResult) { p.profile.Golden = results }

// SetImage stores the name and the id of the profiled image.
func (p *Profiler) SetImage(image, id string) { p.profile.Image, p.profile.Checksum = image, id }
