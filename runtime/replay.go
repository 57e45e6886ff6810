package runtime

import (
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is an image that Load has prepared for runs on its devices.
type Replay struct {
	// Warnings has a line for each service that the kernel driver of a device is too old to
	// provide.
	Warnings string

	commands  []fbs.Command  // those in the file, or with Relocate or Point a copy in the arena
	view      *fbs.View      // private copy
	devices   []hal.Device   // in the order of the image
	apertures []hal.Aperture // of the windows
	// For each device: how to await its interrupts, which may end the pause of a poll; or nil.
	interruptWaiters []hal.InterruptWaiter
	// For each window: the address of its TLB window, to which a Point adds an offset, since the
	// TLB window may be larger; 0 without a TLB window, or if the kernel driver programs it.
	tlbWindowBases []uintptr
	arena          []byte // tensors, then the read-only copy of the commands, if there is one

	// For each window: its address, 0 if it is not mapped memory, or not programmed yet. Then for
	// each device: the address of the registers of TLB windows, 0 if the kernel driver has them.
	windowAddresses []uintptr
	// The address of the payload, then of each tensor: 0 for an input without data.
	bufferAddresses []uintptr

	rings    []ringPosition
	setRings uint32 // those that a Reset has set since Load
	moved    movedCommand

	missingInputs int // inputs without data
	safeSequence  int // -1: the image has none

	hasStartedDMA   bool
	disabled        bool // a run or StartDMA has failed, or Close was called: all later runs fail
	walk            hal.Walk
	modifyWalk      hal.Walk       // executes the store of a Modify
	scratchCommands [2]fbs.Command // the first is a Modify's store, or used in encodePoint

	imageTimeLimitNs  int64 // of each run, from View.TimeLimitUs
	callerTimeLimitNs int64 // of SetLimit; 0: none
	endTimeNs         int64 // of this run, on Device.Now; 0: not computed yet
	budgetUs          int64 // of this run
	stopFlag          *atomic.Uint32
	obeysStopFlag     bool // of this run
	observer          func(command int)
	observed          *fbs.Command // that the observer got last

	pollingCommand  *fbs.Command // Expect that waits for its condition; nil: none
	pollDeadlineNs  int64        // of pollingCommand, on Device.Now; 0: not computed yet
	codeIfUnmet     hal.Code     // of pollingCommand if its next load is not as expected
	ignoredFailures uint32
	failureDetails  Result // Got, Want, Mask, ElementIndex and FileTruncated of a failed command
}

// Result describes how a run ended. After a success, all but IgnoredFailures is zero.
type Result struct {
	Code             hal.Code
	SafeSequenceCode hal.Code // if SafeRan
	SafeRan          bool     // the sequence "safe" was executed after the failure
	Command          int32    // index in the image of the command that failed; -1: none
	Got              uint64   // value that the Expect loaded last, or first wrong element
	Want             uint64   // expected value or element
	Mask             uint64   // bits of Got and Want that were compared
	ElementIndex     uint64   // of the first wrong element, in units of the Compare's width
	IgnoredFailures  uint32   // failures after which the run continued (gen.PolicyIgnore)
	FileTruncated    bool     // Code is IO because another process truncated the image file
}

// Input returns the arena's bytes of the input tensor with this index, for the data of the next
// run. Until the first call of Input, which copies them, runs read the default data in the file.
func (r *Replay) Input(tensor int) []byte {
	t, data := &r.view.Tensors[tensor], r.Output(tensor)
	if address := hal.AddressOf(data); r.bufferAddresses[1+tensor] != address {
		r.bufferAddresses[1+tensor] = address
		copy(data, r.view.TensorData(t))
		if t.HasData == 0 {
			r.missingInputs--
		}
	}
	return data
}

// Output returns the arena's bytes of the tensor with this index. Runs write them.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// SetLimit limits the time of each later run; 0 removes the limit. A longer run fails with
// hal.FrameLate, at most 1 ms of charged time (FORMAT.md section 6.3) after the limit. All runs
// have the limit View.TimeLimitUs, too; "safe" after a failure has only that.
func (r *Replay) SetLimit(nanoseconds int64) { r.callerTimeLimitNs = nanoseconds }

// Work budgets: the charged time after which a run looks at the stop flag and at the clock, which
// takes as long as 50 stores. The last command may exceed the budget by less than 100 us: 10 us for
// each device, and 12 us.
const (
	budgetWithLimitUs    = 1000 - 100
	budgetWithoutLimitUs = 8000 - 100
)

// StopGraceNs is how long a run may still take after it has noticed the stop flag. Init systems
// usually wait as long before they kill a process.
const StopGraceNs = 10_000_000_000

// StopLagNs is how long a sequence may exceed its limit after the stop flag was set: by a sleep, a
// work budget, and the diagnosis of the devices after a failure.
const StopLagNs = sleepMaxNs + 8_000_000 + dmaFaultDelayNs +
	2*fbs.DevicesMax*fbs.DeviceQueryUs*1000

// SetStopFlag sets a flag that another goroutine or a signal handler makes non-zero to end a run.
// The run notices it after at most 8 ms of charged time or 10 ms of sleep, and fails with
// hal.FrameLate if it then takes longer than StopGraceNs. Runs with a limit from SetLimit, and runs
// of "safe", ignore the flag.
func (r *Replay) SetStopFlag(flag *atomic.Uint32) { r.stopFlag = flag }

// SetObserver sets a function that later runs call before each command, with its index in the
// image; nil: none. A series of Write commands then takes many times longer.
func (r *Replay) SetObserver(observer func(command int)) { r.observer = observer }

// Run executes the sequence with this index. After a failure, it executes the sequence "safe", if
// the image has one, and all later runs fail with hal.Disabled.
//
// Run allocates nothing. On real devices, it makes system calls only to wait, for configuration
// space, to have a TLB window programmed by a kernel driver, and to diagnose a device after a
// failure or a load of all ones.
func (r *Replay) Run(sequence int) Result {
	switch {
	case r.disabled:
		return Result{Code: hal.Disabled, Command: -1}
	case r.missingInputs != 0:
		return Result{Code: hal.InputMissing, Command: -1}
	case len(r.rings) > 0 && r.view.NeededRings[sequence]&^r.setRings != 0:
		return Result{Code: hal.RingUnset, Command: -1}
	}
	if err := r.StartDMA(); err != nil {
		return Result{Code: hal.CodeOf(err), Command: -1}
	}
	r.ignoredFailures, r.endTimeNs, r.observed = 0, 0, nil
	r.budgetUs = budgetWithoutLimitUs
	r.obeysStopFlag = r.stopFlag != nil && r.callerTimeLimitNs == 0 && sequence != r.safeSequence
	if r.callerTimeLimitNs != 0 {
		r.endTimeNs = r.devices[0].Now() + min(r.callerTimeLimitNs, r.imageTimeLimitNs)
		r.budgetUs = budgetWithLimitUs
	}
	code := r.runCatchingFaults(sequence)
	if code == hal.OK {
		return Result{IgnoredFailures: r.ignoredFailures}
	}
	return r.finishFailedRun(sequence, code)
}

// finishFailedRun disables the replay, and runs "safe", unless "safe" itself has failed.
func (r *Replay) finishFailedRun(sequence int, code hal.Code) Result {
	result := r.failureDetails
	result.Code = code
	result.Command = r.commandIndex(r.walk.Next)
	result.IgnoredFailures = r.ignoredFailures
	r.failureDetails, r.disabled, r.setRings = Result{}, true, 0
	if r.safeSequence >= 0 && r.safeSequence != sequence {
		r.endTimeNs, r.obeysStopFlag = 0, false
		r.budgetUs = budgetWithoutLimitUs
		result.SafeSequenceCode, result.SafeRan = r.runCatchingFaults(r.safeSequence), true
	}
	return result
}

// commandIndex returns the index in the image of a command that the walk has reached.
func (r *Replay) commandIndex(c *fbs.Command) int32 {
	if c == &r.moved.commands[0] {
		return int32(r.moved.index)
	}
	reached := hal.Walk{Next: c}
	return int32(reached.NextIndex(r.commands))
}

// AppendCommandPosition appends the position of the command with this index in the image, such as
// "main, command 3", counted from 0 in the sequence. It appends nothing for the index -1.
func AppendCommandPosition(text []byte, view *fbs.View, index int) []byte {
	for i := range view.Sequences {
		s := &view.Sequences[i]
		if number := uint64(index) - uint64(s.First); number < uint64(s.Count) {
			text = append(text, view.NameBytes(s.Name)...)
			return fbs.AppendText(text, ", command %d", number)
		}
	}
	return text
}

// checkTimeLimit also renews the work budget. Its first call after the stop flag was set starts the
// grace.
func (r *Replay) checkTimeLimit() hal.Code {
	now := r.devices[0].Now()
	r.walk.Budget = r.budgetUs
	if r.endTimeNs == 0 {
		r.endTimeNs = now + r.imageTimeLimitNs
	}
	if r.obeysStopFlag && r.stopFlag.Load() != 0 {
		r.endTimeNs = min(r.endTimeNs, now+StopGraceNs)
	}
	if now > r.endTimeNs {
		return hal.FrameLate
	}
	return hal.OK
}

const sleepMaxNs = 10_000_000 // then the time limit and the stop flag are looked at again

// sleepWithinLimit returns FrameLate as soon as the run reaches its time limit. It calls Sleep of
// the device, because a mock may have a clock of its own. An interrupt ends the sleep if waiter is
// not nil.
func (r *Replay) sleepWithinLimit(device hal.Device, waiter hal.InterruptWaiter,
	nanoseconds int64) hal.Code {
	code := r.checkTimeLimit()
	for code == hal.OK && nanoseconds > 0 {
		part := min(nanoseconds, sleepMaxNs, r.endTimeNs-r.devices[0].Now()+1)
		nanoseconds -= part
		switch {
		case waiter == nil:
			device.Sleep(part)
		case waiter.AwaitInterrupt(part):
			nanoseconds = 0
		}
		code = r.checkTimeLimit()
	}
	return code
}

func (r *Replay) executeSequence(sequence int) (code hal.Code) {
	w := &r.walk
	w.Next = &r.commands[r.view.Sequences[sequence].First]
	w.DoneBytes, r.pollingCommand, r.moved.addends = 0, nil, addends{}
	for code == hal.OK {
		if w.Next == &r.moved.commands[1] {
			w.Next = &r.commands[r.moved.index+1]
		}
		held := int64(0)
		if r.observer != nil {
			held = r.observe(w.Next)
		}
		w.Run()
		isUsedUp := w.Budget <= 0
		w.Budget += held
		switch {
		case w.Next == &r.moved.commands[1]: // continue after the unchanged command
		case w.Budget <= 0:
			code = r.checkTimeLimit()
		case isUsedUp: // observe the next command
		case w.Next.Opcode == gen.OpcodeEnd:
			return hal.OK
		case w.Next.Opcode > gen.OpcodeEnd && w.Next.Opcode <= gen.OpcodeWith:
			r.executeRingCommand(w.Next)
		default:
			code = r.finishCommand(w.Next)
		}
	}
	return code
}

// observe calls the observer if c begins, and leaves the walk no budget for a command after c. It
// returns what it took from the budget.
func (r *Replay) observe(c *fbs.Command) (heldUs int64) {
	if r.observed != c {
		r.observed = c
		r.observer(int(r.commandIndex(c)))
	}
	needed := int64(1)
	switch c.Opcode {
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare:
		needed += int64((uint64(c.Amount) - r.walk.DoneBytes) / uint64(c.Width))
	}
	heldUs = max(0, r.walk.Budget-needed)
	r.walk.Budget -= heldUs
	return heldUs
}

// After finishCommand, the walk continues behind c, or with c if it is not complete.
func (r *Replay) finishCommand(c *fbs.Command) (code hal.Code) {
	w := &r.walk
	if code = r.executeOnPort(w, c); code != hal.OK || w.Next != c || w.Budget <= 0 {
		return code
	}
	w.Budget -= fbs.DeviceQueryUs // at most; applyPolicy charges more for an ignored failure
	switch {
	case c.Opcode == gen.OpcodeModify:
		code = r.finishModify(c, w.Got)
	case w.StopReason == hal.StopLoaded:
		code = r.finishExpect(c, w.Got)
	case w.StopReason == hal.StopMismatch:
		r.failureDetails = Result{
			Got: w.Got, Want: w.Want, Mask: fbs.WidthMask(c.Width),
			ElementIndex: w.MismatchOffset / uint64(c.Width),
		}
		code = r.applyPolicy(c, hal.CompareFailed)
	case w.StopReason == hal.StopAllOnes:
		code = r.checkPresentAfterCopyOut(c)
	case c.Opcode == gen.OpcodePoint:
		code = r.programTLBWindow(c)
	case c.Opcode == gen.OpcodeDelay:
		code = r.sleepWithinLimit(r.devices[0], nil, int64(c.Amount)*1000)
	case c.Opcode == gen.OpcodeCall:
		if code = r.executeSequence(int(c.Index)); code == hal.OK {
			w.Next = c
		}
	default:
		code = hal.Internal
	}
	if code == hal.OK && r.pollingCommand != c {
		w.Advance()
	}
	return code
}

// executeOnPort executes c if its window is a Port, and does nothing if it is mapped memory.
func (r *Replay) executeOnPort(w *hal.Walk, c *fbs.Command) hal.Code {
	if a := &r.apertures[c.Window]; a.Port != nil && w.StopReason == hal.StopBeforeNext {
		return w.ExecuteOnPort(a, r.view.Windows[c.Window].Offset)
	}
	return hal.OK
}

func (r *Replay) deviceOf(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// checkDevicePresent returns DeviceGone if c loaded all ones, as from a missing device, and the
// device does not answer. A register may have all ones, too.
func (r *Replay) checkDevicePresent(c *fbs.Command, loaded uint64) hal.Code {
	if loaded == fbs.WidthMask(c.Width) && !r.deviceOf(c).Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// finishModify stores in a walk of its own: if the store faults, r.walk.Next is still the Modify.
func (r *Replay) finishModify(c *fbs.Command, loaded uint64) hal.Code {
	if code := r.checkDevicePresent(c, loaded); code != hal.OK {
		return code
	}
	store := &r.scratchCommands[0]
	*store = *c
	store.Opcode, store.Value = gen.OpcodeWrite, c.Value|loaded&^c.Mask
	r.modifyWalk = hal.Walk{
		Next:            store,
		Budget:          1,
		WindowAddresses: r.walk.WindowAddresses,
	}
	r.modifyWalk.Run()
	return r.executeOnPort(&r.modifyWalk, c)
}

func (r *Replay) programTLBWindow(c *fbs.Command) (code hal.Code) {
	tiles, _ := boards.UnpackTileRoute(c.Mask)
	a := &r.apertures[c.Window]
	code = r.deviceOf(c).ProgramWindow(a, tiles, c.Value)
	r.windowAddresses[c.Window] = a.Base
	return code
}

// checkPresentAfterCopyOut is checkDevicePresent for the last access of a CopyOut.
func (r *Replay) checkPresentAfterCopyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index) - 1)[c.Value:][:c.Amount]
	for _, b := range data[max(0, len(data)-int(c.Width)):] {
		if b != 0xff {
			return hal.OK
		}
	}
	return r.checkDevicePresent(c, fbs.WidthMask(c.Width))
}

// finishExpect leaves r.pollingCommand set if c must wait. The last load comes after the deadline,
// so that a value in time counts even if the kernel ran this process late.
func (r *Replay) finishExpect(c *fbs.Command, loaded uint64) hal.Code {
	if r.pollingCommand != c {
		r.pollingCommand, r.pollDeadlineNs, r.codeIfUnmet = c, 0, hal.OK
		if c.Amount == 0 { // no deadline: the first load must meet the condition
			r.codeIfUnmet = hal.ExpectFailed
		}
	}
	code := r.checkDevicePresent(c, loaded)
	switch {
	case code != hal.OK:
		return code
	case fbs.ConditionMet(c, loaded):
	case r.codeIfUnmet == hal.OK:
		r.awaitNextPoll(c)
		return hal.OK
	default:
		r.failureDetails = Result{Got: loaded, Want: c.Value, Mask: c.Mask}
		code = r.applyPolicy(c, r.codeIfUnmet)
	}
	r.pollingCommand = nil
	return code
}

// awaitNextPoll waits until the next load of c is due. Before the last one, it sets r.codeIfUnmet.
func (r *Replay) awaitNextPoll(c *fbs.Command) {
	device, timeout := r.deviceOf(c), int64(c.Amount)*1000
	now := device.Now()
	if r.pollDeadlineNs == 0 {
		r.pollDeadlineNs = now + timeout
	}
	left := r.pollDeadlineNs - now
	r.codeIfUnmet = r.sleepWithinLimit(device,
		r.interruptWaiters[r.view.Windows[c.Window].Device], pollDelayNs(c, timeout-left, left))
	if r.codeIfUnmet == hal.OK && device.Now() >= r.pollDeadlineNs {
		r.codeIfUnmet = hal.DeadlinePassed
	}
}

// pollBackoffDivisor makes an Expect without an interval pause for 1/32 of the time it has waited.
// Up to 3 ms, that is below 100 us, for which Device.Sleep reads the clock in a loop.
const pollBackoffDivisor = 32

func pollDelayNs(c *fbs.Command, waitedNs, leftNs int64) int64 {
	if c.Index != 0 { // interval in microseconds
		return min(int64(c.Index)*1000, leftNs)
	}
	return min(waitedNs/pollBackoffDivisor, leftNs)
}

// applyPolicy returns OK if the run continues. It diagnoses all devices, because c may wait for
// host memory that another device should write.
func (r *Replay) applyPolicy(c *fbs.Command, failure hal.Code) hal.Code {
	isIgnored := failure != hal.FrameLate && gen.Policy(c.Option) == gen.PolicyIgnore
	state := r.diagnoseDevices(!isIgnored)
	switch {
	case state != hal.OK:
		return state
	case isIgnored:
		r.walk.Budget -= fbs.DeviceQueryUs * int64(len(r.devices))
		r.ignoredFailures++
		r.failureDetails = Result{}
		return hal.OK
	}
	return failure
}

// dmaFaultDelayNs is between two reads of a PCI status: the error of a DMA transfer may arrive
// after the first.
const dmaFaultDelayNs = 5_000_000

// Diagnose returns the fault of the first device that has one, or OK: DeviceGone, or of a bus
// master MasterOff or DMAFault. With a bus master, it waits 5 ms.
func (r *Replay) Diagnose() hal.Code { return r.diagnoseDevices(true) }

func (r *Replay) diagnoseDevices(awaitDMAFaults bool) hal.Code {
	for _, device := range r.devices {
		if code := device.Diagnose(); code != hal.OK {
			return code
		}
	}
	if awaitDMAFaults && r.hasStartedDMA && r.view.BusMasters != 0 {
		r.devices[0].Sleep(dmaFaultDelayNs)
		return r.diagnoseDevices(false)
	}
	return hal.OK
}
