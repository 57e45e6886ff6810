// Package stop is how a
// the first thing that is wrong: whatever finds it stops with an error, and Try,
// at the one place where errors are told, gives it. What is between says what is
// done, and its deferred calls are made. All of it is in one goroutine.
package fail

import (
	"fmt"

	"lightmetal/hal"
)

// reason is an error that something stops with. Other panics go on.
type reason struct{ error }

// On stops with an error, if there is one.
func On(err error) {
	if err != nil {
		panic(reason{err})
	}
}

// Must is a value that there has to be.
func Must[T any](value T, err error) T {
	On(err)
	return value
}

// With stops with an error of a code.
func With(code hal.Code, format string, a ...any) {
	On(&hal.Fault{Code: code, Reason: fmt.Sprintf(format, a...)})
}

// As stops with an error under a code, if there is one.
func As(code hal.Code, err error) {
	if err != nil {
		With(code, "%v", err)
	}
}

// Catch is deferred where errors are told, and gives what stopped. Where nothing did
// the error stays as it is.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case reason:
		*err = r.error
	default:
		panic(r)
	}
}

// Try gives the error that do stops with.
func Try(do func()) (err error) {
	defer Catch(&err)
	do()
	return nil
}
