package hal

// This file catches memory faults. For example, a load from a mapped BAR faults if the device is
// gone, and a load from a mapped file faults if the file has been truncated.

// Panic describes a panic that Recover has caught. The zero value means that no panic has occurred.
type Panic struct {
	Cause   any     // value that Go's recover returned; nil if no panic occurred
	IsFault bool    // the cause is a memory access that faulted, not a bug in the program
	Address uintptr // address of the access that faulted; 0 if the processor did not report it
}

// Recover catches a panic, stores its description in `recovered`, and restores the previous setting
// of SetPanicOnFault. A function whose loads or stores may fault must begin with this statement:
//
//	defer Recover(SetPanicOnFault(true), &recovered)
//
// Recover does not allocate and makes no system call.
func Recover(previousPanicOnFault bool, recovered *Panic) {
	SetPanicOnFault(previousPanicOnFault)
	*recovered = DescribePanic(recover())
}

// DescribePanic describes a panic by the value that Go's recover returned.
func DescribePanic(cause any) Panic {
	fault, isFault := cause.(interface{ Addr() uintptr })
	if !isFault {
		return Panic{Cause: cause}
	}
	return Panic{cause, true, fault.Addr()}
}

// FaultedIn reports whether an access to a range of memory caused the panic. The range has `size`
// bytes and begins at the address `base`.
func (p *Panic) FaultedIn(base uintptr, size uint64) bool {
	return p.IsFault && p.Address-base < uintptr(size)
}

// PanicText returns the message of a panic. `cause` is the value that was passed to the built-in
// function panic.
func PanicText(cause any) string {
	switch c := cause.(type) {
	case error:
		return c.Error()
	case string:
		return c
	}
	return "panic with a value of unknown type"
}
