package runtime

// Run: executing the sequences of a loaded image.

import (
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is an image loaded on its devices. Load makes one; the zero value cannot be used.
type Replay struct {
	Warnings string // one line for each thing that Load could not arrange, empty if none

	// The commands that run: those of the view, or a copy in the arena in which relocations and
	// points are filled in.
	commands   []fbs.Command
	view       *fbs.View // as Verify returned it
	callerView *fbs.View // the caller's copy of view, which the caller may modify
	devices    []hal.Device
	apertures  []hal.Aperture // of each window
	// For each window, the first byte of its TLB window if registers of the device set that.
	tlbWindows []uintptr
	// All tensors, followed by the copy of the commands, if there is one, in read-only pages.
	arena []byte

	// The address of the first byte of each window, 0 for a port; then, for each device, the
	// address of the registers that set its TLB windows.
	windows       []uintptr
	memories      []uintptr // of the payload, then of each tensor: in the payload or the arena
	missingInputs int       // inputs without data
	safeSequence  int       // index of the sequence "safe", -1 if the image has none

	busMaster bool // a device may start DMA
	disabled  bool // by a failure or Close: every further run fails
	walk      hal.Walk
	storeWalk hal.Walk       // the store of a Modify
	scratch   [2]fbs.Command // commands made by modify and encodePoint; the second is only an end

	allowedNs int64 // how long any run may take, from View.TimeLimitUs
	limitNs   int64 // how long a run may take, set by SetLimit; 0: allowedNs
	// When this run becomes late; 0: to be set when the clock is first read.
	endTime             int64
	clockInterval       int               // commands of a sequence between two reads of the clock
	commandsToClockRead int               // until the next read
	stopFlag            *atomic.Uint32    // not 0: end runs after StopGrace; nil: no flag
	obeysStopFlag       bool              // in this run
	observer            func(command int) // called before each command; nil: none

	// The Expect that was not met by its last load, nil if none exists.
	polling  *fbs.Command
	deadline int64 // of polling, 0 until it is known
	// The failure if the next load of polling does not meet it either; OK: keep waiting.
	timeoutCode hal.Code
	ignored     uint32 // failures in this run that policy Ignore passed over
	failure     Result // what the failing command saw
}

// Result describes how a run ended. After a run without a failure all fields but Code and Ignored
// are zero.
type Result struct {
	Code    hal.Code
	Safe    hal.Code // how the sequence "safe" ended, if SafeRan
	SafeRan bool
	Command int32  // index in the image of the failing command; -1: no command was executed
	Got     uint64 // the value that an Expect loaded last, or of a Compare the differing element
	Want    uint64 // the value that was expected
	Mask    uint64 // the bits of both that count
	Element uint64 // of a Compare: index of the first element that differs
	Ignored uint32 // failures that policy Ignore passed over, also after a run without a failure

	FileTruncated bool // with code IO: the image file was cut short during the run
}

// View returns the view that Load was called with. Runs use a copy of it.
func (r *Replay) View() *fbs.View { return r.callerView }

// Input returns the arena bytes of an input tensor, which the caller fills before Run. The first
// call copies the default data of the tensor there, if it has any; from then on runs read the
// arena. The default data are private memory (see File), so the copy cannot fault.
func (r *Replay) Input(tensor int) []byte {
	t, data := &r.view.Tensors[tensor], r.Output(tensor)
	if address := hal.AddressOf(data); r.memories[1+tensor] != address {
		r.memories[1+tensor] = address
		copy(data, r.view.TensorData(t))
		if t.HasData == 0 {
			r.missingInputs--
		}
	}
	return data
}

// Output returns the arena bytes of an output tensor, which Run fills.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// SetLimit makes each later run fail with FrameLate if it takes longer than the limit. With 0 the
// limit is View.TimeLimitUs. Waits end at the limit; otherwise the clock is read every
// limitedClockInterval commands of a sequence and at the end of the run. The sequence "safe" is
// not limited: it may take View.TimeLimitUs.
func (r *Replay) SetLimit(nanoseconds int64) { r.limitNs = nanoseconds }

// Commands of a sequence between two reads of the clock, in a run that SetLimit limits and in any
// other. A call of another sequence at most doubles them. A read takes as long as 50 stores to
// memory, which is too long for runs that are limited to an hour only.
const (
	limitedClockInterval = 256
	defaultClockInterval = 4096
)

// StopGrace is how long, in nanoseconds, a run may continue after a request to stop. It is enough
// to finish a frame, and supervisors usually wait as long before they kill.
const StopGrace = 10_000_000_000

// SetStopFlag makes a run end with FrameLate, followed by the sequence "safe", if it is still
// running StopGrace after flag became non-zero. The flag is ignored by runs with a limit of their
// own (SetLimit) and by the sequence "safe".
func (r *Replay) SetStopFlag(flag *atomic.Uint32) { r.stopFlag = flag }

// SetObserver makes runs call observer before each command, with its index in the image; nil ends
// that. It is for profilers: consecutive stores take many times longer with it.
func (r *Replay) SetObserver(observer func(command int)) { r.observer = observer }

// Run executes a sequence. It allocates nothing and, on mapped devices, makes no system call
// except to wait, and to find out whether a device that reads all ones is still present. After a
// failure it runs the sequence "safe", if the image has one, and disables the Replay.
func (r *Replay) Run(sequence int) Result {
	switch {
	case r.disabled:
		return Result{Code: hal.Disabled, Command: -1}
	case r.missingInputs != 0:
		return Result{Code: hal.InputMissing, Command: -1}
	}
	r.ignored, r.endTime, r.clockInterval = 0, 0, defaultClockInterval
	r.obeysStopFlag = r.stopFlag != nil && r.limitNs == 0 && sequence != r.safeSequence
	if r.limitNs != 0 {
		r.endTime = r.devices[0].Now() + min(r.limitNs, r.allowedNs)
		r.clockInterval = limitedClockInterval
	}
	code := r.runGuarded(sequence)
	if code == hal.OK {
		return Result{Ignored: r.ignored}
	}
	return r.finishFailedRun(sequence, code)
}

// finishFailedRun disables the Replay, runs "safe", and returns the result of a run that failed
// with code.
func (r *Replay) finishFailedRun(sequence int, code hal.Code) Result {
	result := r.failure
	result.Code = code
	result.Command = int32(r.walk.NextIndex(r.commands))
	result.Ignored = r.ignored
	r.failure, r.disabled = Result{}, true
	if r.safeSequence >= 0 && r.safeSequence != sequence {
		r.endTime, r.clockInterval, r.obeysStopFlag = 0, defaultClockInterval, false
		result.Safe, result.SafeRan = r.runGuarded(r.safeSequence), true
	}
	return result
}

// checkTimeLimit returns FrameLate if this run has taken longer than it may.
func (r *Replay) checkTimeLimit() hal.Code {
	now := r.devices[0].Now()
	if r.endTime == 0 {
		r.endTime = now + r.allowedNs
	}
	if r.obeysStopFlag && r.stopFlag.Load() != 0 {
		// The first read after the request counts: min keeps later ones from extending it.
		r.endTime = min(r.endTime, now+StopGrace)
	}
	if now > r.endTime {
		return hal.FrameLate
	}
	return hal.OK
}

// sleepMaxNs is the longest time that a waiting run lets pass before it reads the clock and the
// stop flag again.
const sleepMaxNs = 100_000_000

// sleep lets time of a device pass. It returns FrameLate when the run ends before that.
func (r *Replay) sleep(device hal.Device, nanoseconds int64) hal.Code {
	code := r.checkTimeLimit()
	for code == hal.OK && nanoseconds > 0 {
		part := min(nanoseconds, sleepMaxNs, r.endTime-r.devices[0].Now()+1)
		device.Sleep(part)
		nanoseconds -= part
		code = r.checkTimeLimit()
	}
	return code
}

// executeSequence executes the commands of one sequence: it walks, finishes the command at which
// the walk stopped, and walks on. The commands have been verified; only the answers of the device
// are unknown.
func (r *Replay) executeSequence(sequence int) hal.Code {
	s, w := &r.view.Sequences[sequence], &r.walk
	at, last := int(s.First), int(s.First+s.Count)-1 // last is the End
	w.Next, r.polling = &r.commands[at], nil
	for at < last {
		next := min(at+r.commandsToClockRead, last)
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
			w.Stop = stop // a called sequence has changed it
		}
		r.commandsToClockRead -= next - at
		at = next
		if r.commandsToClockRead <= 0 {
			r.commandsToClockRead = r.clockInterval
			if code := r.checkTimeLimit(); code != hal.OK {
				return code
			}
		}
	}
	if r.observer != nil {
		r.observer(last)
	}
	return hal.OK
}

// handleStop executes the command at which a walk stopped, or the rest of it, and moves the walk
// on to the next command.
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
		r.failure = Result{
			Got: w.Got, Want: w.Want, Mask: fbs.WidthMask(c.Width),
			Element: w.MismatchOffset / uint64(c.Width),
		}
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

// execOnPort executes the command at which a walk stopped because its window is a port.
func (r *Replay) execOnPort(w *hal.Walk, c *fbs.Command) hal.Code {
	if a := &r.apertures[c.Window]; a.Port != nil && w.StopReason == hal.Unhandled {
		return w.ExecuteOnPort(a, r.view.Windows[c.Window].Offset)
	}
	return hal.OK
}

// deviceOf returns the device of the window that a command accesses.
func (r *Replay) deviceOf(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// checkDevicePresent returns DeviceGone if the loaded value is all ones, as from a device that is
// gone, and the device does not answer.
func (r *Replay) checkDevicePresent(c *fbs.Command, loaded uint64) hal.Code {
	if loaded == fbs.WidthMask(c.Width) && !r.deviceOf(c).Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// modify stores the loaded value with the masked bits replaced. The store runs in a second Walk,
// so that r.walk.Next still names the Modify command if the store faults.
func (r *Replay) modify(c *fbs.Command, loaded uint64) hal.Code {
	if code := r.checkDevicePresent(c, loaded); code != hal.OK {
		return code
	}
	store := &r.scratch[0]
	*store = *c
	store.Opcode, store.Value = gen.OpcodeWrite, c.Value|loaded&^c.Mask
	r.storeWalk = hal.Walk{Next: store, Stop: &r.scratch[1], Windows: r.walk.Windows}
	r.storeWalk.Run()
	return r.execOnPort(&r.storeWalk, c)
}

// programWindow executes a Point on a device whose driver, not registers, sets TLB windows.
func (r *Replay) programWindow(c *fbs.Command) (code hal.Code) {
	tiles, _ := boards.UnpackTileRange(c.Mask)
	a := &r.apertures[c.Window]
	code = r.deviceOf(c).ProgramWindow(a, tiles, c.Value)
	r.windows[c.Window] = a.Base
	return code
}

// finishCopyOut checks, if the last element copied from a device is all ones, that the device is
// still present. The walk has stopped because the last byte is 0xff.
func (r *Replay) finishCopyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index) - 1)[c.Value:][:c.Amount]
	for _, b := range data[max(0, len(data)-int(c.Width)):] {
		if b != 0xff {
			return hal.OK
		}
	}
	return r.checkDevicePresent(c, fbs.WidthMask(c.Width))
}

// expect evaluates a load of an Expect. If the value does not meet the condition before the
// deadline, it waits, and r.polling makes the walk load again. The last load comes after the
// deadline, so that a process that was not scheduled meanwhile still looks once.
func (r *Replay) expect(c *fbs.Command, loaded uint64) hal.Code {
	if r.polling != c {
		r.polling, r.deadline, r.timeoutCode = c, 0, hal.OK
		if c.Amount == 0 { // no deadline: a single load decides
			r.timeoutCode = hal.ExpectFailed
		}
	}
	isEqual := loaded&c.Mask == c.Value
	isMet := isEqual == (gen.Condition(c.Mode) == gen.ConditionEqual)
	code := r.checkDevicePresent(c, loaded)
	switch {
	case code != hal.OK:
		return code
	case isMet:
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

// waitForPoll lets time pass until an Expect is to be loaded again, and sets timeoutCode if that
// load is the last.
func (r *Replay) waitForPoll(c *fbs.Command) {
	device, timeout := r.deviceOf(c), int64(c.Amount)*1000
	now := device.Now()
	if r.deadline == 0 {
		r.deadline = now + timeout
	}
	left := r.deadline - now
	r.timeoutCode = r.sleep(device, pollDelayNs(c, timeout-left, left))
	if r.timeoutCode == hal.OK && device.Now() >= r.deadline {
		r.timeoutCode = hal.DeadlinePassed
	}
}

// pollBackoffDivisor bounds the delay between two loads of an Expect without an interval: at most
// 1/32 of the time it has waited already, so that it notices the change at most 1/32 late. Up to
// about 3 ms it waits busily, later it lets other threads run (hal's Sleep changes at 100 us).
const pollBackoffDivisor = 32

// pollDelayNs returns the time until the next load of an Expect that has waited so long, and has
// so long left until its deadline, in nanoseconds.
func pollDelayNs(c *fbs.Command, waited, left int64) int64 {
	if c.Index != 0 { // the interval
		return min(int64(c.Index)*1000, left)
	}
	return min(waited/pollBackoffDivisor, left)
}

// applyPolicy returns the code of an Expect or Compare that failed with code: OK if its policy
// ignores the failure. A late run or a device that is broken is never ignored. Every device is
// diagnosed, because another one than the command accessed may be the cause: it was to write the
// host memory that the command polled.
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

// dmaFaultDelayNs is the time given to a transfer in flight to fail before the PCI status is read
// a second time: the device sets the status only when the error reaches it.
const dmaFaultDelayNs = 5_000_000

// Diagnose returns the state of the devices, independent of what commands saw: OK, DeviceGone, or
// for a bus master MasterOff or DMAFault. If a device is a bus master it waits dmaFaultDelayNs, so
// it is for the end of a run.
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
