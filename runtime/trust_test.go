package runtime_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

// originalListing describes an image file, and rewrittenListing what tests write over it: a file of
// the same size with other values, offsets and payload.
const (
	originalListing = ivshmemHead +
		"main:\n  delay 1us\n  write.4 m+0x0 0x11\n  copy.8 m+0x1000 <- pattern 0x1 size 64KiB " +
		"bulk\nsafe:\n  write.4 m+0x8 0x5afe\n"
	rewrittenListing = ivshmemHead +
		"main:\n  delay 1us\n  write.4 m+0x4 0x66\n  copy.8 m+0x1000 <- pattern 0x7 size 64KiB " +
		"bulk\nsafe:\n  write.4 m+0xc 0xbad\n"
)

// storedText returns the bytes to which both images store: the first 16 bytes of the memory and one
// byte of the payload.
func (d *plainDevice) storedText() string {
	return fmt.Sprintf("% x %x", d.memory[:16], d.memory[0x1000+8])
}

// originalStores is the beginning of storedText after a run of originalListing.
const originalStores = "11 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"

// fileRewrites returns functions that write other data over a file that is in use.
func fileRewrites(t *testing.T) map[string]func(path string) error {
	other := assembleImage(t, rewrittenListing)
	// A command whose offset is far outside the window, which the verifier would reject.
	outside := assembleImage(t, originalListing)
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

// openFile opens an image file and closes it at the end of the test.
func openFile(t *testing.T, path string) *runtime.File {
	t.Helper()
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestFileRewrittenAfterOpenChangesNoAccess: a run executes the verified commands, whenever the
// file changes after Open. Only the payload is read from the file, and if Inspect checked the file,
// as for a signature, the payload is copied, too.
func TestFileRewrittenAfterOpenChangesNoAccess(t *testing.T) {
	accept := func([]byte) error { return nil }
	for what, rewrite := range fileRewrites(t) {
		for when := range 4 { // before Inspect, before Verify, before Load, before Run
			for _, checked := range []bool{false, true} {
				if !checked && when < 2 || checked && when == 0 {
					continue // Verify would reject the other payload
				}
				path := writeImage(t, assembleImage(t, originalListing))
				file := openFile(t, path)
				step := func(now int) {
					if now == when {
						if err := rewrite(path); err != nil {
							t.Fatal(err)
						}
					}
				}
				if checked {
					if err := file.Inspect(accept); err != nil {
						t.Fatal(err)
					}
				}
				step(1)
				view, err := file.Verify()
				if err != nil {
					t.Fatalf("%s, rewritten at step %d: Verify: %v", what, when, err)
				}
				step(2)
				device, err := newPlainDevice(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
				if err != nil {
					t.Fatal(err)
				}
				step(3)
				result := r.Run(0)
				if got := device.storedText(); result.Code != hal.OK ||
					!strings.HasPrefix(got, originalStores) ||
					checked && bytes.Contains(device.memory, bytes.Repeat([]byte{0xff}, 8)) {
					t.Errorf("%s, rewritten at step %d, checked %v: run ends with %+v, stored %s; "+
						"want %s", what, when, checked, result, got, originalStores)
				}
				if want := originalPayload(t); checked &&
					!bytes.Equal(device.memory[0x1000:0x11000], want) {
					t.Errorf("%s, rewritten at step %d: the device has another payload than the "+
						"checked one: %s", what, when,
						describeDifference(device.memory[0x1000:0x11000], want))
				}
				r.Close()
				device.Close()
			}
		}
	}
}

// originalPayload returns the payload that originalListing copies to a device.
func originalPayload(t *testing.T) []byte {
	t.Helper()
	r, device, err := loadOnPlainDevice(writeImage(t, assembleImage(t, originalListing)))
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	defer r.Close()
	if result := r.Run(0); result.Code != hal.OK {
		t.Fatalf("run ends with %+v, want %v", result, hal.OK)
	}
	return bytes.Clone(device.memory[0x1000:0x11000])
}

// TestSignatureCoversWhatIsVerified rewrites the file between Inspect, which checks a signature,
// and Verify. Inspect must have copied the file.
func TestSignatureCoversWhatIsVerified(t *testing.T) {
	path := writeImage(t, assembleImage(t, originalListing))
	file := openFile(t, path)
	var inspected []byte
	keep := func(data []byte) error {
		inspected = bytes.Clone(data)
		return nil
	}
	if err := file.Inspect(keep); err != nil {
		t.Fatal(err)
	}
	for _, rewrite := range fileRewrites(t) {
		if err := rewrite(path); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file.Bytes(), inspected) {
			t.Error("Bytes differs from the checked bytes after the file was rewritten")
		}
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), inspected) {
		t.Error("Bytes differs from the checked bytes after the file was truncated")
	}
}

// rewriteSealed loads the image args[0], seals the process, runs the image, writes the file args[1]
// over it, and runs it again. It prints a line for each run: the bytes to which the run stored.
func rewriteSealed(args []string) error {
	path, otherPath := args[0], args[1]
	other, err := os.ReadFile(otherPath)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	r, device, err := loadSealed(path)
	if err != nil {
		return err
	}
	runAndPrint := func() error {
		clear(device.memory[:16])
		if result := r.Run(0); result.Code != hal.OK {
			return fmt.Errorf("run ends with %+v", result)
		}
		_, err := unix.Write(1, []byte(device.storedText()+"\n"))
		return err
	}
	if err := runAndPrint(); err != nil {
		return err
	}
	if n, err := unix.Write(fd, other); err != nil || n != len(other) {
		return fmt.Errorf("%d bytes written, %w", n, err)
	}
	err = runAndPrint()
	// With go test -cover, os.Exit would write the coverage to a new file.
	unix.Exit(hal.CodeOf(err).ExitStatus())
	return nil
}

func TestFileRewrittenAfterSealChangesNoAccess(t *testing.T) {
	skipWithoutSeccomp(t)
	out, status := runChild(t, "rewritten", writeImage(t, assembleImage(t, originalListing)),
		writeImage(t, assembleImage(t, rewrittenListing)))
	lines := strings.Split(out, "\n")
	if status != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0], originalStores) ||
		!strings.HasPrefix(lines[1], originalStores) {
		t.Errorf("child ended with status %v and printed %q, want status 0 and two lines with %q",
			status, out, originalStores)
	}
}

// TestFileThatIsLargerThanMemoryIsRejected makes a sparse file whose envelope is as large as all
// memory. It may not be possible to map a larger file.
func TestFileThatIsLargerThanMemoryIsRejected(t *testing.T) {
	path := writeImage(t, assembleImage(t, originalListing))
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
		t.Errorf("Open of a file of %d bytes: %v, want %q", size, err, "are available")
	}
}

// TestFileThatCannotBeCopiedIsAnError truncates a file before Inspect copies it, and closes the
// descriptor of another one.
func TestFileThatCannotBeCopiedIsAnError(t *testing.T) {
	path := writeImage(t, assembleImage(t, originalListing))
	file := openFile(t, path)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	err := file.Inspect(func([]byte) error { return nil })
	if hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("Inspect of a truncated file: %v, want an I/O error with %q", err, "cut short")
	}
	path = writeImage(t, assembleImage(t, originalListing))
	file = openFile(t, path)
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
		t.Errorf("Inspect without the descriptor: %v, want an I/O error", err)
	}
}

// TestImageThatNeedsMoreThanAvailableMemoryIsRejected: Load rejects tensors, host memory and the
// page tables of many windows that need more than the available memory, before it allocates any.
func TestImageThatNeedsMoreThanAvailableMemoryIsRejected(t *testing.T) {
	effort.SkipShort(t)
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		t.Fatal(err)
	}
	total := (uint64(machine.Totalram) + uint64(machine.Totalswap)) * uint64(machine.Unit)
	windows, host := "", ""
	for i := range 4000 { // 16 TiB
		window := fmt.Sprintf("window h%d host size 4GiB\n", i)
		if windows += window; uint64(i)<<32 <= total {
			host += window // up to the size of all memory, so that page tables alone would fit
		}
	}
	bars := ""
	for i := range 4096 {
		bars += fmt.Sprintf("window b%d bar4 offset 0x0 size 4GiB\n", i)
	}
	const target = "lightmetal 1\ntarget blackhole 1e52:b140 bar4 32GiB\n" +
		"window w bar4 offset 0x0 size 1MiB\n"
	if total > 30<<30 {
		bars = windows // the page tables of an image's BAR windows have at most 32 GiB
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
				t.Errorf("%s: Load: %v, want %q", what, err, "available")
			}
		})
	}
}

// TestLargeEnvelopeIsCopiedCompletely has so many commands that the copy uses huge pages, and no
// payload after them.
func TestLargeEnvelopeIsCopiedCompletely(t *testing.T) {
	effort.SkipShort(t)
	file := assembleImage(t, ivshmemHead+"main:\n"+strings.Repeat("  write.4 m+0x0 0x1\n", 100_000))
	path := writeImage(t, file)
	copied := openFile(t, path)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), file) {
		t.Error("Bytes differs from the file before it was truncated")
	}
	if _, err := copied.Verify(); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

// TestSequenceThatMayTakeTooLongIsRejectedAtLoad: the limit is an hour, unless TimeLimitUs is
// larger. Load compares the worst-case time of the image with it.
func TestSequenceThatMayTakeTooLongIsRejectedAtLoad(t *testing.T) {
	effort.SkipShort(t)
	waits := func(calls int) string {
		return ivshmemHead + "main:\n" + strings.Repeat("  call waits\n", calls) + "waits:\n" +
			strings.Repeat("  delay 10s\n", 36)
	}
	repeat := func(command string, count int) string {
		return strings.Repeat("  "+command+"\n", count)
	}
	// callMany returns a listing that calls a sequence of 100,000 equal commands.
	callMany := func(calls int, command string) string {
		return ivshmemHead + "main:\n" + repeat("call many", calls) + "many:\n" +
			repeat(command, 100_000)
	}
	for _, test := range []struct {
		what, source string
		us           uint64 // of main
	}{
		{"nearly an hour", waits(9), 3240e6 + 9*(36+1+1) + 1},
		{"more than an hour", waits(10), 3600e6 + 10*(36+1+1) + 1},
		{"stores", ivshmemHead + "main:\n" + repeat("call fills", 40) + "fills:\n" +
			repeat("fill.1 m+0x0 <- 0x1 size 1MiB", 100), 4000<<20 + 40*(100+1+1) + 1},
		{"polls", ivshmemHead + "main:\n  poll.4 m+0x0 == 0x1 within 3600s every 1ms\n",
			3600e6 + 12 + 1},
		{"fences", callMany(40_000, "fence"), 40_000*(100_000+1+1) + 1},
		{"calls", ivshmemHead + "main:\n" + repeat("call one", 100_000) + "one:\n" +
			repeat("fence", 1), 100_000*(1+1+1) + 1},
		{"ignored polls", callMany(2, "poll.4 m+0x0 == 0x1 within 20ms else ignore"),
			2*(100_000*20_022+1+1) + 1},
		{"ignored expects", callMany(2000, "expect.4 m+0x0 == 0x1 else ignore"),
			2000*(100_000*22+1+1) + 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			v := view(t, test.source)
			if got := v.WorstCaseUs[0]; got != test.us {
				t.Errorf("%s: the worst-case time is %d us, want %d", test.what, got, test.us)
			}
			device := mock.New(&boards.Ivshmem)
			r, err := runtime.Load(v, runtime.AnyTLBWindow, device)
			if rejected := test.us > 3600e6; rejected != (hal.CodeOf(err) == hal.BadImage) ||
				rejected && !strings.Contains(err.Error(), `sequence "main" may take`) ||
				device.Operations() != 0 {
				t.Errorf("%s: Load: %v after %d operations, want it rejected: %v, and no operation",
					test.what, err, device.Operations(), rejected)
			}
			if err == nil {
				r.Close()
			}
			v.TimeLimitUs = test.us
			if r, err = runtime.Load(v, runtime.AnyTLBWindow, device); err != nil {
				t.Errorf("%s: Load with a sufficient TimeLimitUs: %v", test.what, err)
				return
			}
			r.Close()
		})
	}
}

// TestWorstCaseTimeDoesNotOverflow calls a sequence of polls with the longest deadline so often
// that the sum exceeds 1<<62 us.
func TestWorstCaseTimeDoesNotOverflow(t *testing.T) {
	effort.SkipShort(t)
	v := view(t, ivshmemHead+"main:\n"+strings.Repeat("  call waits\n", 40_000)+
		"waits:\n"+strings.Repeat("  poll.4 m+0x0 == 0x1 within 4294967295us every 65535us\n",
		40_000))
	if got := v.WorstCaseUs; got[0] != 1<<62 || got[1] != 40_000*(4294967295+12)+1 {
		t.Errorf("worst-case times %d, want %d and %d", got, uint64(1<<62),
			uint64(40_000*(4294967295+12)+1))
	}
}

// defaultInputsListing has default data of two inputs after other payload. Its run copies the
// inputs to the device.
const defaultInputsListing = ivshmemHead + `
tensor g output uint8[8192] = pattern 0x9 size 8192
tensor a input uint8[8192] = pattern 0x3 size 8192
tensor b input uint8[5000] = pattern 0x5 size 5000
main:
  copy.8 m+0x0 <- a[:] bulk
  copy.8 m+0x10000 <- b[:] bulk
  copy.8 g[:] <- m+0x0 bulk
`

// TestDefaultInputsStayAsTheyWereVerified: if a program truncates the file or rewrites it in place,
// as cp does, the default data of inputs do not change, and Input does not fault.
func TestDefaultInputsStayAsTheyWereVerified(t *testing.T) {
	file := assembleImage(t, defaultInputsListing)
	other := bytes.Repeat([]byte{0xee}, len(file))
	for what, change := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.Truncate(path, 0) },
		"rewritten": func(path string) error { return os.WriteFile(path, other, 0o644) },
	} {
		t.Run(what, func(t *testing.T) {
			for _, callInput := range []bool{false, true} {
				path := writeImage(t, file)
				r, device, err := loadOnPlainDevice(path)
				if err != nil {
					t.Fatal(err)
				}
				want := make([][]byte, 3)
				for i := range want {
					view := runtime.ViewOf(r)
					want[i] = bytes.Clone(view.TensorData(&view.Tensors[i]))
				}
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				for i := 1; i < len(want) && callInput; i++ {
					if got := inputOrFault(t, r, i); !bytes.Equal(got, want[i]) {
						t.Errorf("%s: Input returns other data for tensor %d than its default: %s",
							what, i, describeDifference(got, want[i]))
					}
				}
				result := r.Run(0)
				at := device.memory
				a, b := at[:8192], at[0x10000:][:5000]
				if result.Code != hal.OK || !bytes.Equal(a, want[1]) || !bytes.Equal(b, want[2]) {
					t.Errorf("%s, Input called %v: run ends with %+v, want OK; data on the device "+
						"compared with the defaults: a: %s; b: %s", what, callInput, result,
						describeDifference(a, want[1]), describeDifference(b, want[2]))
				}
				r.Close()
				device.Close()
			}
		})
	}
}

// describeDifference returns the first difference between two byte slices, for a failure text.
func describeDifference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#02x, want %#02x", i, got[i], want[i])
		}
	}
	return "no difference"
}

// inputOrFault calls Input. If Input faults, which would end a program in C, inputOrFault fails the
// test and returns zeros.
func inputOrFault(t *testing.T, r *runtime.Replay, tensor int) (data []byte) {
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

// TestFileVerifiedAgainKeepsItsInputs: an image from the first Verify may run while the second
// Verify fails.
func TestFileVerifiedAgainKeepsItsInputs(t *testing.T) {
	skipWithoutFaultAddress(t)
	path := writeImage(t, assembleImage(t, defaultInputsListing))
	file := openFile(t, path)
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
		t.Errorf("second Verify: %v, want an I/O error; input compared with its data before: %s",
			err, describeDifference(input, want))
	}
}

// TestReplayRunsVerifiedCommandsOnly: if a caller assigns other commands, sequences and windows to
// a view before or after Load, a run does not use them.
func TestReplayRunsVerifiedCommandsOnly(t *testing.T) {
	const source = ivshmemHead + "main:\n  write.4 m+0x0 0x11111111\n"
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
		after  func(v *fbs.View)
	}{
		"assigned before": {func(v *fbs.View) *fbs.View { assign(v); return v }, nil},
		"assigned to a copy": {func(v *fbs.View) *fbs.View {
			copied := *v
			assign(&copied)
			return &copied
		}, nil},
		"assigned after": {nil, assign},
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
				test.after(v)
			}
			run(t, r, hal.OK)
			if got := readMemory(t, device, 0, 0x100); got[0] != 0x11 ||
				bytes.IndexByte(got, 0x22) >= 0 {
				t.Errorf("%s: the device has % x, want 11 at offset 0 and 22 nowhere", name, got)
			}
			r.Close()
		})
	}
	unverified := *view(t, source)
	unverified = fbs.View{Devices: unverified.Devices, Windows: unverified.Windows,
		Reservation: unverified.Reservation, TimeLimitUs: 1e6}
	assign(&unverified)
	if _, err := runtime.Load(&unverified, runtime.AnyTLBWindow,
		mock.New(&boards.Ivshmem)); hal.CodeOf(err) != hal.Usage {
		t.Errorf("Load of a view that Verify did not return: %v, want code %d", err, hal.Usage)
	}
}

// TestStoresToVerifiedMemoryFault stores to everything that the view of an opened file and a Replay
// hand out, except the arena, whose tensors callers may change.
func TestStoresToVerifiedMemoryFault(t *testing.T) {
	file, err := runtime.Open(writeImage(t, assembleImage(t, ivshmemHead+
		"window host host size 4KiB\ntensor a input uint32[] = uint32 1\n"+
		"main:\n  write.8 m+0x8 bus(host)\n  copy.4 m+0x0 <- a[:]\n"+
		"  copy.8 m+0x1000 <- pattern 0x1 size 64KiB bulk\n")))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	v, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Load(v, runtime.AnyTLBWindow, mock.New(&boards.Ivshmem))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	handedOut := map[string]any{"File.Bytes": file.Bytes(),
		"the commands of a Replay": runtime.CommandsOf(r)}
	fields := reflect.ValueOf(*v)
	for i := range fields.NumField() {
		f, name := fields.Field(i), fields.Type().Field(i).Name
		if f.Kind() == reflect.Slice && f.Len() > 0 && name != "WorstCaseUs" {
			handedOut["View."+name] = f.Interface()
		}
	}
	for name, slice := range handedOut {
		if !storeFaults(reflect.ValueOf(slice).Index(0)) {
			t.Errorf("a store to %s does not fault", name)
		}
	}
	if len(handedOut) < 8 {
		t.Errorf("only %d slices were found, want at least 8", len(handedOut))
	}
	for _, of := range []reflect.Type{reflect.TypeOf(file), reflect.TypeOf(r)} {
		for i := range of.NumMethod() {
			m := of.Method(i)
			isKnown := slices.Contains([]string{"Bytes", "Input", "Output"}, m.Name)
			for j := range m.Type.NumOut() {
				if m.Type.Out(j).Kind() == reflect.Slice && !isKnown {
					t.Errorf("%s.%s hands out a slice that this test does not know", of, m.Name)
				}
			}
		}
	}
}

// storeFaults stores the value of an element over itself.
func storeFaults(element reflect.Value) (faults bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		_, faults = recover().(interface{ Addr() uintptr })
	}()
	element.Set(reflect.ValueOf(element.Interface()))
	return false
}
