package main

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file prepares the machine: modules, huge pages, drivers and mounts.

// prepare does what one line of the configuration says.
func (p *preparation) execute() error {
	err := p.kind.prepare(p.values)
	if err != nil {
		err = hal.NewFault(hal.CodeOf(err), p.location+": "+p.kind.name+" "+
			strings.Join(p.values, " ")+": "+faultReason(err))
	}
	return err
}

// faultReason returns the text of an error without its code.
func faultReason(err error) string {
	if fault, ok := err.(*hal.Fault); ok {
		return fault.Reason
	}
	return err.Error()
}

// loadModule loads a kernel module, unless it is loaded.
func loadModule(values []string) error {
	path, parameters := values[0], strings.Join(values[1:], " ")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // waits for no pipe
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	if err := unix.FinitModule(fd, parameters, 0); err != nil && err != unix.EEXIST {
		reason := "the kernel rejects it: " + err.Error() + "; dmesg has the reason"
		return hal.NewFault(hal.Internal, reason)
	}
	return nil
}

// reserveHugepages reserves huge pages and compares the number with what the kernel has
// reserved: without memory for all, it reserves fewer and returns no error.
func reserveHugepages(values []string) error {
	const path = "/proc/sys/vm/nr_hugepages"
	if err := writeFile(path, values[0]); err != nil {
		return err
	}
	got, err := readFile(path)
	if text := strings.TrimSpace(string(got)); err == nil && text != values[0] {
		return hal.NewFault(hal.Internal, "the kernel found memory for "+text+" only")
	}
	return err
}

// bindDriver binds a PCI function, such as 0000:01:00.0, to a driver, unless it is bound.
func bindDriver(values []string) error {
	driver, address := values[0], values[1]
	function, drivers := "/sys/bus/pci/devices/"+address, "/sys/bus/pci/drivers/"
	if unix.Access(drivers+driver+"/"+address, unix.F_OK) == nil {
		return nil
	}
	// Only this driver accepts the function from now on.
	err := writeFile(function+"/driver_override", driver)
	// Unbind the driver that has the function.
	if err == nil && unix.Access(function+"/driver", unix.F_OK) == nil {
		err = writeFile(function+"/driver/unbind", address)
	}
	if err == nil {
		err = writeFile(drivers+driver+"/bind", address)
	}
	return err
}

// mountAt mounts a file system: source, directory, type, and ro for a read-only one. It is no
// error if the file system is mounted.
func mountAt(values []string) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if len(values) == 4 {
		flags |= unix.MS_RDONLY
	}
	_ = unix.Mkdir(values[1], 0o755)
	if err := unix.Mount(values[0], values[1], values[2], flags, ""); err != unix.EBUSY {
		return hal.FileFault(values[0]+" on "+values[1], err)
	}
	return nil
}

// writeFile writes a text to an existing file, such as one of sysfs.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	// Not hal.Write: a signal of Go's would be pending then, and the kernel stops reserving
	// huge pages when one is.
	_, err = unix.Write(fd, []byte(text))
	return hal.FileFault(path, err)
}
