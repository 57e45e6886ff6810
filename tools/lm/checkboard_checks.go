package main

import (
	"fmt"
	"strconv"
	"strings"

	"lightmetal/boards/hosts"
	"lightmetal/tools/image/lmb"
)

// ofMachine fills in the report of a machine.
func (r *boardReport) ofMachine(m *machine, n *need) {
	r.host, r.Machine, r.Kernel = m.host, m.title, m.release
	n.shared = m.throughDrivers(n)
	r.checkBase(m)
	r.checkConfig(m.host, m.config, "")
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

// checkBase: architecture, board, page size.
func (r *boardReport) checkBase(m *machine) {
	switch m.arch {
	case "aarch64", "x86_64":
		r.add(fine, "architecture", m.arch, "", "")
	case "":
		r.add(warning, "architecture", "unknown", "lmrun is built for arm64 and amd64",
			"run `uname -m` on the target")
	default:
		r.add(missing, "architecture", m.arch, "lmrun is built for arm64 and amd64",
			"use a 64-bit kernel")
	}
	if m.host != nil {
		r.add(fine, "board", m.host.Title, "", "")
	} else {
		r.add(warning, "board", "unknown; known are "+hostNames(),
			"faults and required kernel options are known only for these boards",
			"name the closest one: lm check-board BOARD --root "+r.rootText(m))
	}
	if m.page != 0 {
		r.add(fine, "page size", fmt.Sprintf("%d bytes", m.page), "", "")
	} else {
		r.add(warning, "page size", "unknown", "BARs and host memory are mapped in whole pages",
			"run `getconf PAGESIZE` on the target")
	}
}

func (r *boardReport) rootText(m *machine) string {
	if m.live {
		return "/"
	}
	return string(m.tree)
}

// checkConfig compares a kernel's configuration with the options that the host needs.
// hint is what to do where there is no configuration, empty: the usual.
func (r *boardReport) checkConfig(host *hosts.Host, config *kernelConfig, hint string) {
	if !config.known() {
		if hint == "" {
			hint = "build the kernel with CONFIG_IKCONFIG_PROC, run `modprobe configs`, or name " +
				"the file: --kernel-config FILE"
		}
		r.add(warning, "kernel configuration", "not found",
			"a missing kernel option is the most common cause of a failure", hint)
		return
	}
	options, good := hosts.KernelOptions(host), 0
	for _, o := range options {
		switch config.options[o.Name] {
		case "y":
			good++
		case "m":
			r.add(warning, o.Name, "a module", o.Why+"; a boot image has no modules in it",
				"set "+o.Name+"=y, or load the module before lmrun")
		default:
			r.add(missing, o.Name, "not set", o.Why, "set "+o.Name+"=y and build the kernel again")
		}
	}
	r.add(fine, "kernel configuration",
		fmt.Sprintf("%s: %d of %d required options are built in", config.from, good,
			len(options)), "", "")
}

func (r *boardReport) checkLockdown(m *machine) {
	const why = "a kernel in lockdown lets no program map a BAR, not even as root"
	text := m.text("/sys/kernel/security/lockdown")
	_, mode, _ := strings.Cut(text, "[")
	mode, _, _ = strings.Cut(mode, "]")
	switch {
	case mode == "none" || text == "" && m.config.known() &&
		!m.config.on("CONFIG_SECURITY_LOCKDOWN_LSM"):
		r.add(fine, "lockdown", "off", "", "")
	case text == "":
		r.add(warning, "lockdown", "unknown", why, "mount -t securityfs none /sys/kernel/security")
	default:
		r.add(missing, "lockdown", mode, why,
			"start the kernel without lockdown=; if Secure Boot sets lockdown, turn Secure Boot "+
				"off")
	}
}

func (r *boardReport) checkSeccomp(m *machine) {
	if strings.Contains(m.text("/proc/sys/kernel/seccomp/actions_avail"), "kill_process") ||
		m.config.on("CONFIG_SECCOMP_FILTER") {
		r.add(fine, "seccomp", "seccomp filters are supported", "", "")
		return
	}
	r.add(warning, "seccomp", "no filters",
		"without seccomp filters, lmrun -seal cannot block system calls",
		"set CONFIG_SECCOMP_FILTER=y")
}

// preemption models from the best for deadlines to the worst.
var preemption = []struct {
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
	const why, next = "other work in the kernel may delay a frame by milliseconds",
		"if deadlines matter, build the kernel with CONFIG_PREEMPT_RT=y, or with " +
			"CONFIG_PREEMPT_DYNAMIC and preempt=full on the command line"
	// "#1 SMP PREEMPT_RT Debian 6.1.0-1", as `uname -v`
	version := m.text("/proc/sys/kernel/version")
	for _, p := range preemption {
		if m.config.on(p.option) || strings.Contains(version+" ",
			strings.TrimPrefix(p.option, "CONFIG_")+" ") {
			r.add(p.state, "preemption", p.text, why, next)
			return
		}
	}
	if version != "" && !m.config.known() && !strings.Contains(version, "PREEMPT") {
		r.add(warning, "preemption", "voluntary or none", why, next)
		return
	}
	r.add(warning, "preemption", "unknown", why, "look at `uname -v`; "+next)
}

func (r *boardReport) checkWatchdog(m *machine) {
	for _, path := range [...]string{"/dev/watchdog0", "/sys/class/watchdog/watchdog0"} {
		if m.has(path) {
			r.add(fine, "watchdog", strings.TrimSpace("there "+
				m.text("/sys/class/watchdog/watchdog0/identity")), "", "")
			return
		}
	}
	r.add(warning, "watchdog", "none", "without a watchdog, nothing restarts a machine that hangs",
		"build the chip's watchdog driver into the kernel, or modprobe softdog, which does not "+
			"help if the kernel hangs")
}

func (r *boardReport) checkUser(m *machine, n *need) {
	switch {
	case !m.user.known:
		r.add(warning, "user", "unknown",
			"only root, or a user with access to the files resourceN, can map BARs",
			"run lm or the script of --collect on the target, as the user of lmrun")
	case m.user.can(capSysAdmin):
		r.add(fine, "user", "uid "+m.user.uid+" with CAP_SYS_ADMIN", "", "")
	case n.shared:
		r.add(warning, "user", "uid "+m.user.uid+" without CAP_SYS_ADMIN",
			"this user needs permission to open the driver's device file",
			"ls -l /dev/vfio /dev/tenstorrent; give the user of lmrun access to it")
	default:
		r.add(missing, "user", "uid "+m.user.uid+" without CAP_SYS_ADMIN",
			"CAP_SYS_ADMIN is needed to enable the device and to read all of its configuration "+
				"space",
			"run as root, or give lmrun the capability: setcap cap_sys_admin+ep lmrun, and "+
				"access to "+pciFolder+"*/resource*")
	}
}

// checkDevices looks at every accelerator of a known kind; with an image, at
// those it is for.
func (r *boardReport) checkDevices(m *machine, n *need) {
	for i := range m.devices {
		d := &m.devices[i]
		if n.view != nil && !n.wants(d.board) {
			continue
		}
		r.Devices = append(r.Devices, devInfo{d.address, d.board.Name,
			fmt.Sprintf("%04x", d.board.Vendor), fmt.Sprintf("%04x", d.board.Device)})
		name := d.board.Name + " " + d.address
		if !r.checkAlive(name, d) {
			continue
		}
		r.checkBars(name, m, d)
		r.checkDriver(name, d, m.config)
		r.checkLink(name, m, d)
		r.checkIOMMU(name, m, d, n)
	}
	if len(r.Devices) == 0 && n.view == nil {
		r.add(missing, "accelerator", fmt.Sprintf("no %s among the machine's %d PCI "+
			"functions", boardNames(),
			len(m.functions)),
			"the machine has no device to replay on",
			"check in `lspci -nn` that the card has power and its slot is on; then rescan: echo "+
				"1 > /sys/bus/pci/rescan")
	}
}

// checkMemory checks the limit of locked memory, and what host memory needs beyond that.
func (r *boardReport) checkMemory(m *machine, n *need) {
	r.checkLocked(m, n)
	const huge = 2 << 20
	free, _ := m.number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	text := fmt.Sprintf("%d free, of 2 MiB each", free)
	switch {
	case n.hostBytes == 0:
		r.add(fine, "huge pages", text+"; only images with host memory use them", "", "")
	case n.shared:
		r.add(fine, "huge pages", text+"; the driver needs none", "", "")
	case free*huge >= n.hostBytes:
		r.add(fine, "huge pages", text, "", "")
	default:
		r.add(missing, "huge pages", text,
			fmt.Sprintf("the image has %s of host memory, for which contiguous huge pages are "+
				"needed",
				lmb.SizeText(n.hostBytes)),
			fmt.Sprintf("soon after boot, echo %d > /proc/sys/vm/nr_hugepages; or boot with "+
				"hugepages=%[1]d", (n.hostBytes+huge-1)/huge))
	}
	r.checkPagemap(m, n)
}

func (r *boardReport) checkLocked(m *machine, n *need) {
	lock := n.arenaBytes + n.hostBytes
	switch {
	case !m.user.known:
		// Said by checkUser.
	case m.user.can(capIPCLock) || m.user.memlock == ^uint64(0):
		r.add(fine, "locked memory", "no limit", "", "")
	case m.user.memlock >= lock:
		r.add(fine, "locked memory", "limit "+lmb.SizeText(m.user.memlock), "", "")
	default:
		r.add(missing, "locked memory", fmt.Sprintf("limit %s, the image locks %s",
			lmb.SizeText(m.user.memlock), lmb.SizeText(lock)),
			"lmrun locks arena and host memory, so that no page fault delays a frame",
			fmt.Sprintf("ulimit -l %d, LimitMEMLOCK= in a systemd unit, or CAP_IPC_LOCK",
				(lock+1023)/1024))
	}
	available, err := strconv.ParseUint(field(m.text("/proc/meminfo"), "MemAvailable:"), 10, 54)
	if err == nil && n.view != nil && available<<10 < lock {
		r.add(missing, "memory", fmt.Sprintf("%s available, the image needs %s",
			lmb.SizeText(available<<10), lmb.SizeText(lock)),
			"lmrun reserves all memory when it loads the image",
			"use a machine with more memory, or stop other programs")
	}
}

// checkPagemap checks the file from which, without an IOMMU, the address of host memory is
// read.
func (r *boardReport) checkPagemap(m *machine, n *need) {
	const why, without = "the device needs the physical address of host memory",
		"open the device as vfio:, if there is an IOMMU"
	there := m.has("/proc/self/pagemap") || m.config.on("CONFIG_PROC_PAGE_MONITOR")
	switch {
	case n.hostBytes == 0 || n.shared:
		r.add(fine, "pagemap", "not used", "", "")
	case !there && (m.live || m.config.known()):
		r.add(missing, "pagemap", "not there", why, "set CONFIG_PROC_PAGE_MONITOR=y, or "+without)
	case !there || !m.user.known:
		r.add(warning, "pagemap", "unknown", why, "look for /proc/self/pagemap on the target")
	case !m.user.can(capSysAdmin):
		r.add(missing, "pagemap", "/proc/self/pagemap does not show addresses to this user", why,
			"run as root, or "+without)
	default:
		r.add(fine, "pagemap", "shows addresses", "", "")
	}
}

// throughDrivers reports whether kernel drivers provide access to all devices of the image.
func (m *machine) throughDrivers(n *need) bool {
	found := false
	for i := range m.devices {
		if n.wants(m.devices[i].board) {
			found = true
			if !m.devices[i].shared() {
				return false
			}
		}
	}
	return found
}
