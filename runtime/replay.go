package runtime

// This file executes the sequences of a loaded image.

import (
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is an image that Load has prepared for runs on its devices. A program must not use the
// zero value of Replay.
type Replay struct {
	// Warnings has one warning for the user in each line. It is "" if there is no warning. A
	// warning names a service that the kernel driver of a device is too old to provide.
	Warnings string

	// The commands that runs execute: those in the image file, or a copy of them in the arena. Load
	// makes the copy if the image has Relocate or Point commands, because it must write addresses
	// into these commands.
	commands  []fbs.Command
	view      *fbs.View      // copy of the view that Verify returned
	devices   []hal.Device   // devices of the image, in the order of the image
	apertures []hal.Aperture // for each window of the image, the address range that Load mapped
	// For each window of the image: the address at which the first byte of its TLB window is
	// mapped. The TLB window may be larger than the window of the image. Therefore a Point command
	// adds an offset to this address, and stores the sum in windowAddresses. The address
	// is 0 if the window of the image has no TLB window. It is also 0 if the kernel driver programs
	// the TLB window: programTLBWindow then stores the address in windowAddresses,
	// without this table.
	tlbWindowBases []uintptr
	// The memory of all tensors. If Load copied the commands, the copy is in read-only pages after
	// the tensors.
	arena []byte

	// A table of addresses for hal.Walk, in the order of the image. It begins with one entry for
	// each window: the address of the window, or 0 if the window is not mapped memory, or if the
	// kernel driver has not programmed the TLB window yet. One entry for each device follows: the
	// address of the registers that program TLB windows, or 0 if the kernel driver programs them.
	windowAddresses []uintptr
	// A second table of addresses for hal.Walk. The first entry is the address of the payload.
	// The addresses of the tensors follow, in the order of the image. The address of an input is 0
	// as long as the input has no data.
	bufferAddresses []uintptr

	missingInputs int // number of inputs without data; while it is not 0, all runs fail
	safeSequence  int // index of the sequence named "safe"; -1: the image has no such sequence

	hasStartedDMA bool     // StartDMA was called
	disabled      bool     // a run has failed, or Close was called: all later runs fail
	walk          hal.Walk // state of the loop in assembly that executes the commands of a sequence
	modifyWalk    hal.Walk // state of a second loop, which executes the store of a Modify command
	// scratchCommands[0] is a temporary command for modifyWalk or encodePoint. After it, Next of
	// modifyWalk points to scratchCommands[1].
	scratchCommands [2]fbs.Command

	imageTimeLimitNs  int64 // limit of each run, from View.TimeLimitUs, in nanoseconds
	callerTimeLimitNs int64 // limit that SetLimit has set, in nanoseconds; 0: none
	// The time at which the current run exceeds its limit, in nanoseconds of the clock Device.Now.
	// If SetLimit has set no limit, the first check of the time computes endTimeNs; until then,
	// endTimeNs is 0.
	endTimeNs     int64
	budgetUs      int64             // work budget of the current run
	stopFlag      *atomic.Uint32    // flag that the caller sets to end a run; nil: no flag
	obeysStopFlag bool              // the current run obeys stopFlag (see SetStopFlag)
	observer      func(command int) // called before each command; nil: nothing is called
	observed      *fbs.Command      // the last command for which the current run called observer

	// The Expect command that the current run repeats, because the condition of the command has not
	// been met yet. It is nil if the run does not repeat a command.
	pollingCommand *fbs.Command
	pollDeadlineNs int64 // deadline of pollingCommand, in ns of Device.Now; 0: not computed yet
	// The code with which the Expect command pollingCommand fails if its next load does not meet
	// the condition. If codeIfUnmet is OK, the command does not fail, and the run continues to
	// wait.
	codeIfUnmet     hal.Code
	ignoredFailures uint32 // number of failures after which the run continued (PolicyIgnore)
	failureDetails  Result // Got, Want, Mask, ElementIndex and FileTruncated of a failed command
}

// Result describes how a run ended. If Code is OK, all fields except IgnoredFailures are
// zero.
type Result struct {
	Code             hal.Code // OK, or the code of the failure
	SafeSequenceCode hal.Code // result of the sequence "safe"; has no meaning if SafeRan is false
	SafeRan          bool     // Run executed the sequence "safe" after the failure
	Command          int32    // index in the image of the command that failed; -1: none
	Got              uint64   // value that the Expect loaded last, or first wrong element
	Want             uint64   // value or element that the command expected
	Mask             uint64   // bits of Got and Want that the command compared
	ElementIndex     uint64   // index of the first wrong element, which is as wide as the Compare
	IgnoredFailures  uint32   // number of failures after which the run continued (gen.PolicyIgnore)

	FileTruncated bool // Code is IO because another process truncated the image file
}

// Input returns the bytes of an input tensor in the arena. The parameter `tensor` is the index of
// the tensor in the image. The caller writes the data for the next run to these bytes.
//
// Without a call of Input, runs read the default data in the file. The first call of Input copies
// the default data, if the image has any, into the arena; from then on, runs read the arena.
// Copying cannot cause a memory fault if another process truncates the file, because the default
// data are in private memory (see File).
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

// Output returns the bytes of an output tensor in the arena. Runs write these bytes. The parameter
// `tensor` is the index of the tensor in the image.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// SetLimit sets a limit for the time of each later run, in nanoseconds; 0 removes it. A run that
// takes longer fails with hal.FrameLate, within 1 ms of charged time (FORMAT.md section 6.3) after
// the limit. In addition, every run has the limit View.TimeLimitUs, which alone applies to the
// sequence "safe" after a failure.
func (r *Replay) SetLimit(nanoseconds int64) { r.callerTimeLimitNs = nanoseconds }

// Work budgets: the charged time, in microseconds, after which a run looks at the clock and at the
// stop flag, also in the middle of a copy, fill or compare. Without a limit from SetLimit it is
// longer, because reading the clock takes as long as 50 stores. A command that began within the
// budget may exceed it, but by less than 100 us: 10 us for each device, and 12 us.
const (
	budgetWithLimitUs    = 1000 - 100
	budgetWithoutLimitUs = 8000 - 100
)

// StopGraceNs is the time, in nanoseconds, that a run may still take after it has noticed the stop
// flag (SetStopFlag). A usual run ends within this time. Init systems and other supervisors usually
// wait at least StopGraceNs before they kill a process that they have asked to stop.
const StopGraceNs = 10_000_000_000

// StopLagNs is how long, in nanoseconds, a sequence may continue beyond its limit after the stop
// flag was set: the longest sleep until it notices the flag, a work budget until it notices the
// limit, and the diagnosis of the devices after a failure.
const StopLagNs = sleepMaxNs + 8_000_000 + dmaFaultDelayNs +
	2*fbs.DevicesMax*fbs.DeviceQueryUs*1000

// SetStopFlag sets the address of a flag. To end a run, another goroutine or a signal handler
// stores a number other than 0 in the flag. The run notices it after at most 8 ms of charged time,
// or 10 ms of sleep, and may then take StopGraceNs more. If it takes longer, it fails with
// hal.FrameLate, and Run executes the sequence "safe", as after every failure. Two kinds of runs
// ignore the flag: runs for which SetLimit has set a limit, and runs of the sequence "safe".
func (r *Replay) SetStopFlag(flag *atomic.Uint32) { r.stopFlag = flag }

// SetObserver sets a function. Each later run calls this function before each command, with the
// index of the command in the image. If the parameter is nil, runs call no function. An observer is
// useful for a profiler, but makes runs slower: a series of Write commands takes many times longer.
func (r *Replay) SetObserver(observer func(command int)) { r.observer = observer }

// Run executes a sequence. The parameter `sequence` is the index of the sequence in the image. If a
// command fails, Run executes the sequence with the name "safe", if the image has one, and disables
// the Replay: all later runs then fail with hal.Disabled.
//
// Run allocates no memory. On real devices (not mocks) it makes system calls only for these
// purposes: to wait, to access configuration space, to have a TLB window programmed by a kernel
// driver, and to diagnose a device after a failure or after a load that returned all ones.
func (r *Replay) Run(sequence int) Result {
	switch {
	case r.disabled:
		return Result{Code: hal.Disabled, Command: -1}
	case r.missingInputs != 0:
		return Result{Code: hal.InputMissing, Command: -1}
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

// finishFailedRun disables the Replay after a run that failed with the given code, and returns the
// result of this run. It also executes the sequence "safe", if the image has such a sequence. It
// does not execute "safe" if the failed run was a run of "safe".
func (r *Replay) finishFailedRun(sequence int, code hal.Code) Result {
	result := r.failureDetails
	result.Code = code
	result.Command = int32(r.walk.NextIndex(r.commands))
	result.IgnoredFailures = r.ignoredFailures
	r.failureDetails, r.disabled = Result{}, true
	if r.safeSequence >= 0 && r.safeSequence != sequence {
		r.endTimeNs, r.obeysStopFlag = 0, false
		r.budgetUs = budgetWithoutLimitUs
		result.SafeSequenceCode, result.SafeRan = r.runCatchingFaults(r.safeSequence), true
	}
	return result
}

// checkTimeLimit looks at the clock and the stop flag, and renews the work budget. The first call
// after the flag was set leaves the run StopGraceNs.
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

// sleepWithinLimit sleeps for the given number of nanoseconds. It calls Sleep of the given device,
// because a mock may have a clock of its own. If the run reaches its time limit earlier,
// sleepWithinLimit stops sleeping and returns FrameLate.
func (r *Replay) sleepWithinLimit(device hal.Device, nanoseconds int64) hal.Code {
	code := r.checkTimeLimit()
	for code == hal.OK && nanoseconds > 0 {
		part := min(nanoseconds, sleepMaxNs, r.endTimeNs-r.devices[0].Now()+1)
		device.Sleep(part)
		nanoseconds -= part
		code = r.checkTimeLimit()
	}
	return code
}

// executeSequence executes the commands of one sequence, which Verify has checked. r.walk, a loop
// in assembly, executes most commands, and finishCommand the others.
func (r *Replay) executeSequence(sequence int) (code hal.Code) {
	w := &r.walk
	w.Next = &r.commands[r.view.Sequences[sequence].First]
	w.DoneBytes, r.pollingCommand = 0, nil
	for code == hal.OK {
		held := int64(0)
		if r.observer != nil {
			held = r.observe(w.Next)
		}
		w.Run()
		isUsedUp := w.Budget <= 0
		w.Budget += held
		switch {
		case w.Budget <= 0:
			code = r.checkTimeLimit()
		case isUsedUp: // observe the next command
		case w.Next.Opcode == gen.OpcodeEnd:
			return hal.OK
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
		r.observer(r.walk.NextIndex(r.commands))
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

// finishCommand executes the rest of the command c, at which the walk stopped. Then it advances the
// walk to the next command. There is one exception: if c is an Expect whose condition has not been
// met yet, finishCommand does not advance the walk, so that the walk executes c again.
func (r *Replay) finishCommand(c *fbs.Command) (code hal.Code) {
	w := &r.walk
	if code = r.executeOnPort(w, c); code != hal.OK || w.Next != c || w.Budget <= 0 {
		return code
	}
	w.Budget -= fbs.DeviceQueryUs // the most that the rest of any command but an ignored one takes
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
		code = r.sleepWithinLimit(r.devices[0], int64(c.Amount)*1000)
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

// executeOnPort executes the command c if the window of c is a hal.Port instead of mapped memory.
// The methods of the Port then make the accesses. If the window is mapped memory, executeOnPort
// does nothing and returns OK. The parameter w is the walk that stopped at c.
func (r *Replay) executeOnPort(w *hal.Walk, c *fbs.Command) hal.Code {
	if a := &r.apertures[c.Window]; a.Port != nil && w.StopReason == hal.StopBeforeNext {
		return w.ExecuteOnPort(a, r.view.Windows[c.Window].Offset)
	}
	return hal.OK
}

// deviceOf returns the device of the window that the command c accesses.
func (r *Replay) deviceOf(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// checkDevicePresent returns DeviceGone if the device of the command c no longer answers. The
// parameter `loaded` is the value that c loaded. checkDevicePresent queries the device only if all
// bits of this value are set: a load from a missing device returns such a value. The query is
// necessary because a register of a present device can have this value, too.
func (r *Replay) checkDevicePresent(c *fbs.Command, loaded uint64) hal.Code {
	if loaded == fbs.WidthMask(c.Width) && !r.deviceOf(c).Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// finishModify executes the store of the Modify command c, which changes some bits of a register.
// It replaces the bits of the loaded value that c.Mask selects by the bits of c.Value, and stores
// the result in the register. The store runs in a second Walk, so that r.walk.Next still points to
// the Modify command if the store faults.
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

// programTLBWindow executes the Point command c: it makes the kernel driver of the device program
// the TLB window. On devices whose TLB windows are programmed by stores to registers, it is not
// called: the walk makes these stores.
func (r *Replay) programTLBWindow(c *fbs.Command) (code hal.Code) {
	tiles, _ := boards.UnpackTileRoute(c.Mask)
	a := &r.apertures[c.Window]
	code = r.deviceOf(c).ProgramWindow(a, tiles, c.Value)
	r.windowAddresses[c.Window] = a.Base
	return code
}

// checkPresentAfterCopyOut returns DeviceGone if the device is no longer present after the CopyOut
// command c. Loads from a missing device return only bytes 0xff. Therefore checkPresentAfterCopyOut
// queries the device only if all bytes of the last access are 0xff.
func (r *Replay) checkPresentAfterCopyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index) - 1)[c.Value:][:c.Amount]
	for _, b := range data[max(0, len(data)-int(c.Width)):] {
		if b != 0xff {
			return hal.OK
		}
	}
	return r.checkDevicePresent(c, fbs.WidthMask(c.Width))
}

// finishExpect checks whether the loaded value meets the condition of the Expect command c. If the
// value does not meet the condition, and the deadline has not passed, finishExpect waits until the
// next load is due, and leaves r.pollingCommand set. The walk then executes c again.
//
// The final load comes after the deadline. Therefore the Expect succeeds if the device has set the
// value before the deadline, even if the kernel did not run this process until after the deadline.
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

// awaitNextPoll waits until the next load of the Expect command c is due. If this load is the final
// one, awaitNextPoll sets r.codeIfUnmet to a failure: c fails with this code if the loaded value
// does not meet the condition.
func (r *Replay) awaitNextPoll(c *fbs.Command) {
	device, timeout := r.deviceOf(c), int64(c.Amount)*1000
	now := device.Now()
	if r.pollDeadlineNs == 0 {
		r.pollDeadlineNs = now + timeout
	}
	left := r.pollDeadlineNs - now
	r.codeIfUnmet = r.sleepWithinLimit(device, pollDelayNs(c, timeout-left, left))
	if r.codeIfUnmet == hal.OK && device.Now() >= r.pollDeadlineNs {
		r.codeIfUnmet = hal.DeadlinePassed
	}
}

// pollBackoffDivisor determines the delay between two loads of an Expect command without an
// interval. The delay is 1/32 of the time that the Expect has waited so far. Therefore, if the
// device sets the expected value after a time t, the Expect loads the value at most t/32 later.
//
// During the first 3 ms of the wait, the delay is below 100 us, and Device.Sleep reads the clock in
// a loop until the delay is over. Later, Device.Sleep lets other threads run.
const pollBackoffDivisor = 32

// pollDelayNs returns the time until the next load of the Expect command c. The parameter
// `waitedNs` is the time since the first load of c. The parameter `leftNs` is the time until the
// deadline of c. All three times are in nanoseconds.
func pollDelayNs(c *fbs.Command, waitedNs, leftNs int64) int64 {
	if c.Index != 0 { // c has an interval: Index is the time between two loads in microseconds
		return min(int64(c.Index)*1000, leftNs)
	}
	return min(waitedNs/pollBackoffDivisor, leftNs)
}

// applyPolicy decides whether the run continues after the command c, an Expect or Compare, has
// failed with the code `failure`. It returns OK, and the run continues, under three conditions: the
// policy of c is Ignore, `failure` is not FrameLate, and no device has a fault. Otherwise it
// returns the code with which the run ends: the fault of the first device that has one, or
// `failure` if no device has a fault.
//
// applyPolicy diagnoses all devices, not only the device that c accesses, because another device
// may have caused the failure. For example, c waits for a value in host memory, but the device that
// should write this value has a fault.
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

// dmaFaultDelayNs is the time, in nanoseconds, between the two reads of a device's PCI status. At
// the first read, a DMA transfer may not have completed yet. If the transfer fails, the device sets
// an error bit in its PCI status later, when the error response arrives. The second read finds this
// bit.
const dmaFaultDelayNs = 5_000_000

// Diagnose queries every device for faults, and returns the state of the first device that has one:
// DeviceGone, MasterOff or DMAFault. MasterOff and DMAFault occur only if StartDMA has enabled bus
// mastering of the device. If no device has a fault, Diagnose returns OK. The caller may call
// Diagnose after successful runs, too. If a device is a bus master, Diagnose waits dmaFaultDelayNs;
// therefore the caller should not call it during time-critical work.
func (r *Replay) Diagnose() hal.Code { return r.diagnoseDevices(true) }

// diagnoseDevices implements Diagnose. It queries all devices once. If awaitDMAFaults is true, and
// a device is a bus master, it then waits dmaFaultDelayNs and queries all devices again.
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
