package hal

import "sync/atomic"

// Code is the result of an operation, and an error. It has one byte: Go converts that to an
// interface without allocating.
type Code uint8

// The numbers are those of enum lm_code in lightmetal.h. Firmware may have been compiled with an
// older one: no number changes its meaning, and new codes are appended.
const (
	OK             Code = iota
	Usage               // the caller passed invalid arguments
	BadImage            // the file is not a complete, valid image
	NoFile              // the file does not exist
	NoDevice            // the device does not exist or cannot be opened
	Internal            // this program has a bug
	DeviceGone          // the device does not answer: loads from the device return all ones
	BusFault            // a load or store caused a bus error
	IO                  // reading or writing a file failed
	DeadlinePassed      // the condition of a poll did not become true before its deadline
	ExpectFailed        // a loaded value did not meet the condition of an expect command
	CompareFailed       // data from the device differ from the golden (expected) data
	Denied              // no permission, an invalid signature, or not allowed in a sealed process
	WrongDevice         // the image is for another device
	Refused             // the device or its mock rejected an access
	BadTensor           // tensor data do not have the size or type that the image declares
	InputMissing        // an input tensor has neither data from the caller nor default data
	Disabled            // an earlier failure disabled the replay; load the image again
	FrameLate           // one run of a sequence took longer than the limit that the caller set
	MasterOff           // bus mastering is off, so the device cannot access host memory
	DMAFault            // the device reports that one of its DMA transfers failed
	RingUnset           // no run has reset a ring that the sequence advances
	codeCount           // number of codes; new codes must be inserted before this line
)

// Exit statuses up to 70 are those of sysexits.h. From 71 on, some differ from it.
var codeTable = [codeCount + 1]struct {
	exit int
	text string
}{
	OK:             {0, "done"},
	Usage:          {64, "usage"},
	BadImage:       {65, "bad image"},
	NoFile:         {66, "no such file"},
	NoDevice:       {69, "device unavailable"},
	Internal:       {70, "internal error"},
	DeviceGone:     {71, "device gone"},
	BusFault:       {71, "bus fault"},
	MasterOff:      {69, "bus mastering is off"},
	DMAFault:       {71, "DMA fault"},
	IO:             {74, "input/output error"},
	DeadlinePassed: {75, "poll deadline passed"},
	FrameLate:      {75, "run took longer than its limit"},
	ExpectFailed:   {76, "expect failed"},
	CompareFailed:  {76, "golden mismatch"},
	Denied:         {77, "not permitted"},
	WrongDevice:    {78, "image is for another device"},
	Refused:        {70, "device rejected the access"},
	BadTensor:      {65, "tensor data do not fit"},
	InputMissing:   {64, "input has no data"},
	RingUnset:      {64, "ring was not reset"},
	Disabled:       {70, "replay is disabled after a failure"},
	codeCount:      {70, "unknown result code"}, // entry for all numbers that are not codes
}

// ExitStatus returns the exit status of a program that ends with c.
func (c Code) ExitStatus() int { return codeTable[min(c, codeCount)].exit }

// Error returns the text of c, which names no device or file.
func (c Code) Error() string { return codeTable[min(c, codeCount)].text }

// Fault is a Code with a reason.
type Fault struct {
	Code   Code
	Reason string // names the device or file, the fault and the remedy
}

// reservedFaults is the memory of Faults after ReserveFaults; element 0 is unused. After a failure,
// lmrun stops the DMA of up to eight devices, each of which can fail in two ways.
var reservedFaults [24]struct {
	fault  Fault
	reason [8 << 10]byte // two paths and a text
}

// nextReserved is the next free element of reservedFaults; 0: ReserveFaults was not called.
var nextReserved atomic.Int32

// ReserveFaults makes the next 23 Faults use reserved memory instead of the heap.
func ReserveFaults() { nextReserved.CompareAndSwap(0, 1) }

// NewFault returns a Fault. Inlined copies would enlarge programs.
//
//go:noinline
func NewFault(code Code, reason string) error { return JoinFault(code, reason) }

// JoinFault returns a Fault whose reason is all parts. It allocates, but not in the first 23 calls
// after ReserveFaults. Inlined copies would enlarge programs.
//
//go:noinline
func JoinFault(code Code, parts ...string) error {
	fault, reason := newFault()
	*fault = Fault{code, TextOf(AppendParts(reason, parts...))}
	return fault
}

func newFault() (*Fault, []byte) {
	i := nextReserved.Load()
	if i == 0 || int(i) == len(reservedFaults) || !nextReserved.CompareAndSwap(i, i+1) {
		return new(Fault), nil
	}
	return &reservedFaults[i].fault, reservedFaults[i].reason[:0]
}

// Error returns text such as "no such file: model.lmb".
func (f *Fault) Error() string { return string(AppendError(nil, f)) }

// AppendError appends the text of an error. For a Code or Fault it allocates only if `text` has too
// little capacity.
func AppendError(text []byte, err error) []byte {
	if fault, isFault := err.(*Fault); isFault {
		return AppendParts(text, fault.Code.Error(), ": ", fault.Reason)
	}
	return AppendParts(text, err.Error())
}

// AppendParts allocates only if `text` has too little capacity. Inlined copies would enlarge
// programs.
//
//go:noinline
func AppendParts(text []byte, parts ...string) []byte {
	for _, part := range parts {
		text = append(text, part...)
	}
	return text
}

// Unwrap returns the code, for errors.Is and errors.As.
func (f *Fault) Unwrap() error { return f.Code }

// CodeOf returns OK for nil, the Code that err is or wraps, or else Internal.
func CodeOf(err error) Code {
	switch e := err.(type) {
	case nil:
		return OK
	case Code:
		return e
	case *Fault:
		return e.Code
	case interface{ Unwrap() error }:
		return CodeOf(e.Unwrap())
	}
	return Internal
}
