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

// C's types of the calls, which have these names in Go alone: tests cannot use cgo.
type (
	lastError   = _Ctype_struct_lm_error
	imageInfo   = _Ctype_struct_lm_image
	tensorInfo  = _Ctype_struct_lm_tensor
	versionInfo = _Ctype_struct_lm_version
	size        = _Ctype_size_t
)

const anyWindow = -1

// text is a string of C's.
func text(text string) *_Ctype_char { return start(append([]byte(text), 0)) }

func start(buffer []byte) *_Ctype_char {
	return (*_Ctype_char)(unsafe.Pointer(unsafe.SliceData(buffer)))
}

func openMemory(data []byte, handle *int32) int32 {
	return lm_open_memory(_Ctype_lm_bytes(unsafe.SliceData(data)), size(len(data)), handle)
}

func load(handle int32, names []string, window int32) int32 {
	var list []*_Ctype_char
	for _, name := range names {
		list = append(list, text(name))
	}
	return lm_load(handle, unsafe.SliceData(list), uint32(len(list)), window)
}

func sequenceName(handle int32, sequence uint32, name []byte) int32 {
	return lm_sequence_name(handle, sequence, start(name), size(len(name)))
}

// tensor returns the bytes of an input or output.
func tensor(handle int32, index uint32, role gen.Role, bytes size) (data []byte, status int32) {
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

func lastErrorOf(handle int32, info *lastError, buffer []byte) int32 {
	return lm_last_error(handle, info, start(buffer), size(len(buffer)))
}

// encoded assembles a listing for ivshmem, which is plain memory.
func encoded(t testing.TB, source string) []byte {
	t.Helper()
	return lmbtest.File(t,
		"lightmetal 1\ntarget ivshmem 1af4:1110 bar2 0x100000\n"+
			"window m bar2 offset 0x0 size 0x100000\n"+source)
}

func written(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, encoded(t, source), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// stand replaces devices by mocks and returns the one opened last.
func stand(t testing.TB) func() *mock.Device {
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

// openedImage opens an image for one test.
func openedImage(t testing.TB, source string) int32 {
	t.Helper()
	var handle int32
	if status := lm_open(text(written(t, source)), &handle); status != 0 {
		t.Fatal(told(t, 0))
	}
	t.Cleanup(func() { lm_close(handle) })
	return handle
}

// frozenImage is ready to run.
func frozenImage(t testing.TB, source string) int32 {
	t.Helper()
	handle := openedImage(t, source)
	if load(handle, nil, anyWindow) != 0 || lm_freeze(handle) != 0 {
		t.Fatal(told(t, handle))
	}
	return handle
}

func told(t testing.TB, handle int32) string {
	t.Helper()
	text := make([]byte, 512)
	if status := lastErrorOf(handle, nil, text); status != 0 {
		t.Fatalf("no report: status %d", status)
	}
	return string(text[:strings.IndexByte(string(text), 0)])
}

// wants compares a status, the code and the text with the expected ones.
func wants(t *testing.T, what string, handle, status int32, want hal.Code, says string) {
	t.Helper()
	var e lastError
	if got := lastErrorOf(handle, &e, nil); got != 0 {
		t.Fatalf("%s: no report: status %d", what, got)
	}
	if status != int32(want.ExitStatus()) || int32(e.status) != status ||
		int32(e.code) != int32(want) ||
		!strings.Contains(told(t, handle), says) {
		t.Errorf("%s: status %d, %+v, %q; want %v and %q", what, status, e, told(t, handle), want,
			says)
	}
}

const sum = `tensor a input uint32[2]
tensor b input uint32[4x2] = pattern 1 size 32
tensor d output uint32[]
main:
  copy.4 m+0x0 <- a[:]
  copy.4 m+0x100 <- b[:]
  copy.4 d[:] <- m+0x0
nothing:
`

func TestFramesGoInAndOut(t *testing.T) {
	stand(t)
	handle := frozenImage(t, sum)
	var in, out, main uint32
	if lm_find_tensor(handle, text("a"), &in)|lm_find_tensor(handle, text("d"), &out)|
		lm_find_sequence(handle, text("main"), &main) != 0 {
		t.Fatal(told(t, handle))
	}
	wants(t, "run without input", handle, lm_run(handle, main), hal.InputMissing, "call lm_input")
	lm_close(handle)

	handle = frozenImage(t, sum)
	a, status1 := tensor(handle, in, gen.RoleInput, 8)
	d, status2 := tensor(handle, out, gen.RoleOutput, 4)
	if status1|status2 != 0 {
		t.Fatal(told(t, handle))
	}
	for frame := range byte(10) {
		a[0] = frame
		if status := lm_run(handle, main); status != 0 || d[0] != frame {
			t.Fatalf("frame %d: status %d, %s, output %d", frame, status, told(t, handle), d[0])
		}
		wants(t, "a good run", handle, 0, hal.OK, "done")
	}
}

func TestImageInfoDescribesTheImage(t *testing.T) {
	handle := openedImage(t, sum)
	var info imageInfo
	if lm_image_info(handle, &info) != 0 ||
		info != (imageInfo{arena_bytes: 192, payload_bytes: 32, devices: 1, sequences: 2,
			tensors: 3, commands: 5}) {
		t.Errorf("%+v", info)
	}
	var b tensorInfo
	if lm_tensor_info(handle, 1, &b) != 0 {
		t.Fatal(told(t, handle))
	}
	want := tensorInfo{size: 32, role: _Ctype_uint32_t(gen.RoleInput),
		dtype: _Ctype_uint32_t(gen.DTypeUint32), has_data: 1, dims: 2,
		shape: [8]_Ctype_uint32_t{4, 2}}
	want.name[0] = 'b'
	if b != want {
		t.Errorf("got %+v, want %+v", b, want)
	}
	name := make([]byte, 5)
	if sequenceName(handle, 1, name) != 0 || string(name) != "noth\x00" {
		t.Errorf("%q", name)
	}
	data, status := tensor(handle, 1, gen.RoleInput, 32)
	wants(t, "input before lm_load", handle, status, hal.Usage, "call lm_load before")
	if data != nil {
		t.Error("there is an input before lm_load")
	}
}

// TestLongestRaisesTheTimeLimitOfAnImage: an image that may take two hours is loaded once that
// is allowed, and not with a second less. Its 800 delays, 2 calls and 3 ends count
// 1 us each, plus the time of the delays.
func TestLongestRaisesTheTimeLimitOfAnImage(t *testing.T) {
	stand(t)
	handle := openedImage(t, "main:\n"+strings.Repeat("  call hour\n", 2)+"hour:\n"+
		strings.Repeat("  delay 10s\n", 400))
	wants(t, "more than an hour", handle, load(handle, nil, anyWindow), hal.BadImage,
		"may take 8000 s 805 us, but the limit is 3600 s 0 us; --longest or lm_longest raises "+
			"the limit")
	wants(t, "a second less", handle, lm_longest(handle, 7_999e9), hal.OK, "done")
	wants(t, "still too long", handle, load(handle, nil, anyWindow), hal.BadImage,
		"but the limit is 7999 s 0 us")
	wants(t, "long enough", handle, lm_longest(handle, 8_000_000_805_000), hal.OK, "done")
	wants(t, "loaded", handle, load(handle, nil, anyWindow), hal.OK, "done")
}

func TestInputStartsWithItsDefaultData(t *testing.T) {
	stand(t)
	handle := frozenImage(t, sum)
	data, _ := tensor(handle, 1, gen.RoleInput, 32)
	if len(data) != 32 || string(data[:4]) != "\x21\x20\x04\x00" {
		t.Errorf("%x", data)
	}
}

// card is a handle of the only function that a machine has.
type card struct{ *mock.Device }

func (c card) Identity() hal.Identity {
	identity := c.Device.Identity()
	identity.Address = "0000:01:00.0"
	return identity
}

// TestTwoTargetsNeedTwoFunctions loads an image for two equal devices where one
// is there: by default, and by name, it is opened for both targets.
func TestTwoTargetsNeedTwoFunctions(t *testing.T) {
	before := openDevice
	openDevice = func(string) (hal.Device, error) { return card{mock.New(&boards.Ivshmem)}, nil }
	t.Cleanup(func() { openDevice = before })
	file := lmbtest.File(t,
		"lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\ntarget ivshmem 1af4:1110 bar2 1MiB\n"+
			"window m bar2 offset 0 size 1MiB\nmain:\n  write.1 m+0x0 0x1\n")
	var handle int32
	if status := openMemory(file, &handle); status != 0 {
		t.Fatal(told(t, 0))
	}
	t.Cleanup(func() { lm_close(handle) })
	const want = "devices 0 and 1 are both 0000:01:00.0"
	wants(t, "default names", handle, load(handle, nil, anyWindow), hal.Usage, want)
	names := []string{"pci:1af4:1110", "pci:0000:01:00.0"}
	wants(t, "two names", handle, load(handle, names, anyWindow), hal.Usage, want)
}

func TestMisuseIsAnError(t *testing.T) {
	stand(t)
	handle := openedImage(t, sum)
	outOfOrder := map[string]int32{
		"run": lm_run(handle, 0), "freeze": lm_freeze(handle), "seal": lm_seal(handle),
		"limit": lm_limit(handle, 1), "longest without image": lm_longest(0, 1),
	}
	for name, status := range outOfOrder {
		if status != 64 {
			t.Errorf("%s too early: status %d", name, status)
		}
	}
	if old := []byte("what was there"); lastErrorOf(handle+1, nil, old) != 64 || old[0] != 0 {
		t.Errorf("no report, and the text is %q", old)
	}
	wants(t, "a window that is none", handle, load(handle, nil, -2), hal.Usage, "window must be")
	wants(t, "two devices", handle, load(handle, []string{"", ""}, anyWindow), hal.Usage,
		"count must be")
	wants(t, "no such device", handle, load(handle, []string{"pci:ffff:ffff"}, anyWindow),
		hal.NoDevice, "pci:ffff:ffff: no such device")
	wants(t, "a variable that is not set", handle, load(handle, []string{""}, anyWindow), hal.Usage,
		"device name is empty")
	wants(t, "loaded after failures", handle, load(handle, nil, anyWindow), hal.OK, "done")
	wants(t, "loaded twice", handle, load(handle, nil, anyWindow), hal.Usage, "already loaded")
	wants(t, "longest too late", handle, lm_longest(handle, 1), hal.Usage, "before lm_load")
	wants(t, "not frozen", handle, lm_run(handle, 0), hal.Usage, "call lm_freeze before")
	wants(t, "frozen", handle, lm_freeze(handle), hal.OK, "done")
	wants(t, "frozen twice", handle, lm_freeze(handle), hal.Usage, "already frozen")

	_, status := tensor(handle, 3, gen.RoleInput, 8)
	wants(t, "no tensor 3", handle, status, hal.Usage, "no tensor with this index")
	_, status = tensor(handle, 0, gen.RoleInput, 4)
	wants(t, "half the input", handle, status, hal.BadTensor, "size must be the size of the tensor")
	_, status = tensor(handle, 0, gen.RoleOutput, 8)
	wants(t, "input as output", handle, status, hal.Usage, "is an input, not an output")
	_, status = tensor(handle, 2, gen.RoleInput, 4)
	wants(t, "output as input", handle, status, hal.Usage, "is an output, not an input")
	wants(t, "no sequence 2", handle, lm_run(handle, 2), hal.Usage, "no sequence with this index")
	wants(t, "no sequence 2 by name", handle, sequenceName(handle, 2, make([]byte, 9)), hal.Usage,
		"no sequence with this index")
	wants(t, "no name", handle, sequenceName(handle, 0, nil), hal.Usage, "name must not be NULL")
	wants(t, "no tensor info 3", handle, lm_tensor_info(handle, 3, new(tensorInfo)), hal.Usage,
		"no tensor with this index")
	wants(t, "nowhere for tensor info", handle, lm_tensor_info(handle, 0, nil), hal.Usage, "NULL")
	wants(t, "nowhere for image info", handle, lm_image_info(handle, nil), hal.Usage, "NULL")
	wants(t, "nowhere for the index", handle, lm_find_tensor(handle, text("a"), nil), hal.Usage,
		"NULL")
	wants(t, "no such name", handle, lm_find_sequence(handle, text("a"), new(uint32)), hal.Usage,
		"no sequence or tensor with this name")
	wants(t, "negative limit", handle, lm_limit(handle, 1<<63), hal.Usage, "below 2^63 ns")
	wants(t, "nowhere for the handle", 0, lm_open(text("x"), nil), hal.Usage, "NULL")
	wants(t, "nowhere for the version", 0, lm_version(nil), hal.Usage, "NULL")
	wants(t, "memory that is no image", 0, openMemory(make([]byte, 80), new(int32)), hal.BadImage,
		"identifier")
	wants(t, "no memory at all", 0, openMemory([]byte{}, new(int32)), hal.BadImage,
		"the file is empty")
}

func TestHandleOfAClosedImageIsNeverReused(t *testing.T) {
	seen := map[int32]bool{}
	path := written(t, sum)
	for range 100 {
		var handle int32
		if lm_open(text(path), &handle) != 0 || handle <= 0 || seen[handle] {
			t.Fatalf("handle %d, %s", handle, told(t, 0))
		}
		seen[handle] = true
		if status := lm_close(handle); status != 0 {
			t.Fatal(status)
		}
		wants(t, "closed twice", 0, lm_close(handle), hal.Usage, "was closed, or never opened")
		wants(t, "used after close", 0, lm_run(handle, 0), hal.Usage, "was closed, or never opened")
		if lastErrorOf(handle, nil, nil) != 64 {
			t.Fatal("a closed image has a last error")
		}
	}
	for _, handle := range []int32{-1, -1 << 31, 0, 32, 17, 1<<31 - 1} {
		wants(t, "handle "+strconv.Itoa(int(handle)), 0, lm_run(handle, 0), hal.Usage, "")
		if lm_image_info(handle, new(imageInfo)) != 64 {
			t.Errorf("handle %d is an image", handle)
		}
	}
}

func TestMaximumNumberOfImagesCanBeOpen(t *testing.T) {
	path, file := written(t, sum), encoded(t, sum)
	var handles [imagesMax + 1]int32
	for i := range imagesMax {
		status := int32(0)
		if i%2 == 0 {
			status = lm_open(text(path), &handles[i])
		} else {
			status = openMemory(file, &handles[i])
		}
		if status != 0 {
			t.Fatalf("image %d: %s", i, told(t, 0))
		}
	}
	wants(t, "one more", 0, lm_open(text(path), &handles[imagesMax]), hal.Usage, "close one")
	for _, handle := range handles[:imagesMax] {
		if status := lm_close(handle); status != 0 {
			t.Error(status)
		}
	}
	if mapped, _ := os.ReadFile("/proc/self/maps"); strings.Contains(string(mapped), path) {
		t.Error("a closed image is still mapped")
	}
}

func TestConcurrentCallOnAnImageIsAnError(t *testing.T) {
	stand(t)
	handle := frozenImage(t, sum)
	im, _ := acquireImage(handle)
	for name, call := range map[string]func() int32{
		"run":   func() int32 { return lm_run(handle, 0) },
		"close": func() int32 { return lm_close(handle) },
		"info":  func() int32 { return lm_image_info(handle, new(imageInfo)) },
	} {
		wants(t, name, 0, call(), hal.Usage, "another thread is in a call")
	}
	if lastErrorOf(handle, nil, nil) != 64 {
		t.Error("the report was given while another call was under way")
	}
	im.busy.Store(false)
	wants(t, "afterwards", handle, lm_find_tensor(handle, text("a"), new(uint32)), hal.OK, "done")
}

func TestMissingProcAtTheFirstCallIsAPermanentError(t *testing.T) {
	isProcFSChecked.Store(true)
	isProcFSMissing.Store(true)
	defer isProcFSMissing.Store(false)
	wants(t, "a blind process", 0, lm_open(text(written(t, sum)), new(int32)), hal.NoFile,
		"/proc was not mounted at the first call")
}

// master is a device that reaches memory, and remembers what was asked of it.
type master struct {
	hal.Device
	calls *[]string
}

func (m master) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (m master) Diagnose() hal.Code                               { return hal.OK }
func (m master) SetBusMaster(on bool) error {
	*m.calls = append(*m.calls, fmt.Sprint("master ", on))
	return nil
}

func (m master) Close() error {
	*m.calls = append(*m.calls, "close")
	return hal.IO
}

func TestFailedLoadClosesTheDevicesThatItOpened(t *testing.T) {
	stand(t)
	var calls []string
	openDevice = func(name string) (hal.Device, error) {
		return master{mock.New(&boards.Edu), &calls}, nil // the image is for another
	}
	handle := openedImage(t, sum)
	wants(t, "another device", handle, load(handle, nil, anyWindow), hal.WrongDevice,
		"it is for ivshmem")
	if fmt.Sprint(calls) != "[close]" {
		t.Errorf("it made the calls %v", calls)
	}
}

func TestSealedProcessStopsDevicesAndOpensNothing(t *testing.T) {
	stand(t)
	var calls []string
	plain := openDevice
	openDevice = func(name string) (hal.Device, error) {
		device, err := plain(name)
		return master{device, &calls}, err
	}
	if status := lm_close(frozenImage(t, sum)); status != int32(hal.IO.ExitStatus()) ||
		fmt.Sprint(calls) != "[master false close]" {
		t.Errorf("closing gave status %d and made the calls %v", status, calls)
	}
	handle, other := frozenImage(t, sum), openedImage(t, sum)
	sealed.Store(true)
	defer sealed.Store(false)
	wants(t, "open", 0, lm_open(text(written(t, sum)), new(int32)), hal.Denied, "sealed")
	wants(t, "load", other, load(other, nil, anyWindow), hal.Denied, "sealed")
	wants(t, "seal again", handle, lm_seal(handle), hal.Denied, "sealed")
	calls = nil
	if status := lm_close(handle); status != 0 || fmt.Sprint(calls) != "[master false]" {
		t.Errorf("closing under the seal gave status %d and made the calls %v", status, calls)
	}
}

func TestOpenSignedRejectsAnUnsignedImage(t *testing.T) {
	handle := int32(0)
	keys := strings.Repeat("ab", 32)
	wants(t, "unsigned", 0, lm_open_signed(text(written(t, sum)), text(keys), &handle), hal.Denied,
		"sign")
	if handle != 0 {
		t.Error("it was opened")
	}
}

func TestPanicIsReturnedAsAStatus(t *testing.T) {
	stand(t)
	handle := openedImage(t, sum)
	wants(t, "a device that panics", handle, load(handle, []string{"panic"}, anyWindow),
		hal.Internal, "panic: a device that panics")
	for cause, want := range map[any]string{"text": "text", error(hal.BusFault): "bus fault",
		7: "panic with a value of unknown type"} {
		wants(t, want, handle, withImage(handle, stageOpened,
			func(*image) outcome { panic(cause) }), hal.Internal, "panic: "+want)
	}
	wants(t, "an index out of range", handle,
		withImage(handle, stageOpened,
			func(im *image) outcome { _ = im.devices[3]; return outcome{} }), hal.Internal,
		"index out of range")
	wants(t, "loaded all the same", handle, load(handle, nil, anyWindow), hal.OK, "")
}

func TestFailedRunReportsCommandAndValues(t *testing.T) {
	last := stand(t)
	source := func(command string) string {
		return "main:\n  write.4 m+0x0 0x5\n  " + command + "\nsafe:\n  write.4 m+0x8 0x1\n"
	}
	for _, test := range []struct {
		code    hal.Code
		command string
		e       lastError
		says    string
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
		t.Run(test.says, func(t *testing.T) {
			handle := frozenImage(t, source(test.command))
			wants(t, test.command, handle, lm_run(handle, 0), test.code, test.says)
			var e lastError
			lastErrorOf(handle, &e, nil)
			test.e.status, test.e.code = _Ctype_int32_t(test.code.ExitStatus()),
				_Ctype_int32_t(test.code)
			// a comparison has no mask for the caller
			e.mask, test.e.mask = e.mask&test.e.mask, e.mask&test.e.mask
			if e != test.e {
				t.Errorf("%s: got %+v, want %+v", test.command, e, test.e)
			}
			if told(t, handle); last().Operations() == 0 {
				t.Error("the device was not touched")
			}
			wants(t, "disabled", handle, lm_run(handle, 0), hal.Disabled, "disabled")
			lm_close(handle)
		})
	}

	handle := frozenImage(t, source("expect.4 m+0x0 == 0x7 else ignore"))
	wants(t, "ignored", handle, lm_run(handle, 0), hal.OK, "done")
	var e lastError
	if lastErrorOf(handle, &e, nil); e != (lastError{command: -1, safe: -1, ignored: 1}) {
		t.Errorf("%+v", e)
	}
	last().Inject(mock.Fault{Kind: mock.BusFault, Operation: last().Operations() + 2})
	wants(t, "bus fault", handle, lm_run(handle, 0), hal.BusFault,
		"bus fault: main, command 1: expect.4 w0+0x0 == 0x7; then sequence safe ran: done")
	lm_close(handle)

	handle = frozenImage(t, source("expect.4 m+0x0 == 0x5"))
	last().Inject(mock.Fault{Kind: mock.AllOnes, Operation: 1})
	wants(t, "gone", handle, lm_run(handle, 0), hal.DeviceGone,
		"device gone: main, command 1: expect.4 w0+0x0 == 0x5")
	lm_close(handle)

	handle = frozenImage(t, source("delay 10ms"))
	wants(t, "limited", handle, lm_limit(handle, 1000), hal.OK, "")
	wants(t, "late", handle, lm_run(handle, 0), hal.FrameLate, "longer than its limit")
}

func TestErrorTextIsTruncatedToTheBuffer(t *testing.T) {
	var handle int32
	status := lm_open(text("/nowhere"), &handle)
	const whole = "no such file: /nowhere"
	for size := range len(whole) + 3 {
		buffer := []byte(strings.Repeat("x", size+4))
		if lastErrorOf(0, nil, buffer[:size]) != 0 {
			t.Fatal("no report")
		}
		want := whole[:max(0, min(size-1, len(whole)))] + "\x00"
		if size == 0 {
			want = ""
		}
		if string(buffer[:len(want)]) != want || string(buffer[size:]) != "xxxx" {
			t.Errorf("%d bytes: %q", size, buffer)
		}
	}
	if status != 66 || handle != 0 {
		t.Errorf("status %d, handle %d", status, handle)
	}
	line := []byte("a\n\x1b[2J\x7f\x9b\u009b")
	if replaceNonPrintable(line); string(line) != "a??[2J????" {
		t.Errorf("%q", line)
	}
}

func TestCallsAfterFreezeAllocateNothing(t *testing.T) {
	stand(t)
	handle := frozenImage(t, sum+"fails:\n  expect.4 m+0x4 == 0x7\n")
	buffer := make([]byte, 512)
	var info imageInfo
	var described tensorInfo
	var e lastError
	var index uint32
	if _, status := tensor(handle, 0, gen.RoleInput, 8); status != 0 {
		t.Fatal(told(t, handle))
	}
	for name, call := range map[string]func(){
		"run":              func() { lm_run(handle, 0) },
		"an empty run":     func() { lm_run(handle, 1) },
		"report":           func() { lastErrorOf(handle, &e, buffer) },
		"find a sequence":  func() { lm_find_sequence(handle, text("nothing"), &index) },
		"find a tensor":    func() { lm_find_tensor(handle, text("d"), &index) },
		"find nothing":     func() { lm_find_tensor(handle, text("none"), &index) },
		"writeOutcomeText": func() { lm_image_info(handle, &info) },
		"tensor info":      func() { lm_tensor_info(handle, 1, &described) },
		"sequence name":    func() { sequenceName(handle, 1, buffer) },
		"input":            func() { tensor(handle, 0, gen.RoleInput, 8) },
		"output":           func() { tensor(handle, 2, gen.RoleOutput, 4) },
		"limit":            func() { lm_limit(handle, 0) },
		"misuse":           func() { lm_run(handle, 99) },
		"a bad handle":     func() { lm_run(99, 0) },
		"version":          func() { lm_version(new(versionInfo)) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	wants(t, "the last of all", handle, lm_run(handle, 2), hal.ExpectFailed, "fails, command 0")
	if n := testing.AllocsPerRun(100,
		func() { lm_run(handle, 2); lastErrorOf(handle, &e, buffer) }); n != 0 {
		t.Errorf("a failed run and its report allocate %v times", n)
	}
}

// header returns the numbers of an enum in lightmetal.h, by name.
func header(t *testing.T, enum string) map[string]int {
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

// codeNames are the names in lightmetal.h, in the order of their numbers, and
// their codes.
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
}

func TestNumbersOfCodesNeverChange(t *testing.T) {
	inHeader, statuses := header(t, "lm_code"), slices.Collect(maps.Values(header(t, "lm_status")))
	for number, c := range codeNames {
		if inHeader["LM_CODE_"+c.name] != number || int(c.code) != number {
			t.Errorf("%s should be %d for ever: lightmetal.h has %d, Go %d", c.name, number,
				inHeader["LM_CODE_"+c.name], c.code)
		}
		if !slices.Contains(statuses, c.code.ExitStatus()) {
			t.Errorf("%s has status %d, which lightmetal.h does not have", c.name,
				c.code.ExitStatus())
		}
	}
	codes := 0
	for hal.Code(codes).Error() != hal.Code(0xff).Error() {
		codes++
	}
	if codes != len(codeNames) || codes != len(inHeader) {
		t.Errorf("%d codes in hal, %d here, %d in lightmetal.h", codes, len(codeNames),
			len(inHeader))
	}
}

func TestElementTypesOfHeaderAndFormatAgree(t *testing.T) {
	inHeader := header(t, "lm_dtype")
	for number, name := range gen.EnumNamesDType[1:] {
		if inHeader["LM_"+strings.ToUpper(name)] != number+1 {
			t.Errorf("%s is %d in the file and %d in lightmetal.h", name, number+1,
				inHeader["LM_"+strings.ToUpper(name)])
		}
	}
	if len(inHeader) != len(gen.EnumNamesDType)-1 {
		t.Errorf("%d types in lightmetal.h", len(inHeader))
	}
	if roles := header(t, "lm_role"); roles["LM_INPUT"] != int(gen.RoleInput) ||
		roles["LM_OUTPUT"] != int(gen.RoleOutput) {
		t.Errorf("roles %v", roles)
	}
}

// layout is the size of a struct and the offset and size of each field, in
// order, as testdata/host.c prints them.
func layout(name string, value any) (lines []string) {
	of := reflect.TypeOf(value)
	lines = append(lines, fmt.Sprint(name, " ", of.Size()))
	for i := range of.NumField() {
		f := of.Field(i)
		lines = append(lines, fmt.Sprint(name, " ", snake(f.Name), " ", f.Offset, " ",
			f.Type.Size()))
	}
	return lines
}

// snake is a Go name as C writes it.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([A-Z])`).ReplaceAllString(name, "_$1"))
}
