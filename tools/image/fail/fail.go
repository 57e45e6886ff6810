// Package fail ends a function at the first error, without a check after every call. It is panic
// and recover: On, Must, With and As panic with an error, deferred calls run, and Try returns or
// Catch stores that error. The panic and the recover must be in the same goroutine.
package fail

import (
	"fmt"

	"lightmetal/hal"
)

// reason marks the panics of this package. Catch does not recover from any other panic.
type reason struct{ error }

// On fails with err unless err is nil.
func On(err error) {
	if err != nil {
		panic(reason{err})
	}
}

// Must returns value, or fails with err if err is not nil.
func Must[T any](value T, err error) T {
	On(err)
	return value
}

// With fails with a hal.Fault that has the code and the formatted reason.
func With(code hal.Code, format string, a ...any) {
	On(&hal.Fault{Code: code, Reason: fmt.Sprintf(format, a...)})
}

// As fails with the text of err under another code, unless err is nil.
func As(code hal.Code, err error) {
	if err != nil {
		With(code, "%v", err)
	}
}

// Around returns an error that wraps err. Its text is `before`, the text of err, and `after`.
func Around(before string, err error, after string) error { return &around{before, err, after} }

type around struct {
	before string
	inner  error
	after  string
}

func (e *around) Error() string { return e.before + e.inner.Error() + e.after }

func (e *around) Unwrap() error { return e.inner }

// Reason returns the text of err without the code of its hal.Fault, also if Around wraps the fault.
func Reason(err error) string {
	switch e := err.(type) {
	case *hal.Fault:
		return e.Reason
	case *around:
		return e.before + Reason(e.inner) + e.after
	}
	return err.Error()
}

// Catch stores the error of a failure in *err. It must be deferred. Without a failure, *err
// keeps its value.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case reason:
		*err = r.error
	default:
		panic(r)
	}
}

// Try calls do and returns the error that do fails with, or nil.
func Try(do func()) (err error) {
	defer Catch(&err)
	do()
	return nil
}
