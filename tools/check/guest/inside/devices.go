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

const devicesDir = "/sys/bus/pci/devices"

// deviceIDs are the PCI ids of the devices that scenarios name.
var deviceIDs = map[string]string{
	"edu": "1234:11e8", "ivshmem": "1af4:1110", "nvme": "1b36:0010", "crypto": "1af4:1054",
	"cmb": "8086:5845", "wormhole": "1e52:401e", "blackhole": "1e52:b140",
}

// deviceName matches the name of a device in a scenario. edu is the first function with the ids of
// edu, slot8 the function in PCI slot 8, and bus1 the function on PCI bus 1. A prefix selects the
// result: $edu is the name for lmrun, with the backend of the machine, @edu the bare PCI address,
// and %edu the address of BAR 0.
var deviceName = regexp.MustCompile(`[$@%][a-z]+[0-9]*\b`)

// expandNames replaces the names of devices in a word of a scenario.
func (g *guest) expandNames(word string) (out string, err error) {
	out = deviceName.ReplaceAllStringFunc(word, func(name string) string {
		at, missing := firstAddress(name[1:])
		if missing != nil {
			err = missing
		}
		switch name[0] {
		case '$':
			return g.backend + ":" + at
		case '%':
			bars, _ := os.ReadFile(filepath.Join(devicesDir, at, "resource"))
			first, _, _ := strings.Cut(string(bars), " ")
			return first
		}
		return at
	})
	return out, err
}

// firstAddress returns the PCI address of the first function that a scenario's name matches.
func firstAddress(name string) (string, error) {
	found, err := allAddresses(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return found[0], nil
}

// allAddresses returns the PCI addresses of all functions that the name matches.
func allAddresses(name string) ([]string, error) {
	if slot, err := strconv.Atoi(strings.TrimPrefix(name, "slot")); err == nil {
		return []string{fmt.Sprintf("0000:00:%02x.0", slot)}, nil
	}
	if bus, err := strconv.Atoi(strings.TrimPrefix(name, "bus")); err == nil {
		return []string{fmt.Sprintf("0000:%02x:00.0", bus)}, nil
	}
	return addressesByID(deviceIDs[name])
}

// addressesByID returns the PCI addresses of all functions with ids such as 1234:11e8, in ascending
// order. It is an error if there is none.
func addressesByID(ids string) (found []string, err error) {
	vendor, device, _ := strings.Cut(ids, ":")
	entries, err := os.ReadDir(devicesDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		v, _ := os.ReadFile(filepath.Join(devicesDir, e.Name(), "vendor"))
		d, _ := os.ReadFile(filepath.Join(devicesDir, e.Name(), "device"))
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

// prepareDevices prepares all functions that the names match for the backend of the machine.
func (g *guest) prepareDevices(names []string) error {
	if g.backend == "tt" || g.backend == "pci" {
		// only the machine for tt has this module
		return errors.Join(reserveHugePages(8), insmod("tenstorrent.ko"))
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

// reserveHugePages makes the kernel reserve count huge pages of 2 MiB. A signal, such as those of
// Go for preemption, ends a write early and without an error, so there are several attempts.
func reserveHugePages(count int) error {
	const path, attempts = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 100
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

// insmod loads kernel modules from /modules, in order. A missing module is skipped: it is built
// into this kernel, or does not exist in its version.
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

// bind binds a PCI function to a driver, unless it is already bound to it.
func bind(driver, address string) error {
	folder := filepath.Join(devicesDir, address)
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

// pciAddress returns the PCI address in the name of a device for lmrun.
func pciAddress(device string) string {
	_, at, _ := strings.Cut(device, ":")
	return at
}

// changeCommandRegister changes bits of a device's command register without lmrun's knowledge, and
// returns the previous value.
func changeCommandRegister(address string, clear, set byte) (before byte, err error) {
	config, err := os.OpenFile(filepath.Join(devicesDir, address, "config"), os.O_RDWR, 0)
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

// awaitBusMaster waits until lmrun has made a device a bus master. Right after that, lmrun checks
// the bit itself. awaitBusMaster reads the bit several times, so that this check is over when it
// returns: lmrun runs on the only processor between the reads.
func awaitBusMaster(address string) error {
	const reads = 20
	seen := 0
	return waitFor(address+" becomes a bus master", func() bool {
		if before, err := changeCommandRegister(address, 0, 0); err == nil && before&4 != 0 {
			seen++
		}
		return seen == reads
	})
}

// openBar maps the first 1 MiB of a BAR, which lmrun has mapped too.
func openBar(address string, number int) (hal.Aperture, func(), error) {
	file, err := os.OpenFile(filepath.Join(devicesDir, address, fmt.Sprintf("resource%d", number)),
		os.O_RDWR, 0)
	if err != nil {
		return hal.Aperture{}, nil, err
	}
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return hal.MappedAperture(mem, 0, 1<<20, -1), func() { _ = unix.Munmap(mem) }, err
}

// registerValue is a register and a value in a scenario: DEVICE BAR OFFSET VALUE.
type registerValue struct {
	address string
	bar     int
	offset  uint32
	value   uint64
}

func parseRegister(args []string) (r registerValue, err error) {
	r.address = args[0]
	_, err = fmt.Sscan(strings.Join(args[1:], " "), &r.bar, &r.offset, &r.value)
	return r, err
}

// kernelLines returns the lines of the kernel's log, each with <level> before it.
func kernelLines() []string {
	text := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return []string{"inside: " + err.Error()}
	}
	return strings.SplitAfter(string(text[:n]), "\n")
}

// kernelLogEnd returns the last 20 lines of the kernel's log.
func kernelLogEnd() string {
	lines := kernelLines()
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// compareFiles fails if two files differ. It removes the second file, so that a later step cannot
// compare it again by mistake.
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
