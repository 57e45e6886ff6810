package hal

// This file declares the result codes of all operations, their texts and exit statuses.

// Code is the result of an operation. Its type is uint8 because Go stores a value of one
// byte in an interface without an allocation: returning a Code as an error never allocates.
type Code uint8

// The numbers equal those of enum lm_code in lightmetal.h. Firmware is compiled with that
// header; therefore no number may ever change its meaning, and new codes must be appended.
const (
	OK             Code = iota
	Usage               // the caller passed invalid arguments
	BadImage            // the file is not a complete, valid image
	NoFile              // there is no such file
	NoDevice            // the device does not exist or cannot be opened
	Internal            // this program has a defect
	DeviceGone          // loads from the device and its configuration space return all ones
	BusFault            // a load or store caused a bus error
	IO                  // reading or writing a file failed
	DeadlinePassed      // the condition of a poll did not become true in time
	ExpectFailed        // the condition of an expect was false
	CompareFailed       // a range of the device differs from the golden data
	Denied              // no permission, or an invalid signature
	WrongDevice         // the image is for another device
	Refused             // the device or its mock rejects the access
	BadTensor           // tensor data do not have the size or type that the image declares
	InputMissing        // an input tensor has neither data from the caller nor default data
	Disabled            // an earlier failure disabled the replay; load the image again
	FrameLate           // a run took longer than its limit
	MasterOff           // the device cannot access memory: bus mastering is off
	DMAFault            // a transfer that the device started did not reach memory
	codeCount           // number of codes; must remain the last constant
)

// codeTable lists, for each code, its text and the exit status of a program that ends
// with it. Statuses below 71 are those of sysexits.h; lightmetal defines those from 71 on.
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
	Refused:        {70, "device refused the access"},
	BadTensor:      {65, "tensor data do not fit"},
	InputMissing:   {64, "input has no data"},
	Disabled:       {70, "replay is disabled after a failure"},
	codeCount:      {70, "unknown code"}, // also the entry for all larger numbers
}

// ExitStatus returns the exit status of a program that ends with c.
func (c Code) ExitStatus() int { return codeTable[min(c, codeCount)].exit }

// Error returns the text of c, which does not name the device or file. Return a Fault
// where that name matters.
func (c Code) Error() string { return codeTable[min(c, codeCount)].text }

// Fault is an error with a Code and a reason that names the device or file. NewFault
// allocates. Therefore a replay that must not allocate returns a Code instead.
type Fault struct {
	Code   Code
	Reason string // such as "pci:1234:11e8: no such device; `lspci -nn` lists what is there"
}

// NewFault returns a Fault as an error. NewFault must not be inlined: a call takes fewer
// bytes of program than the code that allocates and fills a Fault.
//
//go:noinline
func NewFault(code Code, reason string) error { return &Fault{code, reason} }

// Error returns the text of the code and the reason.
func (f *Fault) Error() string { return f.Code.Error() + ": " + f.Reason }

// Unwrap returns the code, for errors.Is and errors.As.
func (f *Fault) Unwrap() error { return f.Code }

// CodeOf returns the Code that err is or wraps: OK if err is nil, Internal if err contains
// no Code.
func CodeOf(err error) Code {
	switch e := err.(type) {
	case nil:
		return OK
	case Code:
		return e
	case interface{ Unwrap() error }:
		return CodeOf(e.Unwrap())
	}
	return Internal
}
