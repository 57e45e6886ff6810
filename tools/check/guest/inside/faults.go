package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

func init() {
	scenarios["truncate"] = truncateUnderMapping
	scenarios["decoding-off"] = decodingOff
	scenarios["narrow"] = narrowAccess
	scenarios["break-seal"] = breakSeal
}

// bar maps a BAR beside lmrun.
func bar(ids string, number int) (hal.Aperture, string, error) {
	at, err := address(ids)
	if err != nil {
		return hal.Aperture{}, "", err
	}
	file, err := os.OpenFile(filepath.Join(devices, at, fmt.Sprintf("resource%d", number)),
		os.O_RDWR, 0)
	if err != nil {
		return hal.Aperture{}, "", err
	}
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return hal.MappedAperture(mem, 0, 1<<20, -1), filepath.Join(devices, at), err
}

// await looks at a register until lmrun has made it this value.
func await(a *hal.Aperture, offset, want uint64) bool {
	for end := time.Now().Add(runLimit); time.Now().Before(end); {
		if got, _ := a.Load(uint32(offset), 4); got == want {
			return true
		}
	}
	fmt.Printf("inside: the register at 0x%x never became 0x%x\n", offset, want)
	return false
}

// ended waits for a program and wants an exit status.
func ended(c *exec.Cmd, want int) int {
	if got := finish(c); got != want {
		fmt.Printf("inside: exit %d, want %d\n", got, want)
		return 1
	}
	return 0
}

// truncateUnderMapping cuts an image short while lmrun carries it out: it
// stores 1 at the start of the shared memory, waits for a 2 there, and copies
// payload that is no longer in the file.
func truncateUnderMapping([]string) int {
	const path = "/tmp/image.lmb"
	data, err := os.ReadFile("/image.lmb")
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	// lmrun switches memory decoding on, and owns the device from then on.
	c, err := spawn("/lmrun", "-device", "pci:1af4:1110", path)
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	a, _, err := bar("1af4:1110", 2)
	if err != nil || !await(&a, 0, 1) {
		fmt.Println("inside:", err)
		return 1
	}
	if err := os.Truncate(path, 0); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	a.Store(0, 4, 2)
	if ended(c, hal.IO.ExitStatus()) != 0 {
		return 1
	}
	if got, _ := a.Load(4, 4); got != 0x5afe {
		fmt.Printf("inside: the sequence safe left 0x%x\n", got)
		return 1
	}
	return 0
}

// decodingOff switches memory decoding off while lmrun polls, and on again.
func decodingOff([]string) int {
	c, err := spawn("/lmrun", "-device", "pci:1234:11e8", "/image.lmb")
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	a, folder, err := bar("1234:11e8", 0)
	// The register at 4 gives the complement of what was stored.
	if err != nil || !await(&a, 4, 0xfffffffe) {
		fmt.Println("inside:", err)
		return 1
	}
	config, err := os.OpenFile(filepath.Join(folder, "config"), os.O_RDWR, 0)
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	defer config.Close()
	if _, err := config.WriteAt([]byte{0, 0}, 4); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	if ended(c, hal.DeviceGone.ExitStatus()) != 0 {
		return 1
	}
	if _, err := config.WriteAt([]byte{2, 0}, 4); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	if !expect(0, "done", "/lmrun", "-device", "pci:1234:11e8", "-sequence", "again",
		"/image.lmb") {
		return 1
	}
	return 0
}

// masked is a device under ids that no board has, so that no rule of a board
// keeps an access from it.
type masked struct{ hal.Device }

func (m masked) Identity() hal.Identity {
	i := m.Device.Identity()
	i.Vendor, i.Device = 0xffee, 0xffee
	return i
}

// eduImage opens edu and verifies the image for it.
func eduImage() (hal.Device, *fbs.View, error) {
	device, err := hal.Open("pci:1234:11e8")
	if err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile("/image.lmb")
	if err != nil {
		return nil, nil, err
	}
	view, err := fbs.Verify(data)
	return device, view, err
}

// narrowAccess makes an access that edu answers with a bus error, and then one
// that it takes.
func narrowAccess([]string) int {
	device, view, err := eduImage()
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	for name, want := range map[string]hal.Code{"narrow-load": hal.BusFault,
		"narrow-store": hal.BusFault, "main": hal.OK} {
		r, err := runtime.Load(view, runtime.AnySlot, masked{device})
		if err != nil {
			fmt.Println("inside:", err)
			return 1
		}
		if result := r.Run(view.SequenceByName(name)); result.Code != want ||
			want != hal.OK && (!result.SafeRan || result.Safe != hal.OK) {
			fmt.Printf("inside: %s: %+v\n", name, result)
			return 1
		}
	}
	return 0
}

// breakSeal runs this program again, sealed, and has it do what no sealed
// process may. Without an argument it goes through all of it.
func breakSeal(args []string) int {
	if len(args) == 0 {
		const killed = 128 + int(unix.SIGSYS)
		for what, want := range map[string]int{"nothing": 0, "open": killed, "map": killed,
			"heap": killed} {
			if output, exit := run("/init", "break-seal", what); exit != want {
				fmt.Printf("inside: %s under the seal: exit %d, want %d: %s\n", what, exit, want,
					output)
				return 1
			}
		}
		return 0
	}
	device, view, err := eduImage()
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	r, err := runtime.Load(view, runtime.AnySlot, device)
	if err == nil {
		runtime.DedicateProcess()
		err = r.Freeze()
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	if err := runtime.Seal(); err != nil {
		return 1
	}
	switch args[0] {
	case "open":
		_, _ = unix.Open("/proc/self/status", unix.O_RDONLY, 0)
	case "map":
		_, _ = unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	case "heap":
		hoard := make([]byte, 256<<20)
		fmt.Println(&hoard[0])
	}
	unix.Exit(0)
	return 0
}
