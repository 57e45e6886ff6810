//go:build notiles

package hal

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// memoryBackend is a backend whose BARs are ordinary memory.
type memoryBackend struct{ t *testing.T }

func (b *memoryBackend) identifyDevice() error { return nil }
func (b *memoryBackend) acquireDevice() error  { return nil }
func (b *memoryBackend) mapBarRange(_ uint8, _ bool, _, size uint64) (*Aperture, error) {
	a := MappedAperture(guardedMemory(b.t, int(size)), 0, size, -1)
	return &a, nil
}
func (b *memoryBackend) mapForDMA([]byte, bool, uint64) (uint64, error) { return 0x1000, nil }
func (b *memoryBackend) mapForPeer(*Aperture, *device) error            { return nil }

// openBoard returns a device of a board in the state after Open. A file contains its configuration
// space.
func openBoard(t *testing.T, vendor, id uint16) *device {
	header := make([]byte, 64)
	binary.LittleEndian.PutUint16(header, vendor)
	binary.LittleEndian.PutUint16(header[2:], id)
	header[configCommandOffset] = configCommandMemoryBit
	old, oldDir := syscalls, sysfsDevicesDir
	sysfsDevicesDir = t.TempDir()
	path := filepath.Join(sysfsDevicesDir, "config") // the function's address is ""
	if err := os.WriteFile(path, header, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &device{scheme: "pci"}
	d.backend = &memoryBackend{t}
	d.pciFunction.Name, d.pciFunction.Vendor, d.pciFunction.Device = "pci:test", vendor, id
	d.pciFunction.BarSizes[0] = 1 << 20
	fd, err := d.cleanups.openFile(path, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	d.config.fd = fd
	d.initFromBoard()
	syscalls.mmap = func(_ int, _ int64, length, _, _ int) ([]byte, error) {
		return make([]byte, length), nil
	}
	syscalls.munmap = func([]byte) error { return nil }
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		syscalls, sysfsDevicesDir = old, oldDir
	})
	return d
}

func TestNoTilesMapsBarsAndHostMemoryOfOtherDevices(t *testing.T) {
	d := openBoard(t, boards.Edu.Vendor, boards.Edu.Device)
	a, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4096})
	if err != nil {
		t.Fatal(err)
	}
	a.Store(8, 4, 0xcafe)
	if v, code := a.Load(8, 4); v != 0xcafe || code != OK {
		t.Errorf("loaded %#x, %v, want the stored 0xcafe", v, code)
	}
	host, err := d.Map(fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	if err != nil || host.BusAddress != 0x1000 {
		t.Errorf("host memory: bus address %#x, %v, want 0x1000", host.BusAddress, err)
	}
	if err := d.SetBusMaster(true); err != nil {
		t.Error(err)
	}
}

func TestNoTilesRejectsWindowsOfDevicesWithTiles(t *testing.T) {
	wormhole, edu := &boards.Wormhole, &boards.Edu
	for _, test := range []struct {
		name   string
		board  *boards.Board
		window fbs.Window
	}{
		{"TLB window of a Wormhole", wormhole, fbs.Window{Kind: gen.WindowKindTlb, Size: 4096}},
		{"TLB window of edu", edu, fbs.Window{Kind: gen.WindowKindTlb, Size: 4096}},
		{"host memory of a Wormhole", wormhole, fbs.Window{Kind: gen.WindowKindHost, Size: 4096}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := openBoard(t, test.board.Vendor, test.board.Device)
			_, err := d.Map(test.window)
			wantFault(t, "Map", err, Usage, "pci:test", "-tags notiles")
		})
	}
	d := openBoard(t, edu.Vendor, edu.Device)
	var a Aperture
	if _, _, code := d.EncodePoint(&a, fbs.TileRoute{}, 0, &fbs.Command{}); code != Refused {
		t.Errorf("EncodePoint: %v, want %v", code, Refused)
	}
	if code := d.ProgramWindow(&a, fbs.TileRoute{}, 0); code != Refused {
		t.Errorf("ProgramWindow: %v, want %v", code, Refused)
	}
}

// TestNoTilesKnowsBoardsByTheirIDs checks that a program without tiles still recognizes the boards
// with tiles, but has no rules for them.
func TestNoTilesKnowsBoardsByTheirIDs(t *testing.T) {
	for _, board := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		known := boards.FindByID(board.Vendor, board.Device)
		if known == nil || known.Name != board.Name || known.TLB == nil || len(known.Rules) > 0 {
			t.Errorf("%s: found the board %+v, want its name, a TLB and no rules", board.Name,
				known)
		}
	}
}

func TestNoTilesNames(t *testing.T) {
	_, err := Open("tt:/dev/tenstorrent/0")
	wantFault(t, "tt", err, Usage, "unknown device")
	found := false
	for _, name := range []string{"pci:1234:11e8", "vfio:1234:11e8"} {
		_, err := ParseDeviceName(name)
		found = found || err == nil
	}
	if !found {
		t.Error("the program has neither the backend pci nor the backend vfio")
	}
}
