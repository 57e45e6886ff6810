package main

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

func (p *preparation) execute() error {
	err := p.directive.prepare(p.values)
	if err != nil {
		err = hal.NewFault(hal.CodeOf(err), p.location+": "+p.directive.name+" "+
			strings.Join(p.values, " ")+": "+faultReason(err))
	}
	return err
}

func (p *preparation) deviceNames() []string {
	if p.directive.name != "bind" {
		return nil
	}
	return []string{"pci:" + p.values[1]}
}

// faultReason returns the text of err without that of its code.
func faultReason(err error) string {
	if fault, ok := err.(*hal.Fault); ok {
		return fault.Reason
	}
	return err.Error()
}

// loadModule loads a kernel module, with the parameters after its path, unless it is loaded.
func loadModule(pathAndParameters []string) error {
	path, parameters := pathAndParameters[0], strings.Join(pathAndParameters[1:], " ")
	// With O_NONBLOCK, the path of a FIFO does not make unix.Open wait forever.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	if err := unix.FinitModule(fd, parameters, 0); err != nil && err != unix.EEXIST {
		reason := err.Error() + "; see `dmesg`"
		if err == unix.ENOENT { // the module uses a symbol that the kernel does not have
			reason = "a module that it needs is not loaded; `modprobe --show-depends` on a " +
				"machine with this kernel lists the modules and their order"
		}
		return hal.NewFault(hal.Internal, "the kernel rejects the module: "+reason)
	}
	return nil
}

// reserveHugepages reserves huge pages of 2 MiB, the size that lmrun uses.
// /proc/sys/vm/nr_hugepages is for the kernel's default size, which is larger with pages of 16 or
// 64 KiB. With too little memory, the kernel reserves fewer and reports no error.
func reserveHugepages(values []string) error {
	path := sysfsPath + "/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	for before := ""; ; {
		err := writeFile(path, values[0])
		if hal.CodeOf(err) == hal.NoFile {
			return hal.NewFault(hal.NoFile, path+" does not exist: the kernel has no huge pages "+
				"of 2 MiB; build it with CONFIG_HUGETLBFS=y")
		}
		if err != nil {
			return err
		}
		reserved, err := readFile(path)
		count := strings.TrimSpace(string(reserved))
		if err != nil || count == values[0] {
			return err
		}
		// A signal, such as one of Go's scheduler, ends the write early: then the next write
		// reserves more.
		if count == before {
			return hal.NewFault(hal.Internal, "the kernel has memory for only "+count+
				" huge pages of 2 MiB; reserve them before fragmentation: move this line up, or "+
				"boot Linux with `hugepagesz=2M hugepages="+values[0]+"`")
		}
		before = count
	}
}

// bindDriver binds the PCI function with an address, such as 0000:01:00.0, to a driver, unless that
// is done already.
func bindDriver(values []string) error {
	driver, address := values[0], values[1]
	function, drivers := pciBusPath()+"/devices/"+address, pciBusPath()+"/drivers/"
	if unix.Access(drivers+driver+"/"+address, unix.F_OK) == nil {
		return nil
	}
	if unix.Access(function, unix.F_OK) != nil {
		return hal.NewFault(hal.NoDevice, "no PCI function has this address; "+
			"`ls /sys/bus/pci/devices` lists the addresses")
	}
	if unix.Access(drivers+driver, unix.F_OK) != nil {
		return hal.NewFault(hal.NoFile, "the kernel has no driver "+driver+
			"; load its module, and the modules that it needs, by `module` lines above this line")
	}
	// From now on, the kernel binds no other driver to this PCI function.
	err := writeFile(function+"/driver_override", driver)
	if err == nil && unix.Access(function+"/driver", unix.F_OK) == nil {
		err = writeFile(function+"/driver/unbind", address)
	}
	if err == nil {
		err = writeFile(drivers+driver+"/bind", address)
	}
	// EINVAL for a PCI function without an IOMMU group (Linux, vfio_group_find_or_alloc).
	if err != nil && driver == "vfio-pci" &&
		unix.Access(function+"/iommu_group", unix.F_OK) != nil {
		return hal.NewFault(hal.NoDevice, "no IOMMU is on for this PCI function, so vfio-pci does "+
			"not accept it: switch an IOMMU on, or remove this line and open the device as `pci:"+
			address+"`")
	}
	return err
}

// mountFileSystem mounts a source on a directory, with a type and optionally `ro`, unless that is
// done already.
func mountFileSystem(values []string) error {
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

// writeFile writes an existing file, such as one of sysfs, with one system call.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	// A signal makes the kernel reserve fewer huge pages. Go's scheduler sends signals to threads
	// that compute for long: not to a thread in unix.Write, but to one in hal.Write, which makes a
	// raw system call.
	_, err = unix.Write(fd, []byte(text))
	return hal.FileFault(path, err)
}
