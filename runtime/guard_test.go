package runtime_test

import (
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/runtime"
	memories "lightmetal/tools/check/bench/plain"

	"golang.org/x/sys/unix"
)

// mapUnreadable maps a page without access rights, so that every access faults.
func mapUnreadable(t *testing.T) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	return memory
}

// faultyDevice is a device whose Sleep accesses memory that it must not access.
type faultyDevice struct {
	*plainDevice
	memory []byte
}

func (d *faultyDevice) Sleep(int64) { d.memory[8]++ }

// TestFaultOfNeitherFileNorDeviceIsAnInternalError: such a fault is a defect of the program, and
// must not be reported as a device that fails.
func TestFaultOfNeitherFileNorDeviceIsAnInternalError(t *testing.T) {
	skipWithoutFaultAddress(t)
	device, err := newPlainDevice(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	v := view(t, ivshmemHead+"main:\n  write.4 m+0x0 0x1\n  delay 1us\n"+
		"safe:\n  write.4 m+0x8 0x5afe\n")
	r, err := runtime.Load(v, runtime.AnyTLBWindow, &faultyDevice{device, mapUnreadable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	result := run(t, r, hal.Internal)
	if result.Command != 1 || !result.SafeRan || result.SafeSequenceCode != hal.OK ||
		result.FileTruncated {
		t.Errorf("run ends with %+v, want command 1, a successful safe, and no truncated file",
			result)
	}
}

// TestFaultOfTheRegistersOfAWindowIsABusFault removes the memory of the TLB registers, which only
// Point commands access.
func TestFaultOfTheRegistersOfAWindowIsABusFault(t *testing.T) {
	v := view(t, tlbWindowsHead+"main:\n  delay 1us\n  point a tile 1,2 address 0x100000\n"+
		"  write.4 a+0x10 0x1\n")
	memory, shrink := mapShrinkable(t, int(memories.Size(v)))
	r, err := runtime.Load(v, runtime.AnyTLBWindow, memories.Devices(v, memory)...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The registers follow the windows, as in TestPointStoresTheRegisterValuesThatLoadEncoded.
	shrink(18 << 20)
	if result := run(t, r, hal.BusFault); result.Command != 1 {
		t.Errorf("bus fault at command %d, want 1", result.Command)
	}
}

// TestPanicInACheckIsNotReportedAsATruncatedFile: what is wrong with a program must not be said of
// a file.
func TestPanicInACheckIsNotReportedAsATruncatedFile(t *testing.T) {
	skipWithoutFaultAddress(t)
	path := writeImage(t, assembleImage(t, payloadListing))
	elsewhere := mapUnreadable(t)
	var none []byte
	for what, check := range map[string]func([]byte) error{
		"panic: a defect":               func([]byte) error { panic("a defect") },
		"panic: runtime error: index":   func([]byte) error { none[3] = 1; return nil },
		"panic: runtime error: invalid": func([]byte) error { elsewhere[8] = 1; return nil },
	} {
		t.Run(what, func(t *testing.T) {
			err := openFile(t, path).Inspect(check)
			if hal.CodeOf(err) != hal.Internal || !strings.Contains(err.Error(), path+": "+what) {
				t.Errorf("Inspect: %v, want code %d and %q", err, hal.Internal, path+": "+what)
			}
		})
	}
}
