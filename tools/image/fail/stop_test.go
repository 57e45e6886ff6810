package fail

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lightmetal/hal"
)

func TestWhatStopsGivesItsErrorAndDeferredCallsAreMade(t *testing.T) {
	closed := false
	err := Try(func() {
		defer func() { closed = true }()
		Must(os.ReadFile("/nonexistent"))
		t.Error("it goes on")
	})
	if !errors.Is(err, os.ErrNotExist) || !closed {
		t.Errorf("%v, closed %v", err, closed)
	}
	if err := Try(func() { With(hal.BadImage, "%d bytes", 3) }); hal.CodeOf(err) != hal.BadImage ||
		!strings.HasSuffix(err.Error(), "3 bytes") {
		t.Error(err)
	}
	if err := Try(func() { On(nil) }); err != nil {
		t.Error(err)
	}
}

// A mistake of the program's own is no error that it tells.
func TestOtherPanicsGoOn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an index out of range was taken for an error")
		}
	}()
	_ = Try(func() { _ = []int{}[len(os.Args)] })
}
