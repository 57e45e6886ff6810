package hal

// Panic is a panic that Recover has ended. The zero value stands for none.
type Panic struct {
	Cause   any
	IsFault bool    // an access faulted; else it is a defect of a program, as a nil pointer is
	Address uintptr // of that access, 0 if unknown: an arm64 processor may not report it
}

// Recover ends a panic and stores it, and sets PanicOnFault as it was before. A function that
// accesses memory which may be gone defers it first:
//
//	defer Recover(PanicOnFault(true), &ended)
//
// It allocates nothing and makes no system call.
func Recover(before bool, ended *Panic) {
	PanicOnFault(before)
	ended.Cause = recover()
	fault, isFault := ended.Cause.(interface{ Addr() uintptr })
	if ended.IsFault = isFault; isFault {
		ended.Address = fault.Addr()
	}
}

// In reports whether an access to size bytes at base faulted.
func (p *Panic) FaultedIn(base uintptr, size uint64) bool {
	return p.IsFault && p.Address-base < uintptr(size)
}

// PanicText returns what the cause of a panic says.
func PanicText(cause any) string {
	switch c := cause.(type) {
	case error:
		return c.Error()
	case string:
		return c
	}
	return "of no known kind"
}
