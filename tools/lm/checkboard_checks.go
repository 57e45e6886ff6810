package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lightmetal/boards/hosts"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

func (r *boardReport) checkMachine(m *machine, n *requirements) {
	r.host, r.Machine, r.Kernel = m.host, m.title, m.release
	if n.view != nil {
		m.devices = m.devicesOf(n.view)
	}
	n.driverBusAddresses = m.usesDrivers()
	r.checkBasics(m)
	r.checkKernelConfig(m.host, m.config, "")
	r.checkLockdown(m)
	r.checkSeccomp(m)
	r.checkPreemption(m)
	r.checkWatchdog(m)
	r.checkUser(m, n)
	r.checkDevices(m, n)
	r.checkMemory(m, n)
	if m.host != nil {
		r.checkFaults(m.host, m.config, n)
	}
	if n.view != nil {
		r.checkImageDevices(m, n)
	}
}

// checkBasics checks architecture, board and page size.
func (r *boardReport) checkBasics(m *machine) {
	const built = "lmrun is built for arm64 and amd64"
	r.judge("architecture", []verdict{
		{m.arch == "x86_64" && m.host != nil, missing, m.arch, "this is not " + hostTitle(m) +
			", which has an arm64 processor", "run lm check-board on the board, or check a copy " +
			"of its files with --root; lm check-board --collect prints a script that copies them"},
		fineIf(m.arch == "aarch64" || m.arch == "x86_64", m.arch),
		{m.arch == "", warning, "unknown", built, "run `uname -m` on the target"},
		{true, missing, m.arch, built, "use a 64-bit kernel on an arm64 or amd64 machine"},
	})
	if m.host != nil {
		r.addFinding(fine, "board", m.host.Title, "", "")
	} else {
		r.addFinding(warning, "board", "unknown; known boards: "+hostNames(),
			"lm knows the hardware faults and required kernel options only of these boards",
			"if the machine is similar to a known board, name that board: "+
				"lm check-board BOARD --root "+r.rootText(m))
	}
	r.judge("page size", []verdict{
		fineIf(m.pageSize != 0, fmt.Sprintf("%d bytes", m.pageSize)),
		{true, warning, "unknown", "BARs and host memory are mapped in whole pages",
			"run `getconf PAGESIZE` on the target"},
	})
}

func (r *boardReport) rootText(m *machine) string {
	if m.isThisMachine {
		return "/"
	}
	return string(m.tree)
}

// hostTitle returns the name of the board, empty if it is unknown.
func hostTitle(m *machine) string {
	if m.host == nil {
		return ""
	}
	return m.host.Title
}

// checkKernelConfig compares a kernel's configuration with the options that the host needs. hint is
// the advice if there is no configuration; empty: the usual advice.
func (r *boardReport) checkKernelConfig(host *hosts.Host, config *kernelConfig, hint string) {
	if !config.known() {
		if hint == "" {
			hint = "build the kernel with CONFIG_IKCONFIG_PROC, " +
				"run `modprobe configs`, or name the file with --kernel-config FILE"
		}
		r.addFinding(warning, "kernel configuration", "not found",
			"a missing kernel option is the most common cause of a failure", hint)
		return
	}
	options, good := hosts.KernelOptions(host), 0
	for _, o := range options {
		switch config.options[o.Name] {
		case "y":
			good++
		case "m":
			r.addFinding(warning, o.Name, "a module",
				o.Reason+"; a boot image of lightmetal contains no kernel modules",
				"set "+o.Name+"=y, or load the module before lmrun starts")
		default:
			r.addFinding(missing, o.Name, "not set", o.Reason,
				"set "+o.Name+"=y and build the kernel again")
		}
	}
	r.addFinding(fine, "kernel configuration",
		fmt.Sprintf("%s: %d of %d required options are built in", config.from, good,
			len(options)), "", "")
}

func (r *boardReport) checkLockdown(m *machine) {
	const why = "a kernel in lockdown does not allow a program to map a BAR, even as root"
	text := m.readText("/sys/kernel/security/lockdown")
	_, mode, _ := strings.Cut(text, "[")
	mode, _, _ = strings.Cut(mode, "]")
	isAbsent := m.config.known() && !m.config.isEnabled("CONFIG_SECURITY_LOCKDOWN_LSM")
	r.judge("lockdown", []verdict{
		fineIf(mode == "none" || text == "" && isAbsent, "off"),
		{text == "", warning, "unknown", why,
			"run `mount -t securityfs none /sys/kernel/security`, then check again"},
		{true, missing, mode, why, "start the kernel without lockdown= on its command line; " +
			"if Secure Boot sets lockdown, turn Secure Boot off"},
	})
}

func (r *boardReport) checkSeccomp(m *machine) {
	actions := m.readText("/proc/sys/kernel/seccomp/actions_avail")
	hasFilters := strings.Contains(actions, "kill_process") ||
		m.config.isEnabled("CONFIG_SECCOMP_FILTER")
	const why = "without seccomp filters, lmrun -seal cannot block system calls"
	r.judge("seccomp", []verdict{
		fineIf(hasFilters, "seccomp filters are supported"),
		{actions == "" && !m.config.known(), warning, "unknown", why,
			"run `cat /proc/sys/kernel/seccomp/actions_avail` on the target"},
		{true, warning, "no filters", why, "set CONFIG_SECCOMP_FILTER=y"},
	})
}

// preemptionModels lists the kernel's preemption models, from the best one for deadlines to the
// worst.
var preemptionModels = []struct {
	option string
	state  state
	text   string
}{
	{"CONFIG_PREEMPT_RT", fine, "real time"},
	{"CONFIG_PREEMPT", fine, "full"},
	{"CONFIG_PREEMPT_LAZY", fine, "lazy"},
	{"CONFIG_PREEMPT_VOLUNTARY", warning, "voluntary"},
	{"CONFIG_PREEMPT_NONE", warning, "none"},
}

func (r *boardReport) checkPreemption(m *machine) {
	const why, next = "other work in the kernel may delay a run by milliseconds",
		"if deadlines matter, build the kernel with CONFIG_PREEMPT_RT=y, " +
			"or with CONFIG_PREEMPT_DYNAMIC and preempt=full on the command line"
	// "#1 SMP PREEMPT_RT Debian 6.1.0-1", as `uname -v`
	version := m.readText("/proc/sys/kernel/version")
	var table []verdict
	for _, p := range preemptionModels {
		inVersion := strings.Contains(version+" ", strings.TrimPrefix(p.option, "CONFIG_")+" ")
		table = append(table, verdict{inVersion || m.config.isEnabled(p.option), p.state, p.text,
			why, next})
	}
	hasNone := version != "" && !m.config.known() && !strings.Contains(version, "PREEMPT")
	r.judge("preemption", append(table,
		verdict{hasNone, warning, "voluntary or none", why, next},
		verdict{true, warning, "unknown", why, "look at `uname -v`; " + next}))
}

func (r *boardReport) checkWatchdog(m *machine) {
	const folder = "/sys/class/watchdog/watchdog0"
	found := "present"
	if identity := m.readText(folder + "/identity"); identity != "" {
		found += ": " + identity
	}
	r.judge("watchdog", []verdict{
		fineIf(m.exists("/dev/watchdog0") || m.exists(folder), found),
		{true, warning, "none", "without a watchdog, nothing restarts a machine that hangs",
			"build the chip's watchdog driver into the kernel, " +
				"or modprobe softdog, which does not help if the kernel hangs"},
	})
}

func (r *boardReport) checkUser(m *machine, n *requirements) {
	without := "uid " + m.user.uid + " without CAP_SYS_ADMIN"
	r.judge("user", []verdict{
		{!m.user.known, warning, "unknown",
			"only root, or a user with access to " + pciFolder + "*/resource*, can map BARs",
			"run lm check-board, or the script of --collect, on the target " +
				"as the user who runs lmrun"},
		fineIf(m.user.hasCapability(capSysAdmin), "uid "+m.user.uid+" with CAP_SYS_ADMIN"),
		{n.driverBusAddresses, warning, without,
			"this user needs permission to open the driver's device file",
			"give the user access to the device file (see ls -l /dev/vfio /dev/tenstorrent)"},
		{true, missing, without,
			"CAP_SYS_ADMIN is needed to enable the device " +
				"and to read all of its configuration space",
			"run lmrun as root; or run `setcap cap_sys_admin+ep lmrun`, " +
				"and give the user access to " + pciFolder + "*/resource*"},
	})
}

// checkDevices checks every device of a known board; with an image, only devices with the ids of
// the image's devices.
func (r *boardReport) checkDevices(m *machine, n *requirements) {
	for i := range m.devices {
		d := &m.devices[i]
		r.Devices = append(r.Devices, foundDevice{d.address, d.board.Name,
			fmt.Sprintf("%04x", d.board.Vendor), fmt.Sprintf("%04x", d.board.Device)})
		name := d.board.Name + " " + d.address
		if !r.checkAnswers(name, d) {
			continue
		}
		r.checkBars(name, m, d)
		r.checkDriver(name, d, m.config)
		r.checkSysfs(name, m, d)
		r.checkLink(name, m, d)
		r.checkIOMMU(name, m, d, n)
	}
	if len(r.Devices) == 0 && n.view == nil {
		r.addFinding(missing, "accelerator", fmt.Sprintf("not found among "+
			"the machine's %d PCI functions (looked for %s)", len(m.functions),
			boardNames()),
			"the machine has no device to replay on",
			"check that the card has power and its slot is enabled; "+
				"then rescan: echo 1 > /sys/bus/pci/rescan")
	}
}

// checkMemory checks the limit of locked memory, and what else host memory needs.
func (r *boardReport) checkMemory(m *machine, n *requirements) {
	r.checkLockedMemory(m, n)
	const huge = 2 << 20
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB"
	free, _ := m.readNumber(pool + "/free_hugepages")
	text := fmt.Sprintf("free huge pages of 2 MiB: %d", free)
	r.judge("huge pages", []verdict{
		fineIf(n.hostBytes == 0, text+"; only images with host memory use them"),
		fineIf(n.driverBusAddresses, text+"; a device opened as vfio: or tt: needs no huge pages"),
		fineIf(free*huge >= n.hostBytes, text),
		{true, missing, text,
			fmt.Sprintf("the image's %s of host memory must be in contiguous huge pages, "+
				"if the device is opened as pci:", lmb.SizeText(n.hostBytes)),
			fmt.Sprintf("open the device as vfio:, or reserve huge pages for pci:, with "+
				"`echo %d > "+pool+"/nr_hugepages` soon after boot, or with the boot options "+
				"`hugepagesz=2M hugepages=%[1]d`", (n.hostBytes+huge-1)/huge)},
	})
	r.checkPagemap(m, n)
}

func (r *boardReport) checkLockedMemory(m *machine, n *requirements) {
	memory, lock := uint64(0), uint64(0)
	if n.view != nil {
		page := cmp.Or(m.pageSize, 4<<10)
		memory = runtime.LockedBytes(n.view, page, false)
		lock = runtime.LockedBytes(n.view, page, n.driverBusAddresses)
	}
	if m.user.known { // otherwise checkUser has reported it
		memlock := m.user.memlock
		r.judge("locked memory", []verdict{
			fineIf(m.user.hasCapability(capIPCLock) || memlock == ^uint64(0), "no limit"),
			fineIf(memlock >= lock, "limit "+lmb.SizeText(memlock)),
			{true, missing, fmt.Sprintf("the limit is %s, but the image locks %s",
				lmb.SizeText(memlock), lmb.SizeText(lock)),
				"lmrun locks commands, arena and host memory, so that no page fault " +
					"delays a run; with vfio:, host memory counts twice",
				fmt.Sprintf("raise the limit with `ulimit -l %d` "+
					"or with LimitMEMLOCK= in a systemd unit, or give lmrun CAP_IPC_LOCK",
					(lock+1023)/1024)},
		})
	}
	available, err := strconv.ParseUint(
		procField(m.readText("/proc/meminfo"), "MemAvailable:"), 10, 54)
	r.judge("memory", []verdict{
		{err == nil && n.view != nil && available<<10 < memory, missing,
			fmt.Sprintf("%s is available, but the image needs %s",
				lmb.SizeText(available<<10), lmb.SizeText(memory)),
			"lmrun reserves all memory for the image when it loads the image",
			"use a machine with more memory, or stop other programs"},
	})
}

// checkPagemap checks the file from which lightmetal reads the physical address of host memory if
// there is no IOMMU.
func (r *boardReport) checkPagemap(m *machine, n *requirements) {
	const why, without = "the device needs the physical address of host memory",
		"open the device as vfio:, if the machine has an IOMMU"
	there := m.exists("/proc/self/pagemap") || m.config.isEnabled("CONFIG_PROC_PAGE_MONITOR")
	r.judge("pagemap", []verdict{
		fineIf(n.hostBytes == 0 || n.driverBusAddresses, "not used"),
		{!there && (m.isThisMachine || m.config.known()), missing, "not there", why,
			"set CONFIG_PROC_PAGE_MONITOR=y, or " + without},
		{!there || !m.user.known, warning, "unknown", why,
			"look for /proc/self/pagemap on the target"},
		{!m.user.hasCapability(capSysAdmin), missing,
			"/proc/self/pagemap does not show addresses to this user", why,
			"run as root, or " + without},
		fineIf(true, "shows addresses"),
	})
}

// usesDrivers reports whether kernel drivers provide access to all devices.
func (m *machine) usesDrivers() bool {
	isDirect := func(d pciDevice) bool { return !d.usesDriver() }
	return len(m.devices) > 0 && !slices.ContainsFunc(m.devices, isDirect)
}
