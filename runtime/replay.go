package runtime

import (
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is a loaded image on its devices. The zero value is of no use; Load
// makes one.
type Replay struct {
	Notice string // lines on what Load could not see to, empty if nothing

	// of the view, or a copy in the arena with relocations and points resolved
	commands  []fbs.Command
	view      *fbs.View // as Verify made it
	shown     *fbs.View // that of the caller, who may assign to its fields
	devices   []hal.Device
	apertures []hal.Aperture // one a window
	// first byte of the hardware window behind each window, where registers aim it
	tlbWindows []uintptr
	arena      []byte // all tensors, and behind them commands that had to be completed, read-only

	// address of each window's first byte now, 0: a port; behind them, of the registers of each
	// device
	windows       []uintptr
	memories      []uintptr // of the payload, then of each tensor: recorded data or arena
	missingInputs int       // inputs that have no data yet
	safeSequence  int       // sequence that brings the device to rest, or -1

	busMaster bool // a device masters the bus
	disabled  bool // by a failure, until loaded anew
	walk      hal.Walk
	storeWalk hal.Walk
	scratch   [2]fbs.Command // one store of odd's, with room behind it

	allowed int64 // nanoseconds that any run may take: View.AllowedUs
	limitNs int64 // nanoseconds that a run may take, 0: allowed
	// time after which this run is late, 0: set at the next look at the clock
	endTime   int64
	every     int               // commands of a sequence between two looks at the clock
	due       int               // commands left until the next look
	stop      *atomic.Uint32    // not 0: a run ends after StopGrace, nil: no requests to stop
	stoppable bool              // this run looks at stop
	observer  func(command int) // called before each command, nil: none

	// a Check that did not hold when it was loaded last, nil: none. The walk may have gone on
	polling     *fbs.Command
	deadline    int64    // of that, 0: not known yet
	timeoutCode hal.Code // how that ends where its next load does not hold, OK: it is waited for
	ignored     uint32   // failures of policy Ignore in this run
	failure     Result   // what the failing command saw
}

// Result says how a run ended. Everything but Code is zero after a good one.
type Result struct {
	Code    hal.Code
	Safe    hal.Code // how the sequence "safe" ended, where it ran
	SafeRan bool
	Command int32  // index of the command that failed, -1: none was carried out
	Got     uint64 // what a Check loaded last, or Compare at Element
	Want    uint64
	Mask    uint64
	Element uint64 // Compare: the first element that differs
	Ignored uint32 // failures that policy Ignore passed over, good run or not

	FileLost bool // with IO: payload could not be read from the image file, which was cut short
}

// View returns the view that Load was called with. Runs use a copy of their own.
func (r *Replay) View() *fbs.View { return r.shown }

// Input returns the arena of an input tensor, for the caller to fill before Run. The first
// call copies the recorded default there, if there is one; from then on runs take the arena's
// bytes. The default is memory of this process (see File), and so cannot fault.
func (r *Replay) Input(tensor int) []byte {
	t, data := &r.view.Tensors[tensor], r.Output(tensor)
	if at := hal.AddressOf(data); r.memories[1+tensor] != at {
		r.memories[1+tensor] = at
		copy(data, r.view.TensorData(t))
		if t.HasData == 0 {
			r.missingInputs--
		}
	}
	return data
}

// Output is the arena of an output tensor, filled by Run.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// Limit makes runs fail with FrameLate that take longer than this, 0 for the
// time that View.AllowedUs allows. Waits end in time; the clock is read every
// limitEvery commands of a sequence, and at its end. The sequence "safe" may take
// what View.AllowedUs allows.
func (r *Replay) SetLimit(nanoseconds int64) { r.limitNs = nanoseconds }

// Commands of a sequence between two reads of the clock. With those of a sequence
// that it calls there are twice as many at most. A read takes as long as 50 stores
// to memory, too long for runs whose only bound is an hour.
const (
	commandsPerClockCheck = 256
	boundEvery            = 4096
)

// StopGrace is how long a run may continue after a request to stop, in nanoseconds:
// long enough for a frame, and what a supervisor usually waits before it kills.
const StopGrace = 10_000_000_000

// SetStopFlag makes a run end with FrameLate, after the sequence "safe", when it
// continues for longer than StopGrace after flag became other than 0. A run that
// has a limit of its own ends by that, and "safe" as without a flag.
func (r *Replay) SetStopFlag(flag *atomic.Uint32) { r.stop = flag }

// Observe has runs call observer before each command, with its index in the image,
// until observer is nil. It is for profilers: runs of stores take many times longer.
func (r *Replay) Observe(observer func(command int)) { r.observer = observer }

// Run carries out a sequence. It allocates nothing and, on mapped devices,
// makes no system call but for waiting, and to ask a device that reads all ones
// whether it is there. After a failure the sequence "safe" runs, if the image
// has one, and the Replay stays disabled.
func (r *Replay) Run(sequence int) Result {
	switch {
	case r.disabled:
		return Result{Code: hal.Disabled, Command: -1}
	case r.missingInputs != 0:
		return Result{Code: hal.InputMissing, Command: -1}
	}
	r.ignored, r.endTime, r.every = 0, 0, boundEvery
	r.stoppable = r.stop != nil && r.limitNs == 0 && sequence != r.safeSequence
	if r.limitNs != 0 {
		r.endTime, r.every = r.devices[0].Now()+min(r.limitNs, r.allowed), commandsPerClockCheck
	}
	code := r.guarded(sequence)
	if code == hal.OK {
		return Result{Ignored: r.ignored}
	}
	return r.finishFailedRun(sequence, code)
}

// failed is the result of a run that ended with a code, after "safe".
func (r *Replay) finishFailedRun(sequence int, code hal.Code) Result {
	result := r.failure
	result.Code, result.Command, result.Ignored = code, int32(r.walk.NextIndex(r.commands)),
		r.ignored
	r.failure, r.disabled = Result{}, true
	if r.safeSequence >= 0 && r.safeSequence != sequence {
		r.endTime, r.every, r.stoppable = 0, boundEvery, false
		result.Safe, result.SafeRan = r.guarded(r.safeSequence), true
	}
	return result
}

// checkClock returns FrameLate when this run has taken longer than it may.
func (r *Replay) checkClock() hal.Code {
	now := r.devices[0].Now()
	if r.endTime == 0 {
		r.endTime = now + r.allowed
	}
	if r.stoppable && r.stop.Load() != 0 {
		// of the first look after the request: later ones give more
		r.endTime = min(r.endTime, now+StopGrace)
	}
	if now > r.endTime {
		return hal.FrameLate
	}
	return hal.OK
}

// sleepMax is the longest time in nanoseconds between two looks at the clock and
// at the request to stop while a run waits.
const sleepMax = 100_000_000

// sleep lets a device's time pass, but not beyond the end of the run, which is
// then late.
func (r *Replay) sleep(device hal.Device, nanoseconds int64) hal.Code {
	code := r.checkClock()
	for ; code == hal.OK && nanoseconds > 0; code = r.checkClock() {
		part := min(nanoseconds, sleepMax, r.endTime-r.devices[0].Now()+1)
		device.Sleep(part)
		nanoseconds -= part
	}
	return code
}

// execute is the loop: it runs the commands of one sequence, by walks and what
// ends them. Everything about the commands has been verified; only the device is
// still unknown.
func (r *Replay) executeSequence(sequence int) hal.Code {
	s, w := &r.view.Sequences[sequence], &r.walk
	at, last := int(s.First), int(s.First+s.Count)-1
	w.Next, r.polling = &r.commands[at], nil
	for at < last {
		next := min(at+r.due, last)
		if r.observer != nil {
			r.observer(at)
			next = at + 1
		}
		stop := &r.commands[next]
		w.Stop = stop
		for w.Run(); w.Next != stop; w.Run() {
			if code := r.handleStop(w.Next); code != hal.OK {
				return code
			}
			w.Stop = stop // a sequence that was called had another
		}
		r.due -= next - at
		if at = next; r.due <= 0 {
			r.due = r.every
			if code := r.checkClock(); code != hal.OK {
				return code
			}
		}
	}
	if r.observer != nil {
		r.observer(last)
	}
	return hal.OK
}

// odd carries out what ended a walk, or the rest of it, and goes on behind it.
func (r *Replay) handleStop(c *fbs.Command) (code hal.Code) {
	w := &r.walk
	if code = r.execOnPort(w, c); code != hal.OK || w.Next != c {
		return code
	}
	switch {
	case c.Opcode == gen.OpcodeModify:
		code = r.modify(c, w.Got)
	case w.StopReason == hal.Loaded:
		code = r.expect(c, w.Got)
	case w.StopReason == hal.Mismatch:
		r.failure = Result{Got: w.Got, Want: w.Want, Mask: fbs.WidthMask(c.Width),
			Element: w.MismatchOffset / uint64(c.Width)}
		code = r.applyPolicy(c, hal.CompareFailed)
	case w.StopReason == hal.AllOnes:
		code = r.finishCopyOut(c)
	case c.Opcode == gen.OpcodePoint:
		code = r.programWindow(c)
	case c.Opcode == gen.OpcodeDelay:
		code = r.sleep(r.devices[0], int64(c.Amount)*1000)
	case c.Opcode == gen.OpcodeCall:
		if code = r.executeSequence(int(c.Index)); code == hal.OK {
			w.Next = c
		}
	default:
		code = hal.Internal
	}
	if code == hal.OK && r.polling != c {
		w.Advance()
	}
	return code
}

// through carries out on a port what a walk has left, because the window is one.
func (r *Replay) execOnPort(w *hal.Walk, c *fbs.Command) hal.Code {
	if a := &r.apertures[c.Window]; a.Port != nil && w.StopReason == hal.Unhandled {
		return w.ExecuteOnPort(a, r.view.Windows[c.Window].Offset)
	}
	return hal.OK
}

func (r *Replay) deviceOf(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// gave asks whether a device that gave a value is there: one that is gone reads all ones.
func (r *Replay) checkDevicePresent(c *fbs.Command, loaded uint64) hal.Code {
	if loaded == fbs.WidthMask(c.Width) && !r.deviceOf(c).Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// change stores what was loaded with the bits of the mask changed. The store is a
// walk of its own: the Change stays Next of the run's, whose a fault is.
func (r *Replay) modify(c *fbs.Command, loaded uint64) hal.Code {
	if code := r.checkDevicePresent(c, loaded); code != hal.OK {
		return code
	}
	r.scratch[0] = *c
	r.scratch[0].Opcode, r.scratch[0].Value = gen.OpcodeWrite, c.Value|loaded&^c.Mask
	r.storeWalk = hal.Walk{Next: &r.scratch[0], Stop: &r.scratch[1], Windows: r.walk.Windows}
	r.storeWalk.Run()
	return r.execOnPort(&r.storeWalk, c)
}

// point aims a window that no registers do: the device does it.
func (r *Replay) programWindow(c *fbs.Command) (code hal.Code) {
	target, _ := boards.UnpackTileRange(c.Mask)
	a := &r.apertures[c.Window]
	code = r.deviceOf(c).ProgramWindow(a, target, c.Value)
	r.windows[c.Window] = a.Base
	return code
}

// taken sees to a CopyOut that ended with a byte of ones.
func (r *Replay) finishCopyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index) - 1)[c.Value:][:c.Amount]
	for _, b := range data[max(0, len(data)-int(c.Width)):] {
		if b != 0xff {
			return hal.OK
		}
	}
	return r.checkDevicePresent(c, fbs.WidthMask(c.Width))
}

// check is what comes of a load of a Check. With a deadline it is waited for until it
// holds, and stays Next of the walk, which loads again; the last load comes after the
// deadline, so that a reader that was kept off the processor still looks once.
func (r *Replay) expect(c *fbs.Command, loaded uint64) hal.Code {
	if r.polling != c {
		r.polling, r.deadline, r.timeoutCode = c, 0, hal.OK
		if c.Amount == 0 {
			r.timeoutCode = hal.ExpectFailed
		}
	}
	code := r.checkDevicePresent(c, loaded)
	switch holds := (loaded&c.Mask == c.Value) == (gen.Condition(c.Mode) == gen.ConditionEqual); {
	case code != hal.OK:
		return code
	case holds:
	case r.timeoutCode == hal.OK:
		r.waitForPoll(c)
		return hal.OK
	default:
		r.failure = Result{Got: loaded, Want: c.Value, Mask: c.Mask}
		code = r.applyPolicy(c, r.timeoutCode)
	}
	r.polling = nil
	return code
}

// wait lets time pass until a Check is to be loaded again.
func (r *Replay) waitForPoll(c *fbs.Command) {
	device, allowed := r.deviceOf(c), int64(c.Amount)*1000
	now := device.Now()
	if r.deadline == 0 {
		r.deadline = now + allowed
	}
	left := r.deadline - now
	r.timeoutCode = r.sleep(device, pollPause(c, allowed-left, left))
	if r.timeoutCode == hal.OK && device.Now() >= r.deadline {
		r.timeoutCode = hal.DeadlinePassed
	}
}

// patience is how much longer than needed a Check without an interval may take:
// a part of 32. It waits awake for some 3 ms, and from then on lets others run
// (hal's Sleep does below and above 100 us).
const pollBackoffDivisor = 32

// pause is the time between two loads of a Check that waited so long already and
// has so much left, in nanoseconds.
func pollPause(c *fbs.Command, waited, left int64) int64 {
	if c.Index != 0 {
		return min(int64(c.Index)*1000, left)
	}
	return min(waited/pollBackoffDivisor, left)
}

// settle applies the policy of a Check or Compare that does not hold, for which code
// stands. Only that can be passed over, never a late frame or a device that fails.
// That may be another one than was looked at: what one device waits for in host
// memory, another may have been unable to write.
func (r *Replay) applyPolicy(c *fbs.Command, code hal.Code) hal.Code {
	ignore := code != hal.FrameLate && gen.Policy(c.Option) == gen.PolicyIgnore
	state := r.diagnose(!ignore)
	switch {
	case state != hal.OK:
		return state
	case ignore:
		r.ignored++
		r.failure = Result{}
		return hal.OK
	}
	return code
}

// faultDelay is the time, in nanoseconds, that news of a DMA that went wrong
// may take: an IOMMU's driver writes it to the kernel's log from a thread.
const dmaFaultDelayNs = 5_000_000

// Diagnose says what is wrong with the devices, whatever the commands saw: OK,
// DeviceGone, and of those that master the bus MasterOff or DMAFault. Where one
// masters the bus it waits for news, and is for the end of a run.
func (r *Replay) Diagnose() hal.Code { return r.diagnose(true) }

func (r *Replay) diagnose(wait bool) hal.Code {
	for _, device := range r.devices {
		if code := device.Diagnose(); code != hal.OK {
			return code
		}
	}
	if wait && r.busMaster {
		r.devices[0].Sleep(dmaFaultDelayNs)
		return r.diagnose(false)
	}
	return hal.OK
}
