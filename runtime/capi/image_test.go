//go:build cgo

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/image/lmb/lmbtest"
)

// The C types of the calls. Test files cannot use cgo, so they use the Go names of these types.
type (
	lastError   = _Ctype_struct_lm_error
	imageInfo   = _Ctype_struct_lm_image
	tensorInfo  = _Ctype_struct_lm_tensor
	versionInfo = _Ctype_struct_lm_version
	size        = _Ctype_size_t
)

const anyWindow = -1 // LM_ANY_WINDOW

func cString(text string) *_Ctype_char { return bufferPointer(append([]byte(text), 0)) }

// bufferPointer returns the address of a buffer as a pointer to char.
func bufferPointer(buffer []byte) *_Ctype_char {
	return (*_Ctype_char)(unsafe.Pointer(unsafe.SliceData(buffer)))
}

func openMemory(data []byte, handle *int32) int32 {
	return lm_open_memory(_Ctype_lm_bytes(unsafe.SliceData(data)), size(len(data)), handle)
}

// load calls lm_load with the names of devices.
func load(handle int32, names []string, window int32) int32 {
	var list []*_Ctype_char
	for _, name := range names {
		list = append(list, cString(name))
	}
	return lm_load(handle, unsafe.SliceData(list), uint32(len(list)), window)
}

// sequenceName calls lm_sequence_name, which writes the name into a buffer.
func sequenceName(handle int32, sequence uint32, name []byte) int32 {
	return lm_sequence_name(handle, sequence, bufferPointer(name), size(len(name)))
}

// tensorData calls lm_input or lm_output and returns the bytes of the tensor.
func tensorData(handle int32, index uint32, role gen.Role, bytes size) (data []byte, status int32) {
	var at *byte
	if role == gen.RoleInput {
		status = lm_input(handle, index, bytes, (*unsafe.Pointer)(unsafe.Pointer(&at)))
	} else {
		status = lm_output(handle, index, bytes, (*_Ctype_lm_bytes)(unsafe.Pointer(&at)))
	}
	if at != nil {
		data = unsafe.Slice(at, bytes)
	}
	return data, status
}

// lastErrorOf calls lm_last_error, which writes the text into a buffer.
func lastErrorOf(handle int32, info *lastError, buffer []byte) int32 {
	return lm_last_error(handle, info, bufferPointer(buffer), size(len(buffer)))
}

// assembleImage assembles a listing for ivshmem, which is plain memory.
func assembleImage(t testing.TB, source string) []byte {
	t.Helper()
	return lmbtest.File(t,
		"lightmetal 1\ntarget ivshmem 1af4:1110 bar2 0x100000\n"+
			"window m bar2 offset 0x0 size 0x100000\n"+source)
}

// writeImage writes the image of a listing to a file and returns its path.
func writeImage(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, assembleImage(t, source), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// useMocks makes openDevice open mocks during a test. It returns a function that returns the mock
// that was opened last.
func useMocks(t testing.TB) func() *mock.Device {
	t.Helper()
	var last *mock.Device
	before := openDevice
	openDevice = func(name string) (hal.Device, error) {
		if name == "panic" {
			panic("a device that panics")
		}
		if name != "pci:1af4:1110" {
			return nil, &hal.Fault{Code: hal.NoDevice, Reason: name + ": no such device"}
		}
		last = mock.New(&boards.Ivshmem)
		return last, nil
	}
	t.Cleanup(func() { openDevice = before })
	return func() *mock.Device { return last }
}

// openListing opens the image of a listing, and closes it at the end of the test.
func openListing(t testing.TB, source string) int32 {
	t.Helper()
	var handle int32
	if status := lm_open(cString(writeImage(t, source)), &handle); status != 0 {
		t.Fatal(lastText(t, 0))
	}
	t.Cleanup(func() { lm_close(handle) })
	return handle
}

// freezeListing opens, loads and freezes the image of a listing.
func freezeListing(t testing.TB, source string) int32 {
	t.Helper()
	handle := openListing(t, source)
	if load(handle, nil, anyWindow) != 0 || lm_freeze(handle) != 0 {
		t.Fatal(lastText(t, handle))
	}
	return handle
}

// lastText returns the text of lm_last_error.
func lastText(t testing.TB, handle int32) string {
	t.Helper()
	text := make([]byte, 512)
	if status := lastErrorOf(handle, nil, text); status != 0 {
		t.Fatalf("lm_last_error: status %d", status)
	}
	return string(text[:strings.IndexByte(string(text), 0)])
}

// expect checks the status that a call returned, and the code and the text of lm_last_error.
func expect(t *testing.T, what string, handle, status int32, want hal.Code, wantText string) {
	t.Helper()
	var e lastError
	if got := lastErrorOf(handle, &e, nil); got != 0 {
		t.Fatalf("%s: lm_last_error: status %d", what, got)
	}
	text := lastText(t, handle)
	if status != int32(want.ExitStatus()) || int32(e.status) != status ||
		int32(e.code) != int32(want) || !strings.Contains(text, wantText) {
		t.Errorf("%s: status %d, last error %+v, text %q; want status %d, code %d and text %q",
			what, status, e, text, want.ExitStatus(), want, wantText)
	}
}

// copyListing copies the inputs a and b to the device and loads the output d from it.
const copyListing = `tensor a input uint32[2]
tensor b input uint32[4x2] = pattern 1 size 32
tensor d output uint32[]
main:
  copy.4 m+0x0 <- a[:]
  copy.4 m+0x100 <- b[:]
  copy.4 d[:] <- m+0x0
nothing:
`

func TestFramesGoInAndOut(t *testing.T) {
	useMocks(t)
	handle := freezeListing(t, copyListing)
	var in, out, main uint32
	if lm_find_tensor(handle, cString("a"), &in)|lm_find_tensor(handle, cString("d"), &out)|
		lm_find_sequence(handle, cString("main"), &main) != 0 {
		t.Fatal(lastText(t, handle))
	}
	expect(t, "run without input", handle, lm_run(handle, main), hal.InputMissing, "call lm_input")
	lm_close(handle)

	handle = freezeListing(t, copyListing)
	a, status1 := tensorData(handle, in, gen.RoleInput, 8)
	d, status2 := tensorData(handle, out, gen.RoleOutput, 4)
	if status1|status2 != 0 {
		t.Fatal(lastText(t, handle))
	}
	for frame := range byte(10) {
		a[0] = frame
		if status := lm_run(handle, main); status != 0 || d[0] != frame {
			t.Fatalf("frame %d: status %d, text %q, output %d; want output %d", frame, status,
				lastText(t, handle), d[0], frame)
		}
		expect(t, "a successful run", handle, 0, hal.OK, "done")
	}
}

func TestImageInfoDescribesTheImage(t *testing.T) {
	handle := openListing(t, copyListing)
	var info imageInfo
	if lm_image_info(handle, &info) != 0 ||
		info != (imageInfo{arena_bytes: 192, payload_bytes: 32, devices: 1, sequences: 2,
			tensors: 3, commands: 5}) {
		t.Errorf("lm_image_info: %+v", info)
	}
	var b tensorInfo
	if lm_tensor_info(handle, 1, &b) != 0 {
		t.Fatal(lastText(t, handle))
	}
	want := tensorInfo{size: 32, role: _Ctype_uint32_t(gen.RoleInput),
		dtype: _Ctype_uint32_t(gen.DTypeUint32), has_data: 1, dims: 2,
		shape: [8]_Ctype_uint32_t{4, 2}}
	want.name[0] = 'b'
	if b != want {
		t.Errorf("lm_tensor_info: got %+v, want %+v", b, want)
	}
	name := make([]byte, 5)
	if sequenceName(handle, 1, name) != 0 || string(name) != "noth\x00" {
		t.Errorf("lm_sequence_name into 5 bytes: %q, want %q", name, "noth\x00")
	}
	data, status := tensorData(handle, 1, gen.RoleInput, 32)
	expect(t, "input before lm_load", handle, status, hal.Usage, "call lm_load before")
	if data != nil {
		t.Error("lm_input before lm_load returned a pointer, want NULL")
	}
}

// TestLongestRaisesTheTimeLimitOfAnImage loads an image that may take more than two hours. lm_load
// succeeds if lm_longest allows this time, and fails with a limit of a second less. The 800 delays,
// 2 calls and 3 ends of the image count 1 us each, plus the time of the delays.
func TestLongestRaisesTheTimeLimitOfAnImage(t *testing.T) {
	useMocks(t)
	handle := openListing(t, "main:\n"+strings.Repeat("  call hour\n", 2)+"hour:\n"+
		strings.Repeat("  delay 10s\n", 400))
	expect(t, "more than an hour", handle, load(handle, nil, anyWindow), hal.BadImage,
		"may take 8000 s 805 us, but the limit is 3600 s 0 us; lm_longest raises "+
			"the limit")
	expect(t, "a second less", handle, lm_longest(handle, 7_999e9), hal.OK, "done")
	expect(t, "still too long", handle, load(handle, nil, anyWindow), hal.BadImage,
		"but the limit is 7999 s 0 us")
	expect(t, "long enough", handle, lm_longest(handle, 8_000_000_805_000), hal.OK, "done")
	expect(t, "loaded", handle, load(handle, nil, anyWindow), hal.OK, "done")
}

func TestMisuseIsAnError(t *testing.T) {
	useMocks(t)
	handle := openListing(t, copyListing)
	outOfOrder := map[string]int32{
		"run": lm_run(handle, 0), "freeze": lm_freeze(handle), "seal": lm_seal(handle),
		"limit": lm_limit(handle, 1), "longest without image": lm_longest(0, 1),
	}
	for name, status := range outOfOrder {
		if status != 64 {
			t.Errorf("%s too early: status %d", name, status)
		}
	}
	old := []byte("what was there")
	if status := lastErrorOf(handle+1, nil, old); status != 64 || old[0] != 0 {
		t.Errorf("lm_last_error of an invalid handle: status %d, text %q; want 64 and no text",
			status, old)
	}
	expect(t, "an invalid window", handle, load(handle, nil, -2), hal.Usage, "window must be")
	expect(t, "two devices", handle, load(handle, []string{"", ""}, anyWindow), hal.Usage,
		"count must be")
	expect(t, "no such device", handle, load(handle, []string{"pci:ffff:ffff"}, anyWindow),
		hal.NoDevice, "pci:ffff:ffff: no such device")
	expect(t, "an empty name", handle, load(handle, []string{""}, anyWindow), hal.Usage,
		"device name is empty")
	expect(t, "loaded after failures", handle, load(handle, nil, anyWindow), hal.OK, "done")
	expect(t, "loaded twice", handle, load(handle, nil, anyWindow), hal.Usage, "already loaded")
	expect(t, "longest too late", handle, lm_longest(handle, 1), hal.Usage, "before lm_load")
	expect(t, "not frozen", handle, lm_run(handle, 0), hal.Usage, "call lm_freeze before")
	expect(t, "frozen", handle, lm_freeze(handle), hal.OK, "done")
	expect(t, "frozen twice", handle, lm_freeze(handle), hal.Usage, "already frozen")

	_, status := tensorData(handle, 3, gen.RoleInput, 8)
	expect(t, "no tensor 3", handle, status, hal.Usage, "no tensor with this index")
	_, status = tensorData(handle, 0, gen.RoleInput, 4)
	expect(t, "half the input", handle, status, hal.BadTensor,
		"size must be the size of the tensor")
	_, status = tensorData(handle, 0, gen.RoleOutput, 8)
	expect(t, "input as output", handle, status, hal.Usage, "is not an output")
	_, status = tensorData(handle, 2, gen.RoleInput, 4)
	expect(t, "output as input", handle, status, hal.Usage, "is not an input")
	expect(t, "no sequence 2", handle, lm_run(handle, 2), hal.Usage, "no sequence with this index")
	expect(t, "no sequence 2 by name", handle, sequenceName(handle, 2, make([]byte, 9)), hal.Usage,
		"no sequence with this index")
	expect(t, "no name", handle, sequenceName(handle, 0, nil), hal.Usage, "name must not be NULL")
	expect(t, "no tensor info 3", handle, lm_tensor_info(handle, 3, new(tensorInfo)), hal.Usage,
		"no tensor with this index")
	expect(t, "tensor info NULL", handle, lm_tensor_info(handle, 0, nil), hal.Usage, "NULL")
	expect(t, "image info NULL", handle, lm_image_info(handle, nil), hal.Usage, "NULL")
	expect(t, "index NULL", handle, lm_find_tensor(handle, cString("a"), nil), hal.Usage, "NULL")
	expect(t, "no such name", handle, lm_find_sequence(handle, cString("a"), new(uint32)),
		hal.Usage, "no sequence or tensor with this name")
	expect(t, "negative limit", handle, lm_limit(handle, 1<<63), hal.Usage, "below 2^63 ns")
	expect(t, "handle NULL", 0, lm_open(cString("x"), nil), hal.Usage, "NULL")
	expect(t, "version NULL", 0, lm_version(nil), hal.Usage, "NULL")
	expect(t, "memory without an image", 0, openMemory(make([]byte, 80), new(int32)), hal.BadImage,
		"identifier")
	expect(t, "empty memory", 0, openMemory([]byte{}, new(int32)), hal.BadImage,
		"the file is empty")
}

func TestHandleOfAClosedImageIsNeverReused(t *testing.T) {
	seen := map[int32]bool{}
	path := writeImage(t, copyListing)
	for range 100 {
		var handle int32
		if lm_open(cString(path), &handle) != 0 || handle <= 0 || seen[handle] {
			t.Fatalf("lm_open: handle %d, %q; want a new positive handle", handle, lastText(t, 0))
		}
		seen[handle] = true
		if status := lm_close(handle); status != 0 {
			t.Fatalf("lm_close: status %d", status)
		}
		expect(t, "closed twice", 0, lm_close(handle), hal.Usage, "was closed, or never opened")
		expect(t, "run after close", 0, lm_run(handle, 0), hal.Usage, "was closed, or never opened")
		if lastErrorOf(handle, nil, nil) != 64 {
			t.Fatal("lm_last_error of a closed image succeeds, want status 64")
		}
	}
	for _, handle := range []int32{-1, -1 << 31, 0, 32, 17, 1<<31 - 1} {
		expect(t, "handle "+strconv.Itoa(int(handle)), 0, lm_run(handle, 0), hal.Usage, "")
		if lm_image_info(handle, new(imageInfo)) != 64 {
			t.Errorf("lm_image_info of handle %d succeeds, want status 64", handle)
		}
	}
}

func TestMaximumNumberOfImagesCanBeOpen(t *testing.T) {
	path, file := writeImage(t, copyListing), assembleImage(t, copyListing)
	var handles [imagesMax + 1]int32
	for i := range imagesMax {
		status := int32(0)
		if i%2 == 0 {
			status = lm_open(cString(path), &handles[i])
		} else {
			status = openMemory(file, &handles[i])
		}
		if status != 0 {
			t.Fatalf("image %d: %s", i, lastText(t, 0))
		}
	}
	expect(t, "one more", 0, lm_open(cString(path), &handles[imagesMax]), hal.Usage, "close one")
	for _, handle := range handles[:imagesMax] {
		if status := lm_close(handle); status != 0 {
			t.Errorf("lm_close of handle %d: status %d", handle, status)
		}
	}
	if mapped, _ := os.ReadFile("/proc/self/maps"); strings.Contains(string(mapped), path) {
		t.Error("the file of a closed image is still mapped")
	}
}

func TestConcurrentCallOnAnImageIsAnError(t *testing.T) {
	useMocks(t)
	handle := freezeListing(t, copyListing)
	im, _ := acquireImage(handle)
	for name, call := range map[string]func() int32{
		"run":   func() int32 { return lm_run(handle, 0) },
		"close": func() int32 { return lm_close(handle) },
		"info":  func() int32 { return lm_image_info(handle, new(imageInfo)) },
	} {
		expect(t, name, 0, call(), hal.Usage, "another thread is in a call")
	}
	if lastErrorOf(handle, nil, nil) != 64 {
		t.Error("lm_last_error succeeds during another call, want status 64")
	}
	im.busy.Store(false)
	expect(t, "after the other call", handle, lm_find_tensor(handle, cString("a"), new(uint32)),
		hal.OK, "done")
}

func TestMissingProcAtTheFirstCallIsAPermanentError(t *testing.T) {
	isProcFSChecked.Store(true)
	isProcFSMissing.Store(true)
	defer isProcFSMissing.Store(false)
	expect(t, "a process without /proc", 0, lm_open(cString(writeImage(t, copyListing)),
		new(int32)), hal.NoFile, "/proc was not mounted at the first call")
}

// busMaster is a device that can access memory by DMA. It records calls of SetBusMaster and Close.
// Close fails.
type busMaster struct {
	hal.Device
	calls *[]string
}

func (m busMaster) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (m busMaster) Diagnose() hal.Code                               { return hal.OK }
func (m busMaster) SetBusMaster(on bool) error {
	*m.calls = append(*m.calls, fmt.Sprint("master ", on))
	return nil
}

func (m busMaster) Close() error {
	*m.calls = append(*m.calls, "close")
	return hal.IO
}

func TestFailedLoadClosesTheDevicesThatItOpened(t *testing.T) {
	useMocks(t)
	var calls []string
	openDevice = func(name string) (hal.Device, error) {
		return busMaster{mock.New(&boards.Edu), &calls}, nil // the image is for ivshmem
	}
	handle := openListing(t, copyListing)
	expect(t, "another device", handle, load(handle, nil, anyWindow), hal.WrongDevice,
		"it is for ivshmem")
	if fmt.Sprint(calls) != "[close]" {
		t.Errorf("the device received the calls %v, want [close]", calls)
	}
}

func TestSealedProcessStopsDevicesAndOpensNothing(t *testing.T) {
	useMocks(t)
	var calls []string
	openMock := openDevice
	openDevice = func(name string) (hal.Device, error) {
		device, err := openMock(name)
		return busMaster{device, &calls}, err
	}
	if status := lm_close(freezeListing(t, copyListing)); status != int32(hal.IO.ExitStatus()) ||
		fmt.Sprint(calls) != "[master false close]" {
		t.Errorf("lm_close: status %d, calls of the device %v; want %d, [master false close]",
			status, calls, hal.IO.ExitStatus())
	}
	handle, other := freezeListing(t, copyListing), openListing(t, copyListing)
	sealed.Store(true)
	defer sealed.Store(false)
	expect(t, "open", 0, lm_open(cString(writeImage(t, copyListing)), new(int32)), hal.Denied,
		"sealed")
	expect(t, "load", other, load(other, nil, anyWindow), hal.Denied, "sealed")
	expect(t, "seal again", handle, lm_seal(handle), hal.Denied, "sealed")
	calls = nil
	if status := lm_close(handle); status != 0 || fmt.Sprint(calls) != "[master false]" {
		t.Errorf("lm_close in a sealed process: status %d, calls of the device %v; want 0, "+
			"[master false]", status, calls)
	}
}

func TestOpenSignedRejectsAnUnsignedImage(t *testing.T) {
	handle := int32(0)
	keys := strings.Repeat("ab", 32)
	status := lm_open_signed(cString(writeImage(t, copyListing)), cString(keys), &handle)
	expect(t, "unsigned", 0, status, hal.Denied, "sign")
	if handle != 0 {
		t.Errorf("lm_open_signed of an unsigned image returned handle %d, want 0", handle)
	}
}

func TestPanicIsReturnedAsAStatus(t *testing.T) {
	useMocks(t)
	handle := openListing(t, copyListing)
	expect(t, "a device that panics", handle, load(handle, []string{"panic"}, anyWindow),
		hal.Internal, "panic: a device that panics")
	for cause, want := range map[any]string{"text": "text", error(hal.BusFault): "bus fault",
		7: "panic with a value of unknown type"} {
		expect(t, want, handle, withImage(handle, stageOpened,
			func(*image) outcome { panic(cause) }), hal.Internal, "panic: "+want)
	}
	expect(t, "an index out of range", handle,
		withImage(handle, stageOpened,
			func(im *image) outcome { _ = im.devices[3]; return outcome{} }), hal.Internal,
		"index out of range")
	expect(t, "load after panics", handle, load(handle, nil, anyWindow), hal.OK, "")
}

func TestFailedRunReportsCommandAndValues(t *testing.T) {
	last := useMocks(t)
	source := func(command string) string {
		return "main:\n  write.4 m+0x0 0x5\n  " + command + "\nsafe:\n  write.4 m+0x8 0x1\n"
	}
	for _, test := range []struct {
		code    hal.Code
		command string
		e       lastError
		want    string
	}{
		{hal.ExpectFailed, "expect.4 m+0x0 & 0xff == 0x7",
			lastError{command: 1, got: 5, want: 7, mask: 255},
			"expect failed: main, command 1: expect.4 w0+0x0 & 0xff == 0x7: got 0x5 " +
				"(bits that differ: 1); then sequence safe ran: done"},
		{hal.DeadlinePassed, "poll.4 m+0x0 == 0x7 within 1ms",
			lastError{command: 1, got: 5, want: 7, mask: 1<<32 - 1},
			"poll deadline passed: main, command 1: poll.4 w0+0x0 == 0x7: got 0x5 after 1 ms " +
				"(bits that differ: 1); then sequence safe ran: done"},
		{hal.CompareFailed, "compare.4 m+0x0 uint32 == uint32 5 9",
			lastError{command: 1, want: 9, mask: 1<<32 - 1, element: 1},
			"golden mismatch: main, command 1: compare.4 w0+0x0: element 1: got 0x0, wanted 0x9 " +
				"(bits that differ: 0, 3)"},
	} {
		t.Run(test.want, func(t *testing.T) {
			handle := freezeListing(t, source(test.command))
			expect(t, test.command, handle, lm_run(handle, 0), test.code, test.want)
			var e lastError
			lastErrorOf(handle, &e, nil)
			test.e.status, test.e.code = _Ctype_int32_t(test.code.ExitStatus()),
				_Ctype_int32_t(test.code)
			if e != test.e {
				t.Errorf("%s: last error %+v, want %+v", test.command, e, test.e)
			}
			if lastText(t, handle); last().Operations() == 0 {
				t.Error("the device received no operation")
			}
			expect(t, "disabled", handle, lm_run(handle, 0), hal.Disabled, "disabled")
			lm_close(handle)
		})
	}

	handle := freezeListing(t, source("expect.4 m+0x0 == 0x7 else ignore"))
	expect(t, "ignored", handle, lm_run(handle, 0), hal.OK, "done")
	var e lastError
	if lastErrorOf(handle, &e, nil); e != (lastError{command: -1, safe: -1, ignored: 1}) {
		t.Errorf("last error after an ignored failure: %+v, want ignored 1 and no command", e)
	}
	last().Inject(mock.Fault{Kind: mock.BusFault, Operation: last().Operations() + 2})
	expect(t, "bus fault", handle, lm_run(handle, 0), hal.BusFault,
		"bus fault: main, command 1: expect.4 w0+0x0 == 0x7; then sequence safe ran: done")
	lm_close(handle)

	handle = freezeListing(t, source("delay 10ms"))
	expect(t, "limited", handle, lm_limit(handle, 1000), hal.OK, "")
	expect(t, "late", handle, lm_run(handle, 0), hal.FrameLate, "longer than its limit")
}

func TestErrorTextIsTruncatedToTheBuffer(t *testing.T) {
	var handle int32
	status := lm_open(cString("/nowhere"), &handle)
	const full = "no such file: /nowhere"
	for size := range len(full) + 3 {
		buffer := []byte(strings.Repeat("x", size+4))
		if lastErrorOf(0, nil, buffer[:size]) != 0 {
			t.Fatalf("lm_last_error into %d bytes failed", size)
		}
		want := full[:max(0, min(size-1, len(full)))] + "\x00"
		if size == 0 {
			want = ""
		}
		if string(buffer[:len(want)]) != want || string(buffer[size:]) != "xxxx" {
			t.Errorf("buffer of %d bytes: got %q, want %q and no byte after the buffer", size,
				buffer, want)
		}
	}
	if status != 66 || handle != 0 {
		t.Errorf("lm_open of a missing file: status %d, handle %d; want 66 and 0", status, handle)
	}
	line := []byte("a\n\x1b[2J\x7f\x9b\u009b")
	if replaceNonPrintable(line); string(line) != "a??[2J????" {
		t.Errorf("replaceNonPrintable: %q, want %q", line, "a??[2J????")
	}
}

func TestCallsAfterFreezeAllocateNothing(t *testing.T) {
	useMocks(t)
	handle := freezeListing(t, copyListing+"fails:\n  expect.4 m+0x4 == 0x7\n")
	buffer := make([]byte, 512)
	var info imageInfo
	var described tensorInfo
	var e lastError
	var index uint32
	if _, status := tensorData(handle, 0, gen.RoleInput, 8); status != 0 {
		t.Fatal(lastText(t, handle))
	}
	for name, call := range map[string]func(){
		"run":              func() { lm_run(handle, 0) },
		"an empty run":     func() { lm_run(handle, 1) },
		"report":           func() { lastErrorOf(handle, &e, buffer) },
		"find a sequence":  func() { lm_find_sequence(handle, cString("nothing"), &index) },
		"find a tensor":    func() { lm_find_tensor(handle, cString("d"), &index) },
		"find nothing":     func() { lm_find_tensor(handle, cString("none"), &index) },
		"writeOutcomeText": func() { lm_image_info(handle, &info) },
		"tensor info":      func() { lm_tensor_info(handle, 1, &described) },
		"sequence name":    func() { sequenceName(handle, 1, buffer) },
		"input":            func() { tensorData(handle, 0, gen.RoleInput, 8) },
		"output":           func() { tensorData(handle, 2, gen.RoleOutput, 4) },
		"limit":            func() { lm_limit(handle, 0) },
		"misuse":           func() { lm_run(handle, 99) },
		"a bad handle":     func() { lm_run(99, 0) },
		"version":          func() { lm_version(new(versionInfo)) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	expect(t, "a run that fails", handle, lm_run(handle, 2), hal.ExpectFailed, "fails, command 0")
	if n := testing.AllocsPerRun(100,
		func() { lm_run(handle, 2); lastErrorOf(handle, &e, buffer) }); n != 0 {
		t.Errorf("a failed run and its report allocate %v times", n)
	}
}

// headerEnum returns the numbers of an enum in lightmetal.h, by name.
func headerEnum(t *testing.T, enum string) map[string]int {
	t.Helper()
	text, err := os.ReadFile("lightmetal.h")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\nenum "+enum+" {")
	body, _, _ = strings.Cut(body, "}")
	numbers := map[string]int{}
	for _, m := range regexp.MustCompile(`(LM_\w+) = (\d+)`).FindAllStringSubmatch(body, -1) {
		numbers[m[1]], _ = strconv.Atoi(m[2])
	}
	if len(numbers) == 0 {
		t.Fatalf("no enum %s in lightmetal.h", enum)
	}
	return numbers
}

// codeNames are the codes in the order of their numbers, with their names in lightmetal.h.
var codeNames = []struct {
	name string
	code hal.Code
}{
	{"OK", hal.OK}, {"USAGE", hal.Usage}, {"BAD_IMAGE", hal.BadImage}, {"NO_FILE", hal.NoFile},
	{"NO_DEVICE", hal.NoDevice},
	{"INTERNAL", hal.Internal}, {"DEVICE_GONE", hal.DeviceGone}, {"BUS_FAULT", hal.BusFault},
	{"IO", hal.IO},
	{"DEADLINE_PASSED", hal.DeadlinePassed}, {"EXPECT_FAILED", hal.ExpectFailed},
	{"COMPARE_FAILED", hal.CompareFailed},
	{"DENIED", hal.Denied}, {"WRONG_DEVICE", hal.WrongDevice}, {"REFUSED", hal.Refused},
	{"BAD_TENSOR", hal.BadTensor},
	{"INPUT_MISSING", hal.InputMissing}, {"DISABLED", hal.Disabled}, {"RUN_LATE", hal.FrameLate},
	{"MASTER_OFF", hal.MasterOff}, {"DMA_FAULT", hal.DMAFault},
	{"RING_UNSET", hal.RingUnset},
}

func TestNumbersOfCodesNeverChange(t *testing.T) {
	inHeader := headerEnum(t, "lm_code")
	statuses := slices.Collect(maps.Values(headerEnum(t, "lm_status")))
	for number, c := range codeNames {
		if inHeader["LM_CODE_"+c.name] != number || int(c.code) != number {
			t.Errorf("code %s must stay %d; it is %d in lightmetal.h and %d in Go", c.name, number,
				inHeader["LM_CODE_"+c.name], c.code)
		}
		if !slices.Contains(statuses, c.code.ExitStatus()) {
			t.Errorf("code %s has the exit status %d, which enum lm_status does not have", c.name,
				c.code.ExitStatus())
		}
	}
	codes := 0
	for hal.Code(codes).Error() != hal.Code(0xff).Error() {
		codes++
	}
	if codes != len(codeNames) || codes != len(inHeader) {
		t.Errorf("%d codes in hal, %d in codeNames, %d in lightmetal.h; want equal numbers", codes,
			len(codeNames), len(inHeader))
	}
}

func TestElementTypesOfHeaderAndFormatAgree(t *testing.T) {
	inHeader := headerEnum(t, "lm_dtype")
	for number, name := range gen.EnumNamesDType[1:] {
		if inHeader["LM_"+strings.ToUpper(name)] != number+1 {
			t.Errorf("type %s is %d in the format and %d in lightmetal.h", name, number+1,
				inHeader["LM_"+strings.ToUpper(name)])
		}
	}
	if len(inHeader) != len(gen.EnumNamesDType)-1 {
		t.Errorf("%d types in lightmetal.h, want %d", len(inHeader), len(gen.EnumNamesDType)-1)
	}
	if roles := headerEnum(t, "lm_role"); roles["LM_INPUT"] != int(gen.RoleInput) ||
		roles["LM_OUTPUT"] != int(gen.RoleOutput) {
		t.Errorf("roles in lightmetal.h: %v, want LM_INPUT %d and LM_OUTPUT %d", roles,
			gen.RoleInput, gen.RoleOutput)
	}
}

// structLayout returns lines with the size of a struct and the offset and size of each field, in
// the form in which testdata/host.c prints them.
func structLayout(name string, value any) (lines []string) {
	structType := reflect.TypeOf(value)
	lines = append(lines, fmt.Sprint(name, " ", structType.Size()))
	for i := range structType.NumField() {
		f := structType.Field(i)
		lines = append(lines, fmt.Sprint(name, " ", snakeCase(f.Name), " ", f.Offset, " ",
			f.Type.Size()))
	}
	return lines
}

func snakeCase(name string) string {
	return strings.ToLower(regexp.MustCompile(`([A-Z])`).ReplaceAllString(name, "_$1"))
}
