package runtime

// This file executes the sequences of a loaded image.

import (
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is an image that Load has loaded on its devices. The zero value cannot be used.
type Replay struct {
	// One line for each service that a driver is too old to provide; "" if every service is
	// available.
	Warnings string

	// The commands that runs execute: those of the view, or a copy in the arena in which the
	// Relocate and Point commands are filled in.
	commands   []fbs.Command
	view       *fbs.View      // the view as Verify returned it
	callerView *fbs.View      // the view passed to Load, which the caller may modify
	devices    []hal.Device   // the devices, in the order of the image
	apertures  []hal.Aperture // for each window of the image, the range that Load mapped
	// For each window of the image, the address of its TLB window. The address is 0 unless
	// registers of the device set the TLB window.
	tlbWindows []uintptr
	// All tensors. If commands were filled in, the copy of the commands follows in read-only
	// pages.
	arena []byte

	// For each window of the image, the address of its first byte, or 0 if the window is a port or
	// its driver has not set it yet. Then, for each device, the address of the registers that set
	// its TLB windows, or 0 if registers do not set them.
	windows []uintptr
	// The address of the payload, then the address of each tensor, or 0 for an input without data.
	memories      []uintptr
	missingInputs int // number of inputs without data
	safeSequence  int // index of the sequence "safe"; -1: the image has no such sequence

	busMaster bool           // Load has made at least one device a bus master
	disabled  bool           // a run has failed, or Close was called: no sequence may run any more
	walk      hal.Walk       // executes the commands of the sequence
	storeWalk hal.Walk       // executes the store of a Modify
	scratch   [2]fbs.Command // a command for storeWalk or encodePoint, and the end of storeWalk

	allowedNs int64 // the longest time of any run in nanoseconds, from View.TimeLimitUs
	limitNs   int64 // the limit set by SetLimit, in nanoseconds; 0: the limit is allowedNs
	// The time at which this run exceeds its limit, in nanoseconds of Device.Now. It is 0 until
	// the first time check of the run.
	endTime             int64
	clockInterval       int               // number of commands between two time checks
	commandsToClockRead int               // number of commands until the next time check
	stopFlag            *atomic.Uint32    // not 0: runs must end within StopGrace; nil: no flag
	obeysStopFlag       bool              // this run must end within StopGrace if stopFlag is set
	observer            func(command int) // called before each command; nil: no function is called

	// The Expect that a run is waiting for, because the last load of this Expect did not meet the
	// condition. It is nil if the run is not waiting for an Expect.
	polling  *fbs.Command
	deadline int64 // the time at which polling times out; 0: not yet computed
	// The code of the failure if the next load of polling does not meet the condition. OK means
	// that the run continues to wait.
	timeoutCode hal.Code
	ignored     uint32 // number of failures in this run that policy Ignore suppressed
	failure     Result // details of the failing command: Got, Want, Mask, Element, FileTruncated
}

// Result describes how a run ended. If Code is OK, all fields except Ignored are zero.
type Result struct {
	Code    hal.Code // how the run ended: OK or the code of the failure
	Safe    hal.Code // how the sequence "safe" ended, if SafeRan is true
	SafeRan bool     // the sequence "safe" was executed after the failure
	Command int32    // index in the image of the failing command; -1: no command was executed
	Got     uint64   // the last value that an Expect loaded; the first wrong element of a Compare
	Want    uint64   // the value or element that was expected
	Mask    uint64   // the bits of Got and Want that were compared
	Element uint64   // index of the first wrong element of a failing Compare
	Ignored uint32   // number of failures that policy Ignore suppressed, also if Code is OK

	FileTruncated bool // Code is IO because another process truncated the image file
}

// View returns the view that was passed to Load. Runs do not use this view but a copy, so that
// they do not depend on what the caller modifies.
func (r *Replay) View() *fbs.View { return r.callerView }

// Input returns the bytes of an input tensor in the arena. The caller fills them before Run. The
// first call copies the default data, if the tensor has any, into the arena; later runs use the
// bytes in the arena. Truncating the file cannot make this copy fault, because File keeps the
// default data in private memory.
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

// Output returns the bytes of an output tensor in the arena. Runs fill them.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// SetLimit sets the longest time of each later run. A run that takes longer fails with
// hal.FrameLate. If the limit is 0, runs may take View.TimeLimitUs. A wait ends when the limit is
// reached. Apart from waits, a run checks the time every limitedClockInterval commands and at its
// end. The limit does not apply to the sequence "safe", which may take View.TimeLimitUs.
func (r *Replay) SetLimit(nanoseconds int64) { r.limitNs = nanoseconds }

// A run checks the time once per interval, which is a number of commands of a sequence. If a
// sequence calls another one, the interval can double. Runs that SetLimit does not limit have the
// longer interval, because reading the clock takes as long as 50 stores to memory.
const (
	limitedClockInterval = 256  // for runs that SetLimit limits
	defaultClockInterval = 4096 // for all other runs
)

// StopGrace is the time, in nanoseconds, that a run may take after the stop flag was set. It is
// long enough to finish a frame. Supervisors usually wait at least as long before they kill a
// process.
const StopGrace = 10_000_000_000

// SetStopFlag sets a flag by which another goroutine or a signal handler requests that runs end.
// If a run is still executing StopGrace after the flag became non-zero, it fails with
// hal.FrameLate, and the sequence "safe" follows. Runs that SetLimit limits and the sequence
// "safe" ignore the flag.
func (r *Replay) SetStopFlag(flag *atomic.Uint32) { r.stopFlag = flag }

// SetObserver makes runs call observer before each command, with the index of the command in the
// image. If observer is nil, runs call no function. Observers are meant for profilers: consecutive
// stores take many times longer with an observer.
func (r *Replay) SetObserver(observer func(command int)) { r.observer = observer }

// Run executes a sequence. It allocates no memory. On mapped devices it makes system calls only to
// wait, and to find out whether a device that reads all ones is still present. After a failure it
// executes the sequence "safe", if the image has one, and disables the Replay: all later runs fail
// with hal.Disabled.
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

// finishFailedRun returns the result of a run that failed with the given code. It disables the
// Replay and executes the sequence "safe".
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

// checkTimeLimit reads the clock and returns FrameLate if this run has exceeded its time limit.
func (r *Replay) checkTimeLimit() hal.Code {
	now := r.devices[0].Now()
	if r.endTime == 0 {
		r.endTime = now + r.allowedNs
	}
	if r.obeysStopFlag && r.stopFlag.Load() != 0 {
		// The first check after the flag was set determines endTime. Because of min, later checks
		// do not move endTime further into the future.
		r.endTime = min(r.endTime, now+StopGrace)
	}
	if now > r.endTime {
		return hal.FrameLate
	}
	return hal.OK
}

// sleepMaxNs is the longest time, in nanoseconds, that a run sleeps before it checks the time
// limit and the stop flag again.
const sleepMaxNs = 100_000_000

// sleepWithinLimit sleeps for the given number of nanoseconds, by the clock of device. If the run
// exceeds its time limit earlier, sleepWithinLimit returns FrameLate at that time.
func (r *Replay) sleepWithinLimit(device hal.Device, nanoseconds int64) hal.Code {
	code := r.checkTimeLimit()
	for code == hal.OK && nanoseconds > 0 {
		part := min(nanoseconds, sleepMaxNs, r.endTime-r.devices[0].Now()+1)
		device.Sleep(part)
		nanoseconds -= part
		code = r.checkTimeLimit()
	}
	return code
}

// executeSequence executes the commands of one sequence by r.walk. When the walk stops at a
// command, handleStop executes the rest of this command, and the walk continues. The commands are
// not checked, because Verify has checked them.
func (r *Replay) executeSequence(sequence int) hal.Code {
	s, w := &r.view.Sequences[sequence], &r.walk
	at, last := int(s.First), int(s.First+s.Count)-1 // the command at last is the End
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
			w.Stop = stop // a sequence that was called has changed w.Stop
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

// handleStop executes the rest of the command at which the walk stopped. Then it advances the walk
// to the next command, unless the command is an Expect that must be loaded again.
func (r *Replay) handleStop(c *fbs.Command) (code hal.Code) {
	w := &r.walk
	if code = r.execOnPort(w, c); code != hal.OK || w.Next != c {
		return code
	}
	switch {
	case c.Opcode == gen.OpcodeModify:
		code = r.finishModify(c, w.Got)
	case w.StopReason == hal.Loaded:
		code = r.checkExpect(c, w.Got)
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
		code = r.sleepWithinLimit(r.devices[0], int64(c.Amount)*1000)
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

// execOnPort executes the command c if the walk stopped at c because the window of c is a port.
// Otherwise it does nothing and returns OK.
func (r *Replay) execOnPort(w *hal.Walk, c *fbs.Command) hal.Code {
	if a := &r.apertures[c.Window]; a.Port != nil && w.StopReason == hal.Unhandled {
		return w.ExecuteOnPort(a, r.view.Windows[c.Window].Offset)
	}
	return hal.OK
}

// deviceOf returns the device of the window that the command c accesses.
func (r *Replay) deviceOf(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// checkDevicePresent returns DeviceGone if the loaded value is all ones and the device no longer
// answers. Loads from a device that is gone return all ones, but so can registers of a device that
// is present.
func (r *Replay) checkDevicePresent(c *fbs.Command, loaded uint64) hal.Code {
	if loaded == fbs.WidthMask(c.Width) && !r.deviceOf(c).Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// finishModify replaces the bits of c.Mask in the loaded value by those of c.Value, and stores the
// result in the register. The store runs in a second Walk, so that r.walk.Next still names the
// Modify command if the store faults.
func (r *Replay) finishModify(c *fbs.Command, loaded uint64) hal.Code {
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

// programWindow executes a Point on a device whose driver sets the TLB windows. On a device whose
// registers set them, the walk executes the Point.
func (r *Replay) programWindow(c *fbs.Command) (code hal.Code) {
	tiles, _ := boards.UnpackTileRange(c.Mask)
	a := &r.apertures[c.Window]
	code = r.deviceOf(c).ProgramWindow(a, tiles, c.Value)
	r.windows[c.Window] = a.Base
	return code
}

// finishCopyOut handles a walk that stopped because the last byte that a CopyOut copied is 0xff.
// If the whole last element is all ones, finishCopyOut checks that the device is still present.
func (r *Replay) finishCopyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index) - 1)[c.Value:][:c.Amount]
	for _, b := range data[max(0, len(data)-int(c.Width)):] {
		if b != 0xff {
			return hal.OK
		}
	}
	return r.checkDevicePresent(c, fbs.WidthMask(c.Width))
}

// checkExpect checks whether the loaded value meets the condition of the Expect c. If it does not,
// and the deadline has not passed, checkExpect waits and sets r.polling, so that the walk loads
// the value again. The last load comes after the deadline: even if the process was not scheduled
// until then, the last load sees a value that the device wrote in time.
func (r *Replay) checkExpect(c *fbs.Command, loaded uint64) hal.Code {
	if r.polling != c {
		r.polling, r.deadline, r.timeoutCode = c, 0, hal.OK
		if c.Amount == 0 { // no deadline: the Expect fails if its first load does not meet it
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

// waitForPoll waits until the next load of the Expect c is due. It sets r.timeoutCode if the next
// load is the last one.
func (r *Replay) waitForPoll(c *fbs.Command) {
	device, timeout := r.deviceOf(c), int64(c.Amount)*1000
	now := device.Now()
	if r.deadline == 0 {
		r.deadline = now + timeout
	}
	left := r.deadline - now
	r.timeoutCode = r.sleepWithinLimit(device, pollDelayNs(c, timeout-left, left))
	if r.timeoutCode == hal.OK && device.Now() >= r.deadline {
		r.timeoutCode = hal.DeadlinePassed
	}
}

// pollBackoffDivisor determines the delay between two loads of an Expect without an interval. The
// delay is at most 1/32 of the time that the Expect has already waited. Therefore the Expect
// notices a change with a delay of at most 1/32 of that time. During the first 3 ms or so, the
// delays are busy waits; later ones let other threads run, because Device.Sleep yields the
// processor if a delay is 100 us or longer.
const pollBackoffDivisor = 32

// pollDelayNs returns the time until the next load of the Expect c. waited is the time since its
// first load, left is the time until its deadline. All times are in nanoseconds.
func pollDelayNs(c *fbs.Command, waited, left int64) int64 {
	if c.Index != 0 { // c has an interval, in microseconds
		return min(int64(c.Index)*1000, left)
	}
	return min(waited/pollBackoffDivisor, left)
}

// applyPolicy decides how the run continues after the Expect or Compare c failed with the given
// code. It returns OK if the policy of c ignores the failure, and otherwise a code that ends the
// run: the state of a device that has failed, or the given code. No policy ignores FrameLate or a
// device that has failed. applyPolicy diagnoses all devices, because the cause may be a device
// that c does not access, for example one that should have written to the host memory that c
// polled.
func (r *Replay) applyPolicy(c *fbs.Command, code hal.Code) hal.Code {
	isIgnored := code != hal.FrameLate && gen.Policy(c.Option) == gen.PolicyIgnore
	state := r.diagnoseDevices(!isIgnored)
	switch {
	case state != hal.OK:
		return state
	case isIgnored:
		r.ignored++
		r.failure = Result{}
		return hal.OK
	}
	return code
}

// dmaFaultDelayNs is the time, in nanoseconds, between two reads of the PCI status. The second
// read sees the errors of DMA transfers that were in flight at the first one, because a device
// sets its status only when an error reaches it.
const dmaFaultDelayNs = 5_000_000

// Diagnose queries every device, whether or not commands have failed. It returns the state of the
// first device that has a fault: DeviceGone, or for a bus master MasterOff or DMAFault. If no
// device has a fault, it returns OK. If a device is a bus master, Diagnose waits dmaFaultDelayNs;
// therefore callers should call it only after a run.
func (r *Replay) Diagnose() hal.Code { return r.diagnoseDevices(true) }

// diagnoseDevices does the work of Diagnose. If awaitDMAFaults is true and a device is a bus
// master, it waits dmaFaultDelayNs and queries the devices a second time.
func (r *Replay) diagnoseDevices(awaitDMAFaults bool) hal.Code {
	for _, device := range r.devices {
		if code := device.Diagnose(); code != hal.OK {
			return code
		}
	}
	if awaitDMAFaults && r.busMaster {
		r.devices[0].Sleep(dmaFaultDelayNs)
		return r.diagnoseDevices(false)
	}
	return hal.OK
}
