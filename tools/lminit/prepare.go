package main

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file prepares the machine: it loads modules, reserves huge pages, binds drivers, and
// mounts file systems.

// execute executes one preparation. An error begins with the location and the text of the line.
func (p *preparation) execute() error {
	err := p.kind.prepare(p.values)
	if err != nil {
		err = hal.NewFault(hal.CodeOf(err), p.location+": "+p.kind.name+" "+
			strings.Join(p.values, " ")+": "+faultReason(err))
	}
	return err
}

// faultReason returns the text of err. For a *hal.Fault, it omits the text of the error code.
func faultReason(err error) string {
	if fault, ok := err.(*hal.Fault); ok {
		return fault.Reason
	}
	return err.Error()
}

// loadModule loads a kernel module, unless the module is already loaded. The values are the
// module's path and its parameters.
func loadModule(values []string) error {
	path, parameters := values[0], strings.Join(values[1:], " ")
	// Without O_NONBLOCK, opening a pipe would wait for its writer.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	if err := unix.FinitModule(fd, parameters, 0); err != nil && err != unix.EEXIST {
		reason := "the kernel rejects the module: " + err.Error() + "; see `dmesg`"
		return hal.NewFault(hal.Internal, reason)
	}
	return nil
}

// reserveHugepages sets the number of hugetlb pages to values[0]. It then reads the number back,
// since the kernel reserves fewer pages without an error if it does not have enough memory.
func reserveHugepages(values []string) error {
	const path = "/proc/sys/vm/nr_hugepages"
	if err := writeFile(path, values[0]); err != nil {
		return err
	}
	reserved, err := readFile(path)
	if count := strings.TrimSpace(string(reserved)); err == nil && count != values[0] {
		return hal.NewFault(hal.Internal, "the kernel has memory for only "+count+" huge pages")
	}
	return err
}

// bindDriver binds a PCI function to a driver, unless the function is already bound to it. The
// values are the driver's name and the PCI address, such as 0000:01:00.0.
func bindDriver(values []string) error {
	driver, address := values[0], values[1]
	function, drivers := "/sys/bus/pci/devices/"+address, "/sys/bus/pci/drivers/"
	if unix.Access(drivers+driver+"/"+address, unix.F_OK) == nil {
		return nil
	}
	// Make the kernel reject every other driver for this PCI function.
	err := writeFile(function+"/driver_override", driver)
	// Unbind the PCI function from its present driver.
	if err == nil && unix.Access(function+"/driver", unix.F_OK) == nil {
		err = writeFile(function+"/driver/unbind", address)
	}
	if err == nil {
		err = writeFile(drivers+driver+"/bind", address)
	}
	return err
}

// mountAt mounts a file system, unless it is already mounted. The values are the source, the
// directory, the type, and optionally `ro` for a read-only mount.
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

// writeFile writes text to an existing file, such as a file of sysfs.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	// Do not use hal.Write here, since Go's scheduler does not know that hal.Write is in a system
	// call. During a long call, the scheduler would send a signal to preempt the goroutine, and
	// the kernel stops reserving huge pages as soon as a signal is pending.
	_, err = unix.Write(fd, []byte(text))
	return hal.FileFault(path, err)
}
