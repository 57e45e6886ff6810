package hal

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEveryCodeHasATextAndAnExitStatus(t *testing.T) {
	texts := map[string]Code{}
	for c := range codeCount {
		text := c.Error()
		if other, taken := texts[text]; text == "" || taken {
			t.Errorf("code %d: text %q is empty, or code %d has the same", c, text, other)
		}
		texts[text] = c
		if exit := c.ExitStatus(); (exit == 0) != (c == OK) || exit > 125 || exit < 0 {
			t.Errorf("%v: exit status %d, want 0 only for OK, and at most 125", c, exit)
		}
	}
	if c := codeCount; c.ExitStatus() != Internal.ExitStatus() || c.Error() == "" {
		t.Errorf("a code that does not exist: exit status %d, text %q; want %d and some text",
			c.ExitStatus(), c.Error(), Internal.ExitStatus())
	}
}

func TestExitStatusesMatchTheManual(t *testing.T) {
	for c, want := range map[Code]int{
		OK: 0, Usage: 64, BadImage: 65, NoFile: 66, NoDevice: 69, Internal: 70, DeviceGone: 71,
		BusFault: 71, IO: 74,
		DeadlinePassed: 75, ExpectFailed: 76, CompareFailed: 76, Denied: 77, WrongDevice: 78,
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if got := c.ExitStatus(); got != want {
				t.Errorf("%v: exit status %d, want %d", c, got, want)
			}
		})
	}
}

func TestCodeOfFindsTheCodeInAnyError(t *testing.T) {
	fault := &Fault{Denied, "because"}
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, OK}, {IO, IO}, {fault, Denied}, {errors.Join(fault), Internal},
		{wrappedError{fault}, Denied}, {io.EOF, Internal},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(fault, Denied) || fault.Error() != "not permitted: because" {
		t.Errorf("text of the fault is %q, want \"not permitted: because\"", fault)
	}
}

func TestReservedFaultsNeedNoMemory(t *testing.T) {
	defer nextReserved.Store(0)
	ReserveFaults()
	ReserveFaults() // no second reserve
	var text [64]byte
	allocations := testing.AllocsPerRun(len(reservedFaults)-2, func() {
		err := JoinFault(DeviceGone, "a", "b")
		if got := AppendError(text[:0], err); string(got) != "device gone: ab" {
			t.Errorf("a reserved fault has the text %q", got)
		}
	})
	if allocations != 0 {
		t.Errorf("a reserved fault allocates %v times", allocations)
	}
	err := JoinFault(NoFile, "c")
	if got := AppendError(nil, err); string(got) != "no such file: c" {
		t.Errorf("the fault behind the reserve has the text %q", got)
	}
	if got := AppendError(nil, io.EOF); string(got) != "EOF" {
		t.Errorf("an error that is no Fault has the text %q", got)
	}
}

type wrappedError struct{ error }

func (w wrappedError) Unwrap() error { return w.error }

func TestErrorsAboutFilesHaveTheirCodes(t *testing.T) {
	for errno, want := range map[error]Code{
		unix.ENOENT: NoFile, unix.ENOTDIR: NoFile, unix.EACCES: Denied, unix.EPERM: Denied,
		unix.EROFS: Denied, unix.ENOSPC: IO, unix.EMFILE: IO, unix.ENFILE: IO,
	} {
		t.Run(fmt.Sprint(errno), func(t *testing.T) {
			words := []string{"x.lmb: " + errno.Error()}
			switch errno {
			case unix.EMFILE:
				words = append(words, "; raise the limit with `ulimit -n`")
			case unix.ENFILE:
				words = append(words, "; raise the system limit fs.file-max")
			case unix.ENOENT:
				words = []string{"x.lmb"}
				if got := FileFault("x.lmb", errno).Error(); got != "no such file: x.lmb" {
					t.Errorf("text of the fault is %q, want \"no such file: x.lmb\"", got)
				}
			}
			wantFault(t, errno.Error(), FileFault("x.lmb", errno), want, words...)
		})
	}
	// An error that is no errno is an input/output error.
	wantFault(t, "other", FileFault("x.lmb", errors.New("other")), IO)
	if err := FileFault("x.lmb", nil); err != nil {
		t.Errorf("FileFault of no error: %v", err)
	}
	fault := &Fault{BadTensor, "said already"}
	if err := FileFault("x.lmb", fault); err != error(fault) {
		t.Errorf("FileFault of a Fault: %v, want it unchanged: %v", err, fault)
	}
}

// Programs for a target do not use strconv.ParseUint.
func TestParseNumberMatchesStrconv(t *testing.T) {
	for _, bits := range []int{4, 16, 32, 64} {
		for _, base := range []int{10, 16} {
			most := uint64(1)<<(bits-1)<<1 - 1 // largest number; for 64 bits, 1<<63<<1 is 0
			text := strconv.FormatUint(most, base)
			texts := []string{"", "0", "007", "9", text, text[:len(text)-1] + "9", text + "0",
				"1" + text, "-1", "+1", "1_0", "0x1", " 1", "fF", "aA"}
			for c := range 256 {
				texts = append(texts, string([]byte{byte(c)}), string([]byte{'0', byte(c)}))
			}
			for _, digits := range texts {
				want, err := strconv.ParseUint(digits, base, bits)
				if err != nil {
					want = 0
				}
				if got, ok := ParseNumber(digits, uint64(base), most); got != want ||
					ok != (err == nil) {
					t.Errorf("%q of %d bits: %d, %v; strconv: %d, %v", digits, bits, got, ok, want,
						err)
				}
			}
		}
	}
}
