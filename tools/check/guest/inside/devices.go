package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

const devices = "/sys/bus/pci/devices"

// idsOf are the PCI functions that scenarios name.
var idsOf = map[string]string{
	"edu": "1234:11e8", "ivshmem": "1af4:1110", "nvme": "1b36:0010", "crypto": "1af4:1054",
	"cmb": "8086:5845", "wormhole": "1e52:401e", "blackhole": "1e52:b140",
}

// deviceName is a name of a device in a scenario: $edu and @edu are the first one with its ids,
// $slot8 and @slot8 the one in PCI slot 8, $bus1 and @bus1 the one on PCI bus 1. $NAME is the name
// for lmrun, by the backend of the machine, @NAME the bare address, and %NAME where its BAR 0 is in
// memory.
var deviceName = regexp.MustCompile(`[$@%][a-z]+[0-9]*\b`)

// expand replaces names of devices in a word of a scenario.
func (g *guest) expand(word string) (out string, err error) {
	out = deviceName.ReplaceAllStringFunc(word, func(name string) string {
		at, missing := addressOf(name[1:])
		if missing != nil {
			err = missing
		}
		switch name[0] {
		case '$':
			return g.backend + ":" + at
		case '%':
			bars, _ := os.ReadFile(filepath.Join(devices, at, "resource"))
			first, _, _ := strings.Cut(string(bars), " ")
			return first
		}
		return at
	})
	return out, err
}

// addressOf returns the address of the function that a scenario names.
func addressOf(name string) (string, error) {
	found, err := allAddresses(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return found[0], nil
}

// allAddresses returns those of all functions that have the ids of a name.
func allAddresses(name string) ([]string, error) {
	if slot, err := strconv.Atoi(strings.TrimPrefix(name, "slot")); err == nil {
		return []string{fmt.Sprintf("0000:00:%02x.0", slot)}, nil
	}
	if bus, err := strconv.Atoi(strings.TrimPrefix(name, "bus")); err == nil {
		return []string{fmt.Sprintf("0000:%02x:00.0", bus)}, nil
	}
	return addresses(idsOf[name])
}

// addresses returns all PCI functions with ids such as 1234:11e8, in the order of their
// addresses; none is an error.
func addresses(ids string) (found []string, err error) {
	vendor, device, _ := strings.Cut(ids, ":")
	entries, err := os.ReadDir(devices)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		v, _ := os.ReadFile(filepath.Join(devices, e.Name(), "vendor"))
		d, _ := os.ReadFile(filepath.Join(devices, e.Name(), "device"))
		if strings.TrimSpace(string(v)) == "0x"+vendor &&
			strings.TrimSpace(string(d)) == "0x"+device {
			found = append(found, e.Name())
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no PCI function %q", ids)
	}
	return found, nil
}

// ready makes devices ready for the backend of the machine: all functions that have the ids of
// the names.
func (g *guest) ready(names []string) error {
	if g.backend == "tt" || g.backend == "pci" {
		return errors.Join(reserveHugePages(8), insmod("tenstorrent.ko")) // that only tt has
	}
	if err := insmod("virtio-iommu.ko", "vfio.ko", "vfio_virqfd.ko", "vfio_iommu_type1.ko",
		"vfio-pci-core.ko", "vfio-pci.ko"); err != nil {
		return err
	}
	for _, name := range names {
		found, err := allAddresses(name)
		if err != nil {
			return err
		}
		for _, at := range found {
			if err := bind("vfio-pci", at); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

// reserveHugePages has the kernel reserve count huge pages of 2 MiB. A signal, such as Go's
// own for preemption, ends an attempt early and without an error.
func reserveHugePages(count int) error {
	const path, attempts = "/proc/sys/vm/nr_hugepages", 100
	got, want := "", strconv.Itoa(count)
	for range attempts {
		if err := os.WriteFile(path, []byte(want), 0); err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if got = strings.TrimSpace(string(text)); got == want {
			return nil
		}
	}
	return fmt.Errorf("%s: the kernel reserved %s pages of %s", path, got, want)
}

// insmod loads kernel modules from /modules, in order. A module that is not there is built into
// this kernel, or does not exist in its version.
func insmod(names ...string) error {
	for _, name := range names {
		file, err := os.Open(filepath.Join("/modules", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// bind binds a PCI function to a driver, unless it is bound to that already.
func bind(driver, address string) error {
	folder := filepath.Join(devices, address)
	owner, _ := os.Readlink(filepath.Join(folder, "driver"))
	if filepath.Base(owner) == driver {
		return nil
	}
	if err := os.WriteFile(filepath.Join(folder, "driver_override"), []byte(driver),
		0); err != nil {
		return err
	}
	if owner != "" {
		if err := os.WriteFile(filepath.Join(folder, "driver", "unbind"), []byte(address),
			0); err != nil {
			return err
		}
	}
	return os.WriteFile("/sys/bus/pci/drivers/"+driver+"/bind", []byte(address), 0)
}

// bare returns the address in the name of a device for lmrun.
func bare(device string) string {
	_, at, _ := strings.Cut(device, ":")
	return at
}

// changeCommand changes bits of a device's command register behind lmrun's back, and returns the
// register as it was.
func changeCommand(address string, clear, set byte) (before byte, err error) {
	config, err := os.OpenFile(filepath.Join(devices, address, "config"), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer config.Close()
	var command [2]byte
	if _, err := config.ReadAt(command[:], 4); err != nil {
		return 0, err
	}
	before = command[0]
	if command[0] = before&^clear | set; command[0] != before {
		_, err = config.WriteAt(command[:], 4)
	}
	return before, err
}

// awaitMaster waits until lmrun has made a device a bus master for good. It also checks that
// itself right after it did, and has the one processor between two looks of ours: thus several.
func awaitMaster(address string) error {
	const looks = 20
	seen := 0
	return waitFor(address+" becomes a bus master", func() bool {
		if before, err := changeCommand(address, 0, 0); err == nil && before&4 != 0 {
			seen++
		}
		return seen == looks
	})
}

// openBar maps 1 MiB of a BAR next to lmrun.
func openBar(address string, number int) (hal.Aperture, func(), error) {
	file, err := os.OpenFile(filepath.Join(devices, address, fmt.Sprintf("resource%d", number)),
		os.O_RDWR, 0)
	if err != nil {
		return hal.Aperture{}, nil, err
	}
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return hal.MappedAperture(mem, 0, 1<<20, -1), func() { _ = unix.Munmap(mem) }, err
}

// register is the place of a register in a scenario: DEVICE BAR OFFSET VALUE.
type register struct {
	address string
	bar     int
	offset  uint32
	value   uint64
}

func parseRegister(args []string) (r register, err error) {
	r.address = args[0]
	_, err = fmt.Sscan(strings.Join(args[1:], " "), &r.bar, &r.offset, &r.value)
	return r, err
}

// kernelLines is what the kernel logged, with <level> before each line.
func kernelLines() []string {
	text := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return []string{"inside: " + err.Error()}
	}
	return strings.SplitAfter(string(text[:n]), "\n")
}

// kernelLog is the end of that.
func kernelLog() string {
	lines := kernelLines()
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// compareFiles fails if two files differ, and removes the second, so that it is not compared
// again if nobody writes it.
func compareFiles(want, got string) error {
	a, err := os.ReadFile(want)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(got)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("%d and %d bytes, which differ", len(a), len(b))
	}
	return os.Remove(got)
}
