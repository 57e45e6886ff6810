package hal

// This file turns memory faults into values: a load or store of mapped memory may
// fault when a device is gone or a file has been truncated.

// Panic describes a panic that Recover has stopped. The zero value means none.
type Panic struct {
	Cause   any     // the value that recover returned; nil if there was no panic
	IsFault bool    // a memory access faulted; otherwise the program has a defect
	Address uintptr // of the access, 0 if unknown: arm64 processors need not report it
}

// Recover stops a panic, stores it in ended, and restores PanicOnFault to before. A
// function that accesses memory which may be gone defers it first:
//
//	defer Recover(PanicOnFault(true), &ended)
//
// It does not allocate and makes no system call.
func Recover(before bool, ended *Panic) {
	PanicOnFault(before)
	ended.Cause = recover()
	fault, isFault := ended.Cause.(interface{ Addr() uintptr })
	ended.IsFault = isFault
	if isFault {
		ended.Address = fault.Addr()
	}
}

// FaultedIn reports whether an access to one of the size bytes at base faulted.
func (p *Panic) FaultedIn(base uintptr, size uint64) bool {
	return p.IsFault && p.Address-base < uintptr(size)
}

// PanicText returns the text of a panic's cause.
func PanicText(cause any) string {
	switch c := cause.(type) {
	case error:
		return c.Error()
	case string:
		return c
	}
	return "of no known kind"
}
