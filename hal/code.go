package hal

// Code says how an operation ended. It is a uint8, so that handing one around,
// even as an error, never allocates.
type Code uint8

// The numbers are those of enum lm_code in lightmetal.h, which firmware was
// compiled with: they never change their meaning, and new ones come last.
const (
	OK             Code = iota
	Usage               // the caller asked for something that makes no sense
	BadImage            // the file is not a whole, valid image
	NoFile              // there is no such file
	NoDevice            // the device is not there or cannot be opened
	Internal            // a defect of this program
	DeviceGone          // the device reads all ones and its configuration space does too
	BusFault            // a load or store was answered with a bus error
	IO                  // reading or writing a file failed
	DeadlinePassed      // a poll's condition did not hold in time
	ExpectFailed        // an expect's condition did not hold
	CompareFailed       // a range of the device differs from the golden payload
	Denied              // not permitted, or a bad signature
	WrongDevice         // the image is for another device
	Refused             // the device, or a stricter stand-in for it, rejects the access
	BadTensor           // tensor data do not have the size or type the image wants
	InputMissing        // an input tensor has neither data nor a recorded default
	Disabled            // an earlier failure disabled the replay; load the image again
	FrameLate           // a run took longer than its limit
	MasterOff           // the device may not reach memory: bus mastering is off
	DMAFault            // a transfer of the device's own did not reach memory
	codeCount
)

// codeTable holds, for each code, the exit status of a program that ends with
// it (sysexits.h, then lightmetal's own from 71 on) and its text.
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
	codeCount:      {70, "no known code"}, // for whatever has a larger number
}

// Exit is the exit status of a program that ends with c.
func (c Code) ExitStatus() int { return codeTable[min(c, codeCount)].exit }

// Error makes a Code an error. The text has no place in it; Fault adds one.
func (c Code) Error() string { return codeTable[min(c, codeCount)].text }

// Fault is a Code with a place and a reason, for everything before the first
// store. It allocates.
type Fault struct {
	Code   Code
	Reason string // "pci:1234:11e8: no such device; `lspci -nn` lists what is there"
}

// NewFault returns a Fault. A call takes less program than a literal does.
//
//go:noinline
func NewFault(code Code, reason string) error { return &Fault{code, reason} }

func (f *Fault) Error() string { return f.Code.Error() + ": " + f.Reason }

// Unwrap lets errors.Is and errors.As find the code.
func (f *Fault) Unwrap() error { return f.Code }

// CodeOf is the code in err: OK for nil, Internal where there is none.
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
