package hal

// A load faults if the device is gone, or if a mapped file was truncated. SetPanicOnFault is in
// golang.go.

// Panic describes the panic that Recover has caught. The zero value means that there was none.
type Panic struct {
	Cause   any     // value that Go's recover returned; nil if no panic occurred
	IsFault bool    // the cause is a memory access that faulted, not a bug in the program
	Address uintptr // address of the access that faulted; 0 if the processor did not report it
}

// Recover catches a panic, and restores SetPanicOnFault. A function whose accesses may fault begins
// with:
//
//	defer Recover(SetPanicOnFault(true), &recovered)
//
// It does not allocate and makes no system call.
func Recover(previousPanicOnFault bool, recovered *Panic) {
	SetPanicOnFault(previousPanicOnFault)
	*recovered = DescribePanic(recover())
}

// DescribePanic describes the panic whose cause Go's recover returned; nil: no panic.
func DescribePanic(cause any) Panic {
	fault, isFault := cause.(interface{ Addr() uintptr })
	if !isFault {
		return Panic{Cause: cause}
	}
	return Panic{cause, true, fault.Addr()}
}

// FaultedIn reports whether an access to the size bytes at base caused the panic.
func (p *Panic) FaultedIn(base uintptr, size uint64) bool {
	return p.IsFault && p.Address-base < uintptr(size)
}

// PanicText returns a message for people. It does not print a cause that is neither error nor
// string.
func PanicText(cause any) string {
	switch c := cause.(type) {
	case error:
		return c.Error()
	case string:
		return c
	}
	return "panic with a value of unknown type"
}
