package runtime

import (
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Replay is a loaded image on its devices. The zero value is of no use; Load
// makes one.
type Replay struct {
	view      *fbs.View
	devices   []hal.Device
	masters   []hal.BusMaster // of the devices, those that can be, else nil
	apertures []hal.Aperture  // one a window
	arena     []byte          // all tensors
	supplied  []bool          // tensors whose arena holds the caller's data
	scopes    []Scope         // one a name
	safe      int             // sequence that brings the device to rest, or -1
	notice    string          // what Load could not see to, empty if nothing
	disabled  bool            // after a failure, until loaded anew
	limit     int64           // nanoseconds that a run may take, 0: what its waits add up to
	end       int64           // time at which this run is late, 0: never
	deferred  Result          // first failure of policy Defer in this run
	at        int32           // command being carried out
	ignored   uint32          // failures of policy Ignore in this run
	detail    Result          // what the failing command saw
	chunk     [256]byte       // device side of a Compare
}

// Result says how a run ended. Everything but Code is zero after a good one.
type Result struct {
	Code    hal.Code
	Safe    hal.Code // how the sequence "safe" ended, where it ran
	SafeRan bool
	Command int32  // index of the command that failed, -1: none was carried out
	Got     uint64 // what a Poll or Expect loaded last, or Compare at Element
	Want    uint64
	Mask    uint64
	Element uint64 // Compare: the first element that differs
	Ignored uint32 // failures that policy Ignore passed over, good run or not
}

// Scope is what Mark commands of one name saw, in nanoseconds of the first
// device's clock. A Point counts and leaves the time alone. An End that ends
// nothing does not count.
type Scope struct {
	Count   uint64
	Total   int64 // between Begin and End
	Longest int64
	began   int64
	open    bool // between a Begin and an End
}

// View is the verified image.
func (r *Replay) View() *fbs.View { return r.view }

// Scopes has one element for each of the image's names.
func (r *Replay) Scopes() []Scope { return r.scopes }

// Window gives the aperture of a window, for reports.
func (r *Replay) Window(index int) *hal.Aperture { return &r.apertures[index] }

// Input is the arena of an input tensor, for the caller to fill before Run.
// The first call puts the recorded default there, if there is one; from then
// on runs take the arena's bytes.
func (r *Replay) Input(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	data := r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
	if !r.supplied[tensor] {
		r.supplied[tensor] = true
		copy(data, r.view.Data(t))
	}
	return data
}

// Output is the arena of an output tensor, filled by Run.
func (r *Replay) Output(tensor int) []byte {
	t := &r.view.Tensors[tensor]
	return r.arena[t.ArenaOffset : t.ArenaOffset+t.Size]
}

// Limit makes runs fail with FrameLate that take longer than this, 0 for no
// limit. Waits end in time; the clock is looked at before every command but a
// Write, and so before the End. The sequence "safe" has no limit.
func (r *Replay) Limit(nanoseconds int64) { r.limit = nanoseconds }

// Run carries out a sequence. It allocates nothing and, on mapped devices,
// makes no system call but for waiting, and to ask a device that reads all ones
// whether it is there. After a failure the sequence "safe" runs, if the image
// has one, and the Replay stays disabled.
func (r *Replay) Run(sequence int) Result {
	if r.disabled {
		return Result{Code: hal.Disabled, Command: -1}
	}
	if !r.inputsReady() {
		return Result{Code: hal.InputMissing, Command: -1}
	}
	r.deferred, r.detail, r.ignored = Result{}, Result{}, 0
	if r.limit != 0 {
		r.end = r.devices[0].Now() + r.limit
		if r.end < 0 { // in 292 years
			r.end = math.MaxInt64
		}
	}
	code := r.guarded(sequence)
	r.end = 0
	if code == hal.OK && r.deferred.Code == hal.OK {
		return Result{Ignored: r.ignored}
	}
	result := r.deferred
	if code != hal.OK {
		result = r.detail
		result.Code, result.Command = code, r.at
	}
	result.Ignored = r.ignored
	r.disabled = true
	if r.safe >= 0 && r.safe != sequence {
		result.Safe, result.SafeRan = r.guarded(r.safe), true
	}
	return result
}

// late tells whether this run has taken longer than its limit.
func (r *Replay) late() bool { return r.end != 0 && r.devices[0].Now() > r.end }

// sleep lets a device's time pass, but not beyond the end of a limited run.
func (r *Replay) sleep(device hal.Device, nanoseconds int64) {
	if r.end != 0 {
		nanoseconds = min(nanoseconds, r.end-r.devices[0].Now()+1)
	}
	if nanoseconds > 0 {
		device.Sleep(nanoseconds)
	}
}

func (r *Replay) inputsReady() bool {
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		if t.Role == gen.RoleInput && !t.Recorded && !r.supplied[i] {
			return false
		}
	}
	return true
}

// execute is the loop: it carries out the commands of one sequence. Everything
// about them has been verified; only the device is still unknown.
func (r *Replay) execute(sequence int) hal.Code {
	s := &r.view.Sequences[sequence]
	commands := r.view.Commands[s.First : s.First+s.Count]
	done := uint64(0)
	for i := 0; i < len(commands); i++ {
		c, run := &commands[i], uint64(0)
		r.at = int32(s.First) + int32(i)
		if c.Opcode == gen.OpcodeWrite && c.Width >= 4 && c.Mask == fbs.WidthMask(c.Width) {
			run = r.apertures[c.Window].StoreRun(commands[i:], &r.at)
		}
		code := hal.OK
		switch {
		case run > 0:
			i += int(run) - 1
			done += run - 1
		case c.Opcode == gen.OpcodeWrite:
			code = r.write(c)
		default:
			code = r.step(c, done)
		}
		if code != hal.OK {
			return code
		}
		done++
	}
	return hal.OK
}

// step carries out a command that is not a Write, the done-th of its sequence.
func (r *Replay) step(c *fbs.Command, done uint64) hal.Code {
	if r.late() {
		return hal.FrameLate
	}
	switch c.Opcode {
	case gen.OpcodeCopyIn:
		return r.copyIn(c)
	case gen.OpcodeCopyOut:
		return r.copyOut(c)
	case gen.OpcodePoll:
		return r.settle(c, r.poll(c))
	case gen.OpcodeExpect:
		return r.settle(c, r.expect(c))
	case gen.OpcodeCompare:
		return r.settle(c, r.compare(c))
	case gen.OpcodePoint:
		target, _ := fbs.UnpackTarget(c.Mask)
		return r.device(c).Point(&r.apertures[c.Window], target, c.Value)
	case gen.OpcodeFence:
		return r.fence(c)
	case gen.OpcodeDelay:
		r.sleep(r.devices[0], int64(c.Amount)*1000)
		if r.late() {
			return hal.FrameLate
		}
		return hal.OK
	case gen.OpcodeCall:
		return r.call(c)
	case gen.OpcodeMark:
		r.mark(c)
		return hal.OK
	case gen.OpcodeEnd:
		if done == c.Value {
			return hal.OK
		}
	}
	return hal.Internal
}

func (r *Replay) device(c *fbs.Command) hal.Device {
	return r.devices[r.view.Windows[c.Window].Device]
}

// load is one load that tells a device that is gone: all it reads is ones.
func (r *Replay) load(c *fbs.Command) (uint64, hal.Code) {
	loaded, code := r.apertures[c.Window].Load(uint64(c.Offset), c.Width)
	if code == hal.OK && loaded == fbs.WidthMask(c.Width) && !r.device(c).Alive() {
		code = hal.DeviceGone
	}
	return loaded, code
}

func (r *Replay) write(c *fbs.Command) hal.Code {
	value := c.Value
	if gen.Source(c.Mode) == gen.SourceBusAddress {
		value += r.apertures[c.Index].Bus
	} else if c.Mask != fbs.WidthMask(c.Width) {
		loaded, code := r.load(c)
		if code != hal.OK {
			return code
		}
		value |= loaded &^ c.Mask
	}
	return r.apertures[c.Window].Store(uint64(c.Offset), c.Width, value)
}

func (r *Replay) fence(c *fbs.Command) (code hal.Code) {
	hal.FenceStores()
	if gen.FenceMode(c.Mode) == gen.FenceModeReadBack {
		_, code = r.load(c)
	}
	return code
}

func (r *Replay) call(c *fbs.Command) hal.Code {
	at := r.at
	code := r.execute(int(c.Index))
	if code == hal.OK {
		r.at = at
	}
	return code
}

func (r *Replay) copyIn(c *fbs.Command) hal.Code {
	a, offset, access := &r.apertures[c.Window], uint64(c.Offset), gen.Access(c.Option)
	switch gen.Source(c.Mode) {
	case gen.SourcePayload:
		return a.CopyIn(offset, c.Width, access, r.view.Payload[c.Value:c.Value+uint64(c.Amount)])
	case gen.SourceTensor:
		return a.CopyIn(offset, c.Width, access, r.input(int(c.Index))[c.Value:c.Value+uint64(c.Amount)])
	}
	return a.Fill(offset, c.Width, access, c.Value, uint64(c.Amount))
}

// input is what runs take for an input: the caller's data or the recorded.
func (r *Replay) input(tensor int) []byte {
	if t := &r.view.Tensors[tensor]; !r.supplied[tensor] {
		return r.view.Data(t)
	}
	return r.Input(tensor)
}

func (r *Replay) copyOut(c *fbs.Command) hal.Code {
	data := r.Output(int(c.Index))[c.Value : c.Value+uint64(c.Amount)]
	code := r.apertures[c.Window].CopyOut(uint64(c.Offset), c.Width, gen.Access(c.Option), data)
	// A device that is gone reads all ones, which are also data.
	if code == hal.OK && allOnes(data[max(0, len(data)-int(c.Width)):]) && !r.device(c).Alive() {
		return hal.DeviceGone
	}
	return code
}

func allOnes(data []byte) bool {
	for _, b := range data {
		if b != 0xff {
			return false
		}
	}
	return true
}

// poll loads until the condition holds. The last load comes after the
// deadline, so that a reader that was kept off the processor still looks once.
func (r *Replay) poll(c *fbs.Command) hal.Code {
	loaded, code := r.load(c)
	if code != hal.OK || fbs.Holds(gen.Condition(c.Mode), loaded, c.Value, c.Mask) {
		return code
	}
	a, device := &r.apertures[c.Window], r.device(c)
	ones := loaded == fbs.WidthMask(c.Width) // and alive: some registers are
	began := device.Now()
	deadline := began + int64(c.Amount)*1000
	for now := began; ; {
		r.sleep(device, pause(c, now-began, deadline-now))
		now = device.Now()
		lateForFrame := r.late()
		late := lateForFrame || now >= deadline
		loaded, code = a.Load(uint64(c.Offset), c.Width)
		if !ones && loaded == fbs.WidthMask(c.Width) && code == hal.OK {
			ones = true
			if !device.Alive() {
				return hal.DeviceGone
			}
		}
		if code != hal.OK || fbs.Holds(gen.Condition(c.Mode), loaded, c.Value, c.Mask) {
			return code
		}
		if late {
			r.saw(c, loaded)
			if lateForFrame {
				return hal.FrameLate
			}
			return hal.DeadlinePassed
		}
	}
}

// patience is how much longer than needed a Poll without an interval may take:
// a part of 32. It waits awake for some 3 ms, and from then on lets others run
// (hal's Sleep does below and above 100 us).
const patience = 32

// pause is the time between two loads of a Poll that waited so long already and
// has so much left, in nanoseconds.
func pause(c *fbs.Command, waited, left int64) int64 {
	if c.Index != 0 {
		return min(int64(c.Index)*1000, left)
	}
	return min(waited/patience, left)
}

func (r *Replay) expect(c *fbs.Command) hal.Code {
	loaded, code := r.load(c)
	if code == hal.OK && !fbs.Holds(gen.Condition(c.Mode), loaded, c.Value, c.Mask) {
		r.saw(c, loaded)
		return hal.ExpectFailed
	}
	return code
}

// saw keeps what a failing Poll or Expect loaded.
func (r *Replay) saw(c *fbs.Command, loaded uint64) {
	r.detail = Result{Got: loaded, Want: c.Value, Mask: c.Mask}
}

// faultDelay is the time, in nanoseconds, that news of a DMA that went wrong
// may take: an IOMMU's driver writes it to the kernel's log from a thread.
const faultDelay = 5_000_000

// Diagnose says what is wrong with the devices, whatever the commands saw: OK,
// DeviceGone, and of those that master the bus MasterOff or DMAFault. Where one
// masters the bus it waits for news, and is for the end of a run.
func (r *Replay) Diagnose() hal.Code {
	code := r.diagnose()
	for _, bus := range r.masters {
		if bus != nil && code == hal.OK {
			bus.Sleep(faultDelay)
			return r.diagnose()
		}
	}
	return code
}

func (r *Replay) diagnose() hal.Code {
	for i, device := range r.devices {
		code := hal.OK
		if bus := r.masters[i]; bus != nil {
			code = bus.Diagnose()
		} else if !device.Alive() {
			code = hal.DeviceGone
		}
		if code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// Rest stops devices from mastering the bus. Closing them does so too; a sealed
// process cannot close anything.
func (r *Replay) Rest() (err error) {
	for _, bus := range r.masters {
		if bus == nil {
			continue
		}
		if e := bus.Master(false); err == nil {
			err = e
		}
	}
	return err
}

// settle applies the policy of a Poll, Expect or Compare to how it ended.
// Only a condition that does not hold can be passed over, never a device that
// fails. That may be another one than was looked at: what one device waits for
// in host memory, another may have been unable to write.
func (r *Replay) settle(c *fbs.Command, code hal.Code) hal.Code {
	switch code {
	case hal.DeadlinePassed, hal.ExpectFailed, hal.CompareFailed, hal.FrameLate:
	default:
		return code
	}
	policy := gen.Policy(c.Option)
	state := r.diagnose()
	if state == hal.OK && (code == hal.FrameLate || policy == gen.PolicyFail) {
		state = r.Diagnose() // the run ends here
	}
	switch {
	case state != hal.OK:
		return state
	case code == hal.FrameLate:
		return code
	}
	switch policy {
	case gen.PolicyIgnore:
		r.ignored++
		r.detail = Result{}
		return hal.OK
	case gen.PolicyDefer:
		if r.deferred.Code == hal.OK {
			r.deferred = r.detail
			r.deferred.Code, r.deferred.Command = code, r.at
		}
		r.detail = Result{}
		return hal.OK
	}
	return code
}

func (r *Replay) mark(c *fbs.Command) {
	s := &r.scopes[c.Index]
	switch gen.MarkKind(c.Mode) {
	case gen.MarkKindPoint:
		s.Count++
	case gen.MarkKindBegin:
		s.began, s.open = r.devices[0].Now(), true
	case gen.MarkKindEnd:
		if !s.open {
			return
		}
		s.open = false
		took := r.devices[0].Now() - s.began
		s.Count++
		s.Total += took
		s.Longest = max(s.Longest, took)
	}
}
