package runtime_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// What a file holds first, and what it is rewritten to: of the same size, with
// other values, places and payload.
const (
	honest = ivshmem +
		"main:\n  delay 1us\n  write.4 m+0x0 0x11\n  copy.8 m+0x1000 <- pattern 0x1 size 64KiB " +
		"bulk\nsafe:\n  write.4 m+0x8 0x5afe\n"
	hostile = ivshmem +
		"main:\n  delay 1us\n  write.4 m+0x4 0x66\n  copy.8 m+0x1000 <- pattern 0x7 size 64KiB " +
		"bulk\nsafe:\n  write.4 m+0xc 0xbad\n"
)

// stored returns what the honest and the hostile image have stored: the first 16 bytes, and one
// of the payload.
func (d *plain) stored() string { return fmt.Sprintf("% x %x", d.memory[:16], d.memory[0x1000+8]) }

const honestStores = "11 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"

// rewrites are what somebody may do to a file that is in use.
func rewrites(t *testing.T) map[string]func(path string) error {
	other := encoded(t, hostile)
	// Commands that no verifier lets through: outside the window, by far.
	outside := encoded(t, honest)
	for at := range outside {
		if at%8 == 0 && binary.LittleEndian.Uint64(outside[at:]) == 0x11 {
			binary.LittleEndian.PutUint32(outside[at-8:], 0xfffffff0)
			outside[at-16] = 99
		}
	}
	write := func(data []byte) func(string) error {
		return func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteAt(data, 0)
			return errors.Join(err, file.Close())
		}
	}
	return map[string]func(string) error{"another image": write(other), "outside": write(outside),
		"ones": write(bytes.Repeat([]byte{0xff}, len(other)))}
}

func opened(t *testing.T, path string) *runtime.File {
	t.Helper()
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestFileRewrittenAfterOpenChangesNoAccess: the verified commands are executed,
// whenever the file changes after Open. Only payload is the file's own, and of
// one that was checked, as for a signature, not even that.
func TestFileRewrittenAfterOpenChangesNoAccess(t *testing.T) {
	believe := func([]byte) error { return nil }
	for what, rewrite := range rewrites(t) {
		for when := range 4 { // before Check, before Verify, before Load, before Run
			for _, checked := range []bool{false, true} {
				if !checked && when < 2 || checked && when == 0 {
					continue // payload is seen to be wrong
				}
				path := written(t, encoded(t, honest))
				file := opened(t, path)
				step := func(now int) {
					if now == when {
						if err := rewrite(path); err != nil {
							t.Fatal(err)
						}
					}
				}
				if checked {
					if err := file.Inspect(believe); err != nil {
						t.Fatal(err)
					}
				}
				step(1)
				view, err := file.Verify()
				if err != nil {
					t.Fatalf("%s, %d: %v", what, when, err)
				}
				step(2)
				device, err := newPlain(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
				if err != nil {
					t.Fatal(err)
				}
				step(3)
				result := r.Run(0)
				if got := device.stored(); result.Code != hal.OK ||
					!strings.HasPrefix(got, honestStores) ||
					checked && bytes.Contains(device.memory, bytes.Repeat([]byte{0xff}, 8)) {
					t.Errorf("%s, %d, checked %v: %+v, stored %s", what, when, checked, result, got)
				}
				if want := payloadOf(t); checked &&
					!bytes.Equal(device.memory[0x1000:0x11000], want) {
					t.Errorf("%s, %d: other payload than the signed", what, when)
				}
				r.Close()
				device.Close()
			}
		}
	}
}

// payloadOf is what honest copies to a device.
func payloadOf(t *testing.T) []byte {
	t.Helper()
	r, device, err := loadPlain(written(t, encoded(t, honest)))
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	defer r.Close()
	if result := r.Run(0); result.Code != hal.OK {
		t.Fatal(result)
	}
	return bytes.Clone(device.memory[0x1000:0x11000])
}

// TestSignatureCoversWhatIsVerified rewrites the file after its signature was
// looked at, and before it is verified and loaded: by then it is copied.
func TestSignatureCoversWhatIsVerified(t *testing.T) {
	path := written(t, encoded(t, honest))
	file := opened(t, path)
	var seen []byte
	see := func(data []byte) error {
		seen = bytes.Clone(data)
		return nil
	}
	if err := file.Inspect(see); err != nil {
		t.Fatal(err)
	}
	for _, rewrite := range rewrites(t) {
		if err := rewrite(path); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file.Bytes(), seen) {
			t.Error("the checked bytes changed")
		}
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), seen) {
		t.Error("the checked bytes changed")
	}
}

// rewriteSealed runs an image, then rewrites or cuts its file from behind the
// seal, and runs it again; it prints what the device holds.
func rewriteSealed(args []string) error {
	path, with := args[0], args[1]
	other, err := os.ReadFile(with)
	if err != nil {
		return err
	}
	r, device, err := loadPlain(path)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
		return err
	}
	if err := runtime.Seal(); err != nil {
		return err
	}
	if n, err := unix.Write(fd, other); err != nil || n != len(other) {
		return fmt.Errorf("%d bytes written, %w", n, err)
	}
	if result := r.Run(0); result.Code != hal.OK {
		return fmt.Errorf("%+v", result)
	}
	_, err = unix.Write(1, []byte(device.stored()+"\n"))
	// os.Exit writes what go test -cover counts, to a new file
	unix.Exit(hal.CodeOf(err).ExitStatus())
	return nil
}

func TestFileRewrittenAfterSealChangesNoAccess(t *testing.T) {
	needSeccomp(t)
	out, status := child(t, "rewritten", written(t, encoded(t, honest)),
		written(t, encoded(t, hostile)))
	if status != 0 || !strings.HasPrefix(out, honestStores) {
		t.Errorf("%v: %s", status, out)
	}
}

// TestFileThatIsLargerThanMemoryIsRejected has nothing in it and takes no room:
// commands as large as all memory, as it says. Larger ones may not be mappable.
func TestFileThatIsLargerThanMemoryIsRejected(t *testing.T) {
	path := written(t, encoded(t, honest))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		t.Fatal(err)
	}
	size := uint64(machine.Totalram) * uint64(machine.Unit)
	if err := file.Truncate(int64(size)); err != nil {
		t.Skip(err)
	}
	if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, size), 32); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Open(path); hal.CodeOf(err) != hal.BadImage ||
		!strings.Contains(err.Error(), "are available") {
		t.Error(err)
	}
}

// TestFileThatCannotBeCopiedIsAnError: it is cut short, or its descriptor gone.
func TestFileThatCannotBeCopiedIsAnError(t *testing.T) {
	path := written(t, encoded(t, honest))
	file := opened(t, path)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	err := file.Inspect(func([]byte) error { return nil })
	if hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), "cut short") {
		t.Error(err)
	}
	path = written(t, encoded(t, honest))
	file = opened(t, path)
	links, err := filepath.Glob("/proc/self/fd/*")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, _ := os.Readlink(link); at == path {
			var fd int
			fmt.Sscan(filepath.Base(link), &fd)
			unix.Close(fd)
		}
	}
	if err := file.Inspect(func([]byte) error { return nil }); hal.CodeOf(err) != hal.IO {
		t.Error(err)
	}
}

// TestImageThatNeedsMoreThanAvailableMemoryIsRejected: tensors, host memory, and the page tables
// of many windows are refused before anything is taken.
func TestImageThatNeedsMoreThanAvailableMemoryIsRejected(t *testing.T) {
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		t.Fatal(err)
	}
	total := (uint64(machine.Totalram) + uint64(machine.Totalswap)) * uint64(machine.Unit)
	windows, host := "", ""
	for i := range 4000 { // 16 TiB
		window := fmt.Sprintf("window h%d host size 4GiB\n", i)
		if windows += window; uint64(i)<<32 <= total {
			host += window // no more than all memory: their page tables have room
		}
	}
	bars := ""
	for i := range 4096 {
		bars += fmt.Sprintf("window b%d bar4 offset 0x0 size 4GiB\n", i)
	}
	const target = "lightmetal 1\ntarget blackhole 1e52:b140 bar4 32GiB\n" +
		"window w bar4 offset 0x0 size 1MiB\n"
	if total > 30<<30 {
		bars = windows // more tables than 32 GiB are in no image
	}
	for what, source := range map[string]string{
		"host memory": target + host,
		"tensors":     target + "tensor a input uint8[1048576x1048576]\n",
		"page tables": strings.Replace(target+bars, "window w bar4 offset 0x0 size 1MiB\n", "", 1),
	} {
		t.Run(what, func(t *testing.T) {
			_, err := runtime.Load(view(t, source+"main:\n  delay 1us\n"), runtime.AnyTLBWindow,
				mock.New(&boards.Blackhole))
			if hal.CodeOf(err) != hal.BadImage || !strings.Contains(err.Error(), "available") {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// TestLargeEnvelopeIsCopiedCompletely has so many commands that the copy is worth
// huge pages, and no payload behind them.
func TestLargeEnvelopeIsCopiedCompletely(t *testing.T) {
	file := encoded(t, ivshmem+"main:\n"+strings.Repeat("  write.4 m+0x0 0x1\n", 100_000))
	path := written(t, file)
	copied := opened(t, path)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), file) {
		t.Error("other bytes")
	}
	if _, err := copied.Verify(); err != nil {
		t.Error(err)
	}
}

// TestSequenceThatMayTakeTooLongIsRejectedAtLoad: an hour, unless more is allowed.
// It is a check of the image, and sets no limit for runs.
func TestSequenceThatMayTakeTooLongIsRejectedAtLoad(t *testing.T) {
	waits := func(calls int) string {
		return ivshmem + "main:\n" + strings.Repeat("  call waits\n", calls) + "waits:\n" +
			strings.Repeat("  delay 10s\n", 36)
	}
	many := func(command string, count int) string {
		return strings.Repeat("  "+command+"\n", count)
	}
	// times makes calls calls of 100,000 commands.
	times := func(calls int, command string) string {
		return ivshmem + "main:\n" + many("call many", calls) + "many:\n" + many(command, 100_000)
	}
	for _, test := range []struct {
		what, source string
		us           uint64 // of main
	}{
		{"nearly an hour", waits(9), 3240e6 + 9*(36+1+1) + 1},
		{"more than an hour", waits(10), 3600e6 + 10*(36+1+1) + 1},
		{"stores", ivshmem + "main:\n" + many("call fills", 40) + "fills:\n" +
			many("fill.1 m+0x0 <- 0x1 size 1MiB", 100), 4000<<20 + 40*(100+1+1) + 1},
		{"polls", ivshmem + "main:\n  poll.4 m+0x0 == 0x1 within 3600s every 1ms\n",
			3600e6 + 12 + 1},
		{"fences", times(40_000, "fence"), 40_000*(100_000+1+1) + 1},
		{"calls", ivshmem + "main:\n" + many("call one", 100_000) + "one:\n" + many("fence", 1),
			100_000*(1+1+1) + 1},
		{"ignored polls", times(2, "poll.4 m+0x0 == 0x1 within 20ms else ignore"),
			2*(100_000*20_022+1+1) + 1},
		{"ignored expects", times(2000, "expect.4 m+0x0 == 0x1 else ignore"),
			2000*(100_000*22+1+1) + 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			v := view(t, test.source)
			if got := v.WorstCaseUs[0]; got != test.us {
				t.Errorf("%s: %d us, want %d", test.what, got, test.us)
			}
			device := mock.New(&boards.Ivshmem)
			r, err := runtime.Load(v, runtime.AnyTLBWindow, device)
			if refused := test.us > 3600e6; refused != (hal.CodeOf(err) == hal.BadImage) ||
				refused && !strings.Contains(err.Error(), `sequence "main" may take`) ||
				device.Operations() != 0 {
				t.Errorf("%s: %v", test.what, err)
			}
			if err == nil {
				r.Close()
			}
			v.TimeLimitUs = test.us
			if r, err = runtime.Load(v, runtime.AnyTLBWindow, device); err != nil {
				t.Errorf("%s, allowed: %v", test.what, err)
				return
			}
			r.Close()
		})
	}
}

// TestWorstCaseTimeDoesNotOverflow has calls of all there is of waiting.
func TestWorstCaseTimeDoesNotOverflow(t *testing.T) {
	v := view(t, ivshmem+"main:\n"+strings.Repeat("  call waits\n", 4000)+"waits:\n"+
		strings.Repeat("  poll.4 m+0x0 == 0x1 within 4294967295us every 65535us\n", 400_000))
	if got := v.WorstCaseUs; got[0] != 1<<62 || got[1] != 400_000*(4294967295+12)+1 {
		t.Error(got)
	}
}

// recorded has default data of inputs after other payload, and a run that copies one to the device.
const recorded = ivshmem + `
tensor g output uint8[8192] = pattern 0x9 size 8192
tensor a input uint8[8192] = pattern 0x3 size 8192
tensor b input uint8[5000] = pattern 0x5 size 5000
main:
  copy.8 m+0x0 <- a[:] bulk
  copy.8 m+0x10000 <- b[:] bulk
  copy.8 g[:] <- m+0x0 bulk
`

// TestDefaultInputsStayAsTheyWereVerified: whoever cuts or rewrites the file in place, as cp
// does, changes no byte of a recorded input, and ends no process that asks for one.
func TestDefaultInputsStayAsTheyWereVerified(t *testing.T) {
	file := encoded(t, recorded)
	other := bytes.Repeat([]byte{0xee}, len(file))
	for what, change := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.Truncate(path, 0) },
		"rewritten": func(path string) error { return os.WriteFile(path, other, 0o644) },
	} {
		t.Run(what, func(t *testing.T) {
			for _, asked := range []bool{false, true} {
				path := written(t, file)
				r, device, err := loadPlain(path)
				if err != nil {
					t.Fatal(err)
				}
				want := make([][]byte, 3)
				for i := range want {
					want[i] = bytes.Clone(r.View().TensorData(&r.View().Tensors[i]))
				}
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				for i := 1; i < len(want) && asked; i++ {
					if got := inputOf(t, r, i); !bytes.Equal(got, want[i]) {
						t.Errorf("%s: input %d is % x, recorded % x", what, i, got[:4], want[i][:4])
					}
				}
				result := r.Run(0)
				at := device.memory
				same := bytes.Equal(at[:8192], want[1]) && bytes.Equal(at[0x10000:][:5000], want[2])
				if result.Code != hal.OK || !same {
					t.Errorf("%s, asked %v: %+v; the device has % x", what, asked, result, at[:4])
				}
				r.Close()
				device.Close()
			}
		})
	}
}

// inputOf is Input, whose fault would end a host in C, and with it this test.
func inputOf(t *testing.T, r *runtime.Replay, tensor int) (data []byte) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			t.Errorf("input %d: %v", tensor, cause)
			data = make([]byte, 4)
		}
	}()
	return r.Input(tensor)
}

// TestFileCutBeforeItsInputsAreCopiedIsAnInputOutputError, with its envelope still there.
func TestFileCutBeforeItsInputsAreCopiedIsAnInputOutputError(t *testing.T) {
	path := written(t, encoded(t, recorded))
	file := opened(t, path)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	_, err := file.Verify()
	want := path + ": " + runtime.FileTruncatedText
	if hal.CodeOf(err) != hal.IO || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// TestFileVerifiedAgainKeepsItsInputs: an image that was loaded by then may run meanwhile.
func TestFileVerifiedAgainKeepsItsInputs(t *testing.T) {
	needFaultAddress(t)
	path := written(t, encoded(t, recorded))
	file := opened(t, path)
	first, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	input := first.TensorData(&first.Tensors[1])
	want := bytes.Clone(input)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err = file.Verify(); hal.CodeOf(err) != hal.IO || !bytes.Equal(input, want) {
		t.Errorf("%v; the input begins with % x", err, input[:4])
	}
}

// TestReplayRunsVerifiedCommandsOnly: commands, sequences and windows that a caller
// assigns or makes up reach no device, before Load and after.
func TestReplayRunsVerifiedCommandsOnly(t *testing.T) {
	const source = ivshmem + "main:\n  write.4 m+0x0 0x11111111\n"
	forged := []fbs.Command{
		{Opcode: gen.OpcodeWrite, Width: 4, Offset: 0x40, Value: 0x22222222},
		{Opcode: gen.OpcodeEnd},
	}
	assign := func(v *fbs.View) {
		v.Commands, v.Sequences = forged, []fbs.Sequence{{First: 0, Count: 2}}
		v.Windows = []fbs.Window{{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Offset: 0x80,
			Size: 0x1000}}
	}
	for name, test := range map[string]struct {
		before func(v *fbs.View) *fbs.View
		after  func(r *runtime.Replay)
	}{
		"assigned before": {func(v *fbs.View) *fbs.View { assign(v); return v }, nil},
		"assigned to a copy": {func(v *fbs.View) *fbs.View {
			copied := *v
			assign(&copied)
			return &copied
		}, nil},
		"assigned after": {nil, func(r *runtime.Replay) { assign(r.View()) }},
	} {
		t.Run(name, func(t *testing.T) {
			v, device := view(t, source), mock.New(&boards.Ivshmem)
			if test.before != nil {
				v = test.before(v)
			}
			r, err := runtime.Load(v, runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			if test.after != nil {
				test.after(r)
			}
			run(t, r, hal.OK)
			if got := readMemory(t, device, 0, 0x100); got[0] != 0x11 ||
				bytes.IndexByte(got, 0x22) >= 0 {
				t.Errorf("%s: % x", name, got)
			}
			r.Close()
		})
	}
	made := *view(t, source)
	made = fbs.View{Devices: made.Devices, Windows: made.Windows, Reservation: made.Reservation,
		TimeLimitUs: 1e6}
	assign(&made)
	if _, err := runtime.Load(&made, runtime.AnyTLBWindow,
		mock.New(&boards.Ivshmem)); hal.CodeOf(err) != hal.Usage {
		t.Errorf("a view that was made up: %v", err)
	}
}
