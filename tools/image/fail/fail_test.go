package fail

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lightmetal/hal"
)

func TestTryReturnsTheErrorAfterDeferredCalls(t *testing.T) {
	closed := false
	err := Try(func() {
		defer func() { closed = true }()
		Must(os.ReadFile("/nonexistent"))
		t.Error("Must returned after an error")
	})
	if !errors.Is(err, os.ErrNotExist) || !closed {
		t.Errorf("Try returns %v, want ErrNotExist; the deferred call ran: %v", err, closed)
	}
	if err := Try(func() { With(hal.BadImage, "%d bytes", 3) }); hal.CodeOf(err) != hal.BadImage ||
		!strings.HasSuffix(err.Error(), "3 bytes") {
		t.Errorf("Try returns %v, want the code BadImage and the text 3 bytes", err)
	}
	if err := Try(func() { On(nil) }); err != nil {
		t.Errorf("Try of On(nil) returns %v, want nil", err)
	}
}

// TestOtherPanicsAreNotRecovered: a panic that is a defect of the program must not be returned as
// an error.
func TestOtherPanicsAreNotRecovered(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Try recovered from an index out of range")
		}
	}()
	_ = Try(func() { _ = []int{}[len(os.Args)] })
}

// TestReasonHasNoCode: the code of a Fault is left out wherever it stands in the text.
func TestReasonHasNoCode(t *testing.T) {
	fault := hal.NewFault(hal.Usage, "a: flag")
	err := Around("t: ", Around("", fault, "; stop"), "!")
	if got, want := err.Error(), "t: usage: a: flag; stop!"; got != want {
		t.Errorf("Error returns %q, want %q", got, want)
	}
	if got, want := Reason(err), "t: a: flag; stop!"; got != want {
		t.Errorf("Reason returns %q, want %q", got, want)
	}
	if code := hal.CodeOf(err); code != hal.Usage {
		t.Errorf("the code is %v, want usage", code)
	}
	if got := Reason(os.ErrNotExist); got != os.ErrNotExist.Error() {
		t.Errorf("Reason of another error returns %q", got)
	}
}
