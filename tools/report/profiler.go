package report

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/listing"
	"lightmetal/tools/lmb"
)

// stampsMax is the largest number of commands in a run that is profiled. Twelve
// bytes are kept for each, and the instrumented image has 64.
const stampsMax = 1 << 25

// calibration is the number of stamps by which the cost of one is measured.
const calibration = 1000

// Profiler loads an image so that every command of a run is timed. The runtime
// carries out an instrumented copy: before each command a Point, of a window
// that belongs to the last device, which is the Profiler's own stopwatch. All
// else is as without it: one loop, the same accesses in the same order. Only
// runs of writes are not taken together.
type Profiler struct {
	view   *fbs.View // the image
	replay *runtime.Replay
	watch  *stopwatch

	profile Profile
	decoder decoder
	took    int64 // by the last run
}

// stopwatch is a device that notes the time whenever it is asked to point.
type stopwatch struct {
	hal.Standin
	clock    hal.Device
	at       []int64
	commands []uint32
}

// Identity is that of no device.
func (s *stopwatch) Identity() hal.Identity { return hal.Identity{Name: "stopwatch"} }

// Map gives an aperture that nothing loads from or stores to.
func (s *stopwatch) Map(w fbs.Window) (hal.Aperture, error) {
	return hal.NewAperture(nil, w.Size, int(w.Slot)), nil
}

// Point notes the time; address is the index of the command that comes next.
func (s *stopwatch) Point(_ *hal.Aperture, _ fbs.Target, address uint64) hal.Code {
	s.at = append(s.at, s.Now())
	s.commands = append(s.commands, uint32(address))
	return hal.OK
}

func (s *stopwatch) Now() int64     { return s.clock.Now() }
func (s *stopwatch) Sleep(ns int64) { s.clock.Sleep(ns) }

// Clock says what the clock of a device is.
type Clock struct {
	Text    string
	Virtual bool // it counts accesses
}

// NewProfiler loads an image on its devices, as runtime.Load does, to run one
// sequence. The clock is the first device's.
func NewProfiler(view *fbs.View, sequence, slot int, clock Clock, devices ...hal.Device) (*Profiler, error) {
	stamps := stampsOf(view, sequence)
	if stamps > stampsMax {
		return nil, &hal.Fault{Code: hal.Usage, Reason: fmt.Sprintf("a run of %s carries out %d commands; at most %d can be profiled",
			view.Name(view.Sequences[sequence].Name), stamps, stampsMax)}
	}
	if len(devices) == 0 {
		return nil, &hal.Fault{Code: hal.Usage, Reason: "no device"}
	}
	p := &Profiler{view: view}
	p.watch = &stopwatch{clock: devices[0], at: make([]int64, 0, stamps+1), commands: make([]uint32, 0, stamps+1)}
	loaded := *view
	loaded.Targets = append(slices.Clone(view.Targets), fbs.Identity{})
	loaded.Windows = append(slices.Clone(view.Windows), fbs.Window{
		Kind: gen.WindowKindTlb, Device: uint8(len(view.Targets)), Slot: fbs.NoSlot, Size: 1,
	})
	var err error
	if p.replay, err = runtime.Load(&loaded, slot, append(slices.Clone(devices), p.watch)...); err != nil {
		return nil, err
	}
	// Load has spoken of the image's own commands; runs take these.
	loaded.Commands = p.replay.Commands // completed
	instrument(&loaded, uint16(len(view.Windows)))
	p.replay.Commands = loaded.Commands
	p.decoder.init(view)
	name := view.Name(view.Sequences[sequence].Name)
	p.profile = Profile{Device: devices[0].Identity().Name, Clock: clock.Text, Virtual: clock.Virtual, Sequence: name}
	return p, nil
}

// stampsOf is how many commands a run of a sequence carries out, End and those
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

// instrument puts a Point before every command. Command i of the image becomes
// command 2*i+1. The last sequence is the calibration.
func instrument(view *fbs.View, window uint16) {
	stamp := func(index int) fbs.Command {
		return fbs.Command{Opcode: gen.OpcodePoint, Window: window, Value: uint64(index), Mask: fbs.Target{Ordering: gen.OrderingDefault}.Pack()}
	}
	commands := make([]fbs.Command, 0, 2*len(view.Commands)+calibration+1)
	for i, c := range view.Commands {
		commands = append(commands, stamp(i), c)
	}
	sequences := make([]fbs.Sequence, 0, len(view.Sequences)+1)
	for _, s := range view.Sequences {
		sequences = append(sequences, fbs.Sequence{Name: s.Name, First: 2 * s.First, Count: 2 * s.Count})
	}
	sequences = append(sequences, fbs.Sequence{First: uint32(len(commands)), Count: calibration + 1})
	for range calibration {
		commands = append(commands, stamp(len(view.Commands)))
	}
	commands = append(commands, fbs.Command{Opcode: gen.OpcodeEnd})
	view.Commands, view.Sequences = commands, sequences
}

// Replay is the loaded image, for inputs and outputs. Its commands, sequences
// and windows are the instrumented ones.
func (p *Profiler) Replay() *runtime.Replay { return p.replay }

// Run carries out the sequence once, as Replay.Run does. A run to warm up is not in
// the profile unless it fails.
func (p *Profiler) Run(sequence int, warmUp bool) runtime.Result {
	result := p.RunUntimed(sequence)
	end := p.watch.Now()
	if n := len(p.watch.at); n > 0 && (!warmUp || result.Code != hal.OK) {
		p.took = end - p.watch.at[0]
		p.decoder.run(&p.profile, p.watch.commands, append(p.watch.at, end), result.Code == hal.OK)
	}
	return result
}

// RunUntimed carries out a sequence and leaves the profile alone.
func (p *Profiler) RunUntimed(sequence int) runtime.Result {
	p.watch.at, p.watch.commands = p.watch.at[:0], p.watch.commands[:0]
	result := p.replay.Run(sequence)
	if result.Command > 0 {
		result.Command /= 2
	}
	return result
}

// Calibrate measures what one stamp costs, without touching a device. It comes
// before the first Run and after the inputs are there; without them the cost
// stays 0, and Run says what is missing.
func (p *Profiler) Calibrate() {
	p.watch.at = p.watch.at[:0]
	if result := p.replay.Run(len(p.view.Sequences)); result.Code != hal.OK || len(p.watch.at) != calibration {
		return
	}
	costs := make([]int64, calibration-1)
	for i := range costs {
		costs[i] = p.watch.at[i+1] - p.watch.at[i]
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

// Fail says that the last run failed, at a command or, -1, after all of them.
func (p *Profiler) Fail(code, reason string, command int32) {
	p.profile.Failed = &Failure{Code: code, Reason: reason, Command: command, Ns: p.took}
}

// Name says which image is profiled, for whoever reads the profile.
func (p *Profiler) Name(image, id string) { p.profile.Image, p.profile.ID = image, id }
