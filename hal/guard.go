package hal

// This file converts memory faults into values of type Panic. A load or store of mapped
// memory faults if, for example, the device is gone or the file has been truncated.

// Panic describes a panic that Recover has stopped. The zero value means that no panic
// occurred.
type Panic struct {
	Cause   any     // the value that recover returned; nil if no panic occurred
	IsFault bool    // the panic is a memory access that faulted, not a defect of the program
	Address uintptr // address of the faulted access; 0 if the processor did not report it
}

// Recover stops a panic, describes it in recovered, and calls PanicOnFault(previous). A
// function that accesses memory which may be gone must defer Recover first:
//
//	defer Recover(PanicOnFault(true), &recovered)
//
// Recover does not allocate and makes no system call.
func Recover(previous bool, recovered *Panic) {
	PanicOnFault(previous)
	recovered.Cause = recover()
	fault, isFault := recovered.Cause.(interface{ Addr() uintptr })
	recovered.IsFault = isFault
	if isFault {
		recovered.Address = fault.Addr()
	}
}

// FaultedIn reports whether the access that faulted was to one of the size bytes at base.
func (p *Panic) FaultedIn(base uintptr, size uint64) bool {
	return p.IsFault && p.Address-base < uintptr(size)
}

// PanicText returns the text of cause, a value that was passed to panic.
func PanicText(cause any) string {
	switch c := cause.(type) {
	case error:
		return c.Error()
	case string:
		return c
	}
	return "a value of unknown type"
}
