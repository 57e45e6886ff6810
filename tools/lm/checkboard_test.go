package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lightmetal/boards/hosts"
	"lightmetal/tools/check/golden"
)

// readTree returns the files of an archive of testdata/boards by path. The text of a symbolic link
// begins with "->".
func readTree(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	golden.Table(t, filepath.Join("testdata", "boards", name), func(path, data string) string {
		files[path] = unquoted(t, data)
		return data
	})
	return files
}

// createFile creates a file, or the symbolic link that its text describes, below a directory.
func createFile(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if to, link := strings.CutPrefix(text, "->"); link && err == nil {
		err = os.Symlink(strings.TrimSpace(to), path)
	} else if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// createTree creates files and symbolic links in a new directory, and returns the directory.
func createTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		createFile(t, root, path, text)
	}
	return root
}

// removed is the text of a file that a machine lacks.
const removed = "-"

// checkChanged runs lm check-board on a directory of the files of an archive, of which some are
// changed meanwhile.
func checkChanged(t *testing.T, root string, files, changes map[string]string,
	args ...string) (exit int, r boardReport) {
	t.Helper()
	for path, text := range changes {
		_ = os.Remove(filepath.Join(root, path))
		if text == removed {
			_ = os.Remove(filepath.Join(root, filepath.Dir(path))) // if it is empty
		} else {
			createFile(t, root, path, text)
		}
	}
	exit, r = runCheckBoard(t, append(args, "--root", root)...)
	for path := range changes {
		_ = os.Remove(filepath.Join(root, path))
		if text, ok := files[path]; ok {
			createFile(t, root, path, text)
		}
	}
	return exit, r
}

// runCheckBoard runs lm check-board --json and returns its exit status and report.
func runCheckBoard(t *testing.T, args ...string) (exit int, r boardReport) {
	t.Helper()
	exit, stdout, stderr := lm(t, append([]string{"check-board", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("exit status %d, and standard output is no report (%v): %s%s", exit, err, stdout,
			stderr)
	}
	if r.Exit != exit {
		t.Errorf("the exit status is %d, but the report has %d", exit, r.Exit)
	}
	return exit, r
}

// findCheck returns the state and the text of a check. Both are empty if the report has no such
// check.
func (r *boardReport) findCheck(check string) (state, string) {
	for _, f := range r.Checks {
		if f.Check == check {
			return f.State, f.Found + " / " + f.Why + " / " + f.Next
		}
	}
	return "", ""
}

// badChecks returns a line for each check whose state is not ok.
func (r *boardReport) badChecks() string {
	var b strings.Builder
	for _, f := range r.Checks {
		if f.State != fine {
			fmt.Fprintf(&b, "%s %s: %s\n", f.State, f.Check, f.Found)
		}
	}
	return b.String()
}

// wormholeAt is the name that checks have for the Wormhole of rpi5-wormhole.txtar.
const wormholeAt = "wormhole 0001:01:00.0"

func TestCompleteMachineHasNothingMissing(t *testing.T) {
	exit, r := runCheckBoard(t, "--root", createTree(t, readTree(t, "rpi5-wormhole.txtar")))
	if exit != 0 || r.Board != "rpi5" || r.Machine != "Raspberry Pi 5 Model B Rev 1.0" ||
		r.Kernel != "6.12.34-v8-16k" || r.Missing != 0 {
		t.Errorf("exit status %d, board %s, machine %s, kernel %s, %d missing, want 0\n%s", exit,
			r.Board, r.Machine, r.Kernel, r.Missing, r.badChecks())
	}
	if len(r.Devices) != 1 ||
		r.Devices[0] != (foundDevice{"0001:01:00.0", "wormhole", "1e52", "401e"}) {
		t.Errorf("devices %+v, want only the Wormhole at 0001:01:00.0", r.Devices)
	}
	for check, want := range map[string]string{
		"architecture": "aarch64", "page size": "16384 bytes", "lockdown": "off",
		"preemption": "full", "watchdog": "present: Broadcom",
		"user": "uid 0 with CAP_SYS_ADMIN", "locked memory": "no limit", "write-combining": "works",
		wormholeAt:            "memory decoding on, bus mastering on",
		wormholeAt + " BAR 0": "512 MiB at 0x1800000000, write-combining possible",
		wormholeAt + " BAR 2": "1 MiB at 0x1b00000000", wormholeAt + " driver": "pci:0001:01:00.0",
		wormholeAt + " link":  "5.0 GT/s PCIe x1",
		wormholeAt + " IOMMU": "no IOMMU: ",
	} {
		if s, text := r.findCheck(check); s != fine || !strings.Contains(text, want) {
			t.Errorf("%s: state %q, text %s; want ok and %s", check, s, text, want)
		}
	}
	// The only warning is about a known fault of the board.
	if r.badChecks() != "warning known fault: "+hosts.ByName("rpi5").OtherDefects[0].Value+"\n" {
		t.Errorf("checks that are not ok: %swant only the known fault of the board", r.badChecks())
	}
}

// TestEveryDefectOfAMachineIsNamed changes one file of a complete machine for each defect.
func TestEveryDefectOfAMachineIsNamed(t *testing.T) {
	const device, config = "sys/bus/pci/devices/0001:01:00.0/", "boot/config-6.12.34-v8-16k"
	complete := readTree(t, "rpi5-wormhole.txtar")
	root := createTree(t, complete)
	edit := func(path, from, to string) string {
		if !strings.Contains(complete[path], from) {
			t.Fatalf("the file %s of the tree has no %q", path, from)
		}
		return strings.Replace(complete[path], from, to, 1)
	}
	for _, c := range []struct {
		path, text string
		check      string
		state      state
		want       string
	}{
		{"proc/sys/kernel/arch", "armv7l", "architecture", missing, "use a 64-bit kernel"},
		{"proc/sys/kernel/arch", "x86_64", "architecture", missing,
			"run lm check-board on the board"},
		{"proc/device-tree/compatible", "acme,board\x00", "board", warning,
			"unknown; known boards: qemu-virt,"},
		{"proc/self/smaps", removed, "page size", fine, "16384 bytes"}, // from the configuration
		{config, removed, "kernel configuration", warning, "modprobe configs"},
		{config, edit(config, "CONFIG_PCIE_BRCMSTB=y", "# CONFIG_PCIE_BRCMSTB is not set"),
			"CONFIG_PCIE_BRCMSTB", missing,
			"not set / the PCIe controller / set CONFIG_PCIE_BRCMSTB=y"},
		{config, edit(config, "CONFIG_PCIE_BRCMSTB=y", "CONFIG_PCIE_BRCMSTB=m"),
			"CONFIG_PCIE_BRCMSTB", warning, "a module"},
		{config, edit(config, "CONFIG_SYSFS=y", ""), "CONFIG_SYSFS", missing, "not set"},
		{config, edit(config, "CONFIG_PREEMPT=y", "CONFIG_PREEMPT_NONE=y"), "preemption", warning,
			"none / other work"},
		{config, edit(config, "CONFIG_PREEMPT=y", "CONFIG_PREEMPT_RT=y"), "preemption", fine,
			"real time"},
		{"sys/kernel/security/lockdown", "none [integrity] confidentiality\n", "lockdown", missing,
			"integrity / a kernel in lockdown"},
		// Without the file, the kernel configuration decides: it has no lockdown.
		{"sys/kernel/security/lockdown", removed, "lockdown", fine, "off"},
		{"proc/sys/kernel/seccomp/actions_avail", removed, "seccomp", fine, "supported"},
		{"proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.1\n", "preemption", fine,
			"real time"},
		{"proc/self/status", removed, "user", warning, "unknown"},
		{"proc/self/status", "Uid:\t1000\t1000\nCapEff:\t0000000000000000\n", "user", missing,
			"uid 1000 without CAP_SYS_ADMIN"},
		{"proc/self/status", "Uid:\t1000\t1000\nCapEff:\t0000000000200000\n", "locked memory", fine,
			"limit 8 MiB"},
		{device + "config", strings.Repeat("\xff", 64), wormholeAt, missing, "does not answer"},
		{device + "config", edit(device+"config", "\x1e\x40\x06", "\x1e\x40\x00"),
			wormholeAt, fine, "memory decoding off (lightmetal switches it on), bus mastering " +
				"off (lightmetal switches it on if the image uses DMA)"},
		{device + "config", removed, wormholeAt, notChecked,
			"its configuration space cannot be read"},
		{device + "config", complete[device+"config"][:63], wormholeAt, notChecked,
			"run `lspci -xxx -s 0001:01:00.0` on the target as root"},
		{device + "resource", edit(device+"resource",
			"0x0000001800000000 0x000000181fffffff 0x000000000014220c",
			"0x0000000000000000 0x000000001fffffff 0x000000002014220c"),
			wormholeAt + " BAR 0", missing, "512 MiB, not assigned / the kernel found no room"},
		{device + "resource", edit(device+"resource", "0x000000181fffffff", "0x000000180fffffff"),
			wormholeAt + " BAR 0", warning, "256 MiB, but usually 512 MiB"},
		{device + "resource", edit(device+"resource", "0x000000181fffffff", "0x000000180fffffff"),
			wormholeAt + " BAR 0", warning, "the firmware of the device or of the machine must " +
				"set the BAR's size"},
		{device + "resource", edit(device+"resource",
			"0x0000001b00000000 0x0000001b000fffff 0x0000000000140204",
			"0x0000000000000000 0x0000000000000000 0x0000000000000000"),
			wormholeAt + " BAR 2", missing, "not assigned / the kernel found no room"},
		{device + "resource", "garbage", wormholeAt + " BAR 4", missing, "not assigned"},
		{device + "resource0_wc", removed, wormholeAt + " BAR 0", warning,
			"without the file resource0_wc"},
		{device + "driver", "-> ../../../../bus/pci/drivers/nvme", wormholeAt + " driver", missing,
			"nvme / a kernel driver uses the device"},
		{device + "driver", "-> ../../../../bus/pci/drivers/nvme", wormholeAt + " driver", missing,
			"echo 0001:01:00.0 > /sys/bus/pci/devices/0001:01:00.0/driver/unbind"},
		{device + "driver", "-> ../../../../bus/pci/drivers/tenstorrent", wormholeAt + " driver",
			fine, "tenstorrent; open the device as tt:/dev/tenstorrent/N"},
		{device + "driver", "-> ../../../../bus/pci/drivers/vfio-pci", wormholeAt + " driver", fine,
			"vfio:0001:01:00.0"},
		{device + "max_link_speed", "16.0 GT/s PCIe\n", wormholeAt + " link", warning,
			"5.0 GT/s PCIe x1, but the device supports 16.0 GT/s PCIe x1"},
		{device + "max_link_width", "16\n", wormholeAt + " link", warning, "x16"},
		{device + "max_link_width", removed, wormholeAt + " link", fine, "no PCIe link"},
		{device + "iommu_group", "-> ../../../kernel/iommu_groups/7", wormholeAt + " IOMMU", fine,
			"for images with host memory, bind vfio-pci"},
		{"proc/device-tree/axi/pcie@1000110000/iommu-map", "", wormholeAt + " IOMMU", fine,
			"for images with host memory, bind vfio-pci"},
		{device + "device", "0x1234\n", "accelerator", missing, "among the machine's 2 PCI " +
			"functions"},
	} {
		exit, r := checkChanged(t, root, complete, map[string]string{c.path: c.text})
		if s, text := r.findCheck(c.check); s != c.state || !strings.Contains(text, c.want) {
			t.Errorf("with %s %.40q, %s has the state %q, text %s\n\twant %s, %s", c.path, c.text,
				c.check, s, text, c.state, c.want)
		}
		isBad := c.state == missing || c.state == notChecked
		if (exit == 69) != isBad || (exit == 69) != (r.Missing+r.NotChecked > 0) ||
			exit != 0 && exit != 69 {
			t.Errorf("with %s %.40q, the exit status is %d, %d are missing and %d not checked\n%s",
				c.path, c.text, exit, r.Missing, r.NotChecked, r.badChecks())
		}
		if c.check == "watchdog" || c.state == fine {
			continue
		}
		if s, text := r.findCheck(c.check); strings.HasSuffix(text, "/ ") {
			t.Errorf("the check of %s, %s, has no remedy: %s", c.check, s, text)
		}
	}
}

// wormholeImage returns the path of an image for a Wormhole with some windows.
func wormholeImage(t *testing.T, bars, windows, commands string) string {
	return assemble(t, "lightmetal 1\ntarget wormhole 1e52:401e "+bars+"\n"+windows+"main:\n"+
		commands)
}

func TestCheckBoardComparesTheImageWithTheMachine(t *testing.T) {
	complete := readTree(t, "rpi5-wormhole.txtar")
	root := createTree(t, complete)
	const bar, resource = "window w bar0 offset 0 size 4KiB\n",
		"sys/bus/pci/devices/0001:01:00.0/resource"
	plain := wormholeImage(t, "bar0 512MiB", bar, "  read.4 w+0\n")
	host := wormholeImage(t, "bar0 512MiB", bar+"window h host size 4MiB\n", "  read.4 w+0\n")
	tlb := wormholeImage(t, "bar0 512MiB", "window l tlb size 16MiB\nwindow k tlb size 16MiB\n",
		"  point l tile 1,1 address 0\n  read.4 l+0\n")
	many := wormholeImage(t, "bar0 512MiB", strings.Repeat("window l tlb size 16MiB\n", 30),
		"  point w0 tile 1,1 address 0\n  read.4 w0+0\n")
	preemption := func(version string) map[string]string {
		return map[string]string{"boot/config-6.12.34-v8-16k": removed,
			"proc/sys/kernel/version": version}
	}
	for _, c := range []struct {
		name, image string
		change      map[string]string
		check       string
		state       state
		want        string
	}{
		{"the BARs fit", plain, nil, "device 0, wormhole (1e52:401e) BARs", fine, "as large"},
		{"the device is found by its address", plain, nil, "device 0, wormhole (1e52:401e)", fine,
			"pci:0001:01:00.0"},
		{"no such device", assemble(t, edu+"main:\n  read.4 r+0\n"), nil,
			"device 0, edu (1234:11e8)", missing, "not found among the machine's 2"},
		{"BAR too small", plain,
			map[string]string{resource: "0x1800000000 0x180fffffff 0x14220c\n"},
			"device 0, wormhole (1e52:401e) BAR 0", missing,
			"the assigned size is 256 MiB, but the image needs 512 MiB / the image accesses more"},
		{"BAR not assigned", plain, map[string]string{resource: "0x0 0x1fffffff 0x2014220c\n"},
			"device 0, wormhole (1e52:401e) BAR 0", missing,
			"the image needs 512 MiB / the kernel assigned no address to this BAR, or the device"},
		{"windows can be placed", tlb, nil, "device 0, wormhole (1e52:401e) windows", fine,
			"2 movable"},
		{"no TLB window in the rest of BAR 0", tlb,
			map[string]string{resource: "0x1800000000 0x1800ffffff 0x14220c\n"},
			"device 0, wormhole (1e52:401e) windows", missing, "no free TLB window for window 0"},
		{"more windows than the device has", many, nil, "device 0, wormhole (1e52:401e) windows",
			missing, "no free TLB window for window 19"},
		{"cached host memory", host, nil, "coherence", missing,
			"do not see data that are only in the processor's caches"},
		{"devices need other addresses", host, nil, "inbound window", missing, "plus 0x1000000000"},
		{"no huge pages", host, nil, "huge pages", missing,
			"echo 2 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"},
		{"too few huge pages", host,
			map[string]string{"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "1"},
			"huge pages", missing, "free huge pages of 2 MiB: 1"},
		{"huge pages", host,
			map[string]string{"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "2"},
			"huge pages", fine, "free huge pages of 2 MiB: 2"},
		{"the user may see addresses", host, nil, "pagemap", fine, "shows addresses"},
		{"the user may not see addresses", host,
			map[string]string{"proc/self/status": "Uid:\t7\nCapEff:\t0\n"}, "pagemap", missing,
			"/proc/self/pagemap does not show addresses to this user"},
		{"the limit on locked memory is too low", host,
			map[string]string{"proc/self/status": "Uid:\t7\nCapEff:\t0\n",
				"proc/self/limits": "Max locked memory 65536 65536 bytes\n"}, "locked memory",
			missing, "the limit is 64 KiB, but the image locks 4112 KiB"},
		{"not enough memory", host, map[string]string{"proc/meminfo": "MemAvailable: 1024 kB\n"},
			"memory", missing, "1 MiB is available"},
		{"behind an IOMMU without vfio-pci", host,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/iommu_group": "-> ../groups/3"},
			wormholeAt + " IOMMU", missing, "build the kernel with CONFIG_VFIO_PCI"},
		{"no huge pages are needed if a driver pins memory", host,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/driver": "-> ../vfio-pci"},
			"huge pages", fine, "opened as vfio: or tt: needs no huge pages"},
		{"a driver that knows the addresses of memory", host,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/driver": "-> ../tenstorrent"},
			"inbound window", "", ""},
		{"a user with a driver", plain,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/driver": "-> ../tenstorrent",
				"proc/self/status": "Uid:\t7\nCapEff:\t0\n"}, "user", warning,
			"give the user access to the device file"},
		{"vfio-pci is a module", host,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/iommu_group": "-> ../groups/3",
				"boot/config-6.12.34-v8-16k": "CONFIG_VFIO_PCI=m\n"}, wormholeAt + " IOMMU",
			missing, "modprobe vfio-pci; echo"},
		{"behind an IOMMU with vfio-pci", host,
			map[string]string{"sys/bus/pci/devices/0001:01:00.0/iommu_group": "-> ../groups/3",
				"sys/bus/pci/devices/0001:01:00.0/driver": "-> ../vfio-pci"}, wormholeAt + " IOMMU",
			fine, "group 3; lightmetal uses the device through the driver vfio-pci"},
		{"a BAR that can be resized", "", map[string]string{resource + "0_resize": "",
			resource: "0x1800000000 0x180fffffff 0x14220c\n"}, wormholeAt + " BAR 0", warning,
			"echo 9 > /sys/bus/pci/devices/0001:01:00.0/resource0_resize"},
		{"no watchdog", "", map[string]string{"dev/watchdog0": removed,
			"sys/class/watchdog/watchdog0/identity": removed}, "watchdog", warning, ""},
		{"nothing is known about seccomp", "", map[string]string{
			"proc/sys/kernel/seccomp/actions_avail": removed,
			"boot/config-6.12.34-v8-16k":            removed}, "seccomp", warning, "unknown / "},
		{"a kernel without seccomp filters", "", map[string]string{
			"proc/sys/kernel/seccomp/actions_avail": removed,
			"boot/config-6.12.34-v8-16k":            "CONFIG_SYSFS=y\n"}, "seccomp", warning,
			"no filters / "},
		// Without a configuration, preemption is read from the kernel's version.
		{"Debian", "", preemption("#1 SMP Debian 6.1.192-2"), "preemption", warning,
			"voluntary or none"},
		{"PREEMPT", "", preemption("#1 SMP PREEMPT Debian"), "preemption", fine, "full"},
		{"PREEMPT_RT", "", preemption("#1 SMP PREEMPT_RT Debian"), "preemption", fine,
			"real time"},
		{"PREEMPT_DYNAMIC", "", preemption("#1 SMP PREEMPT_DYNAMIC Debian"), "preemption",
			warning, "unknown"},
		{"no version", "", preemption(""), "preemption", warning, "unknown"},
	} {
		var image []string
		if c.image != "" {
			image = []string{"--image", c.image}
		}
		exit, r := checkChanged(t, root, complete, c.change, image...)
		if s, text := r.findCheck(c.check); s != c.state || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s has the state %q, text %s\n\twant %s, %s\n%s", c.name, c.check, s,
				text, c.state, c.want, r.badChecks())
		}
		if (exit == 69) != (r.Missing > 0) {
			t.Errorf("%s: exit status %d, but %d checks are missing; want 69 if any is missing",
				c.name, exit, r.Missing)
		}
	}
}

// TestDeviceThatOnlyTheImageDescribesIsChecked has a device of no known board. What is wrong with
// it must be found in the files of the machine and in their copy.
func TestDeviceThatOnlyTheImageDescribesIsChecked(t *testing.T) {
	image := assemble(t, "lightmetal 1\ndevice acc abcd:0555 bar0 4KiB\nrule r bar0 widths 4\n"+
		"window regs bar0 offset 0 size 4KiB\nmain:\n  write.4 regs+0x10 0x1\n")
	const device, acc = "sys/bus/pci/devices/0000:01:00.0/", "acc 0000:01:00.0"
	const ids, on, off, vfIDs = "\xcd\xab\x55\x05", "\x02\x00", "\x00\x00", "\xff\xff\xff\xff"
	const bar, noBar, noBar64 = "\x00\x00\x40\xb0", "\x00\x00\x00\x00", "\x0c\x00\x00\x00"
	config := func(ids, command, bar, capabilities string) string {
		return ids + command + "\x10\x00" + strings.Repeat("\x00", 8) + bar +
			strings.Repeat("\x00", 32) + "\x40" + strings.Repeat("\x00", 11) + capabilities
	}
	base := readTree(t, "rpi5-wormhole.txtar")
	base[device+"vendor"], base[device+"device"] = "0xabcd\n", "0x0555\n"
	base[device+"config"] = config(ids, on, bar, "\x05\x00")
	base[device+"resource"] = "0x00000000b0400000 0x00000000b0400fff 0x0000000000040200\n"
	type files = map[string]string
	with := func(config string) files { return files{device + "config": config} }
	withoutRoom := func(config string) files {
		return files{device + "resource": "0x0 0x0 0x0\n", device + "config": config}
	}
	mounted := func(mounts string) files { return files{"proc/self/mountinfo": mounts} }
	virtual := with(config(vfIDs, off, noBar, ""))
	virtual[device+"physfn"] = "-> ../0000:00:03.0"
	const sysfs = "22 1 0:20 / /sys "
	const lost = "the device has lost its address, which is 0xb0400000 / "
	for name, c := range map[string]struct {
		change files
		check  string
		state  state
		want   string
	}{
		"nothing is wrong": {nil, acc + " sysfs", fine, "/sys is writable"},
		"a driver has it": {files{device + "driver": "-> ../../drivers/accdrv"}, acc + " driver",
			missing, "accdrv / a kernel driver uses the device"},
		"a virtual function": {virtual, acc, fine,
			"memory decoding that of its physical function 0000:00:03.0"},
		"a virtual function's BAR": {virtual, acc + " BAR 0", fine, "4 KiB at 0xb0400000"},
		"reset behind the kernel's back": {with(config(ids, off, noBar, "\x05\x00")),
			acc + " BAR 0", missing, lost + "the device was reset or without power"},
		"an endless list of capabilities": {with(config(ids, on, noBar, "\x05\x40")),
			acc + " BAR 0", missing, lost},
		"enhanced allocation": {with(config(ids, on, noBar, "\x01\x42\x14\x00")), acc + " BAR 0",
			fine, "4 KiB at 0xb0400000"},
		"no room for a 64-bit BAR": {withoutRoom(config(ids, on, noBar64, "")), acc + " BAR 0",
			missing, "not assigned / the kernel found no room for this BAR"},
		"no room for a BAR": {withoutRoom(config(ids, on, noBar, "")), acc + " BAR 0", missing,
			"boot with pci=realloc"},
		"no IOMMU mode": {files{device + "driver": "-> ../../drivers/vfio-pci",
			device + "iommu_group": "-> ../../groups/7", "dev/vfio/noiommu-7": ""},
			acc + " IOMMU", missing, "group 7 is in VFIO's no-IOMMU mode (/dev/vfio/noiommu-7) / "},
		"read-only mount": {mounted("1 1 0:1 / / rw - ext4 a rw\n" + sysfs + "ro - sysfs a rw\n"),
			acc + " sysfs", missing, "/sys is mounted read-only / "},
		"read-only file system": {mounted(sysfs + "rw - sysfs sysfs ro\n23 1 0:21 / " +
			"/sys/bus/pci/devices-x rw - tmpfs t rw\n"), acc + " sysfs", missing,
			"mount -o remount,rw /sys`"},
		"read-only mount, with a driver": {files{device + "driver": "-> ../../drivers/vfio-pci",
			"proc/self/mountinfo": sysfs + "ro - sysfs a ro\n"}, acc + " sysfs", fine, "not used"},
		"mounts unknown": {mounted(removed), acc + " sysfs", notChecked,
			"/proc/self/mountinfo cannot be read / "},
		"configuration space unreadable": {with(removed), acc, notChecked,
			"its configuration space cannot be read / "},
	} {
		t.Run(name, func(t *testing.T) {
			tree := maps.Clone(base)
			maps.Copy(tree, c.change)
			maps.DeleteFunc(tree, func(_, text string) bool { return text == removed })
			root := createTree(t, tree)
			exit, r := runCheckBoard(t, "--root", root, "--image", image)
			if s, text := r.findCheck(c.check); s != c.state || !strings.Contains(text, c.want) {
				t.Errorf("%s has the state %q, text %s; want %s, %s\n%s", c.check, s, text, c.state,
					c.want, r.badChecks())
			}
			wantExit := 69
			if c.state == fine {
				wantExit = 0
			}
			if exit != wantExit {
				t.Errorf("exit status %d, want %d\n%s", exit, wantExit, r.badChecks())
			}
			_, copied := runCheckBoard(t, "--root", collectTree(t, root), "--image", image)
			if !reflect.DeepEqual(copied, r) {
				t.Errorf("report of the copy:\n%+v\nwant:\n%+v", copied, r)
			}
		})
	}
}

// TestHostWithoutADeviceTreeIsRecognizedByItsRootPorts has a server with ACPI.
func TestHostWithoutADeviceTreeIsRecognizedByItsRootPorts(t *testing.T) {
	files := map[string]string{
		"proc/sys/kernel/osrelease":                     "6.8.0\n",
		"sys/class/dmi/id/sys_vendor":                   "GIGABYTE\n",
		"sys/class/dmi/id/product_name":                 "R272-P30-JG\n",
		"sys/bus/pci/devices/000d:00:01.0/vendor":       "0x1def\n",
		"sys/bus/pci/devices/000d:00:01.0/device":       "0xe100\n",
		"sys/bus/pci/devices/000d:01:00.0/vendor":       "0x1e52\n",
		"sys/bus/pci/devices/000d:01:00.0/device":       "0xb140\n",
		"sys/bus/pci/devices/000d:01:00.0/resource":     "0x0 0x1fffffff 0x2014220c\n",
		"sys/bus/pci/devices/000d:01:00.0/config":       strings.Repeat("\x00", 64),
		"sys/bus/pci/devices/000d:01:00.0/resource0_wc": "",
	}
	exit, r := runCheckBoard(t, "--root", createTree(t, files))
	if exit != 69 || r.Board != "altra" || r.Machine != "GIGABYTE R272-P30-JG" ||
		len(r.Devices) != 1 || r.Devices[0].Board != "blackhole" {
		t.Errorf("exit status %d, want 69; board %s, machine %s, devices %v", exit, r.Board,
			r.Machine, r.Devices)
	}
	if s, text := r.findCheck("write-combining"); s != warning || !strings.Contains(text, "82288") {
		t.Errorf("write-combining: state %q, text %s; want a warning that names erratum 82288", s,
			text)
	}
	// A board on the command line takes precedence over the recognized one.
	if _, r = runCheckBoard(t, "rpi5", "--root", createTree(t, files)); r.Board != "rpi5" {
		t.Errorf("board %s, want rpi5, the one of the command line", r.Board)
	}
}

func TestTwoTargetsUseTwoDevices(t *testing.T) {
	files := readTree(t, "rpi5-wormhole.txtar")
	for path, text := range files {
		if rest, ok := strings.CutPrefix(path, "sys/bus/pci/devices/0001:01:00.0/"); ok {
			files["sys/bus/pci/devices/0001:02:00.0/"+rest] = text
		}
	}
	files["sys/bus/pci/devices/0001:02:00.0/resource"] = "0x1800000000 0x180fffffff 0x14220c\n"
	two := assemble(t, "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n"+
		"target wormhole 1e52:401e bar0 512MiB\n"+
		"window a bar0 offset 0 size 4KiB\nwindow b bar0 offset 0 size 4KiB target 1\nmain:\n"+
		"  read.4 a+0\n  read.4 b+0\n")
	_, r := runCheckBoard(t, "--root", createTree(t, files), "--image", two)
	if s, text := r.findCheck("device 0, wormhole (1e52:401e)"); s != warning ||
		!strings.Contains(text, "2 devices have these ids") {
		t.Errorf("device 0: state %q, text %s; want a warning that 2 devices have its ids", s, text)
	}
	if s, _ := r.findCheck("device 0, wormhole (1e52:401e) BARs"); s != fine {
		t.Errorf("the first device's BARs: %q, want ok", s)
	}
	if s, _ := r.findCheck("device 1, wormhole (1e52:401e) BAR 0"); s != missing {
		t.Errorf("the second device's BAR 0: %q, want missing", s)
	}
}

// TestCheckBoardComparesTheImageWithOtherBoards checks images for boards that this machine is not,
// so that a user learns whether an image fits a board before buying it.
func TestCheckBoardComparesTheImageWithOtherBoards(t *testing.T) {
	const bar = "window w bar0 offset 0 size 4KiB\n"
	narrow := wormholeImage(t, "bar0 512MiB", bar, "  read.4 w+0\n")
	wide := wormholeImage(t, "bar0 512MiB", bar, "  read.8 w+0\n")
	const out = bar + "tensor d output uint32[16]\n"
	bulk := wormholeImage(t, "bar0 512MiB", out, "  copy.4 d[:] <- w+0 bulk\n")
	exact := wormholeImage(t, "bar0 512MiB", out, "  copy.4 d[:] <- w+0\n")
	combining := wormholeImage(t, "bar0 512MiB", "window w bar0 offset 0 size 4KiB wc\n",
		"  read.4 w+0\n")
	host := wormholeImage(t, "bar0 512MiB", bar+"window h host size 4KiB\n", "  read.4 w+0\n")
	black := assemble(t, "lightmetal 1\ntarget blackhole 1e52:b140 bar0 512MiB\n"+bar+
		"main:\n  read.4 w+0\n")
	unknown := assemble(t, "lightmetal 1\ntarget acme 1111:2222 bar0 96MiB\nrule all bar0\n"+bar+
		"main:\n  read.4 w+0\n")
	huge := assemble(t, "lightmetal 1\ntarget acme 1111:2222 bar0 129MiB\nrule all bar0\n"+bar+
		"main:\n  read.4 w+0\n")
	for _, c := range []struct {
		board, image string
		exit         int
		check        string
		want         string
	}{
		{"rpi5", narrow, 0, "device 0, wormhole fits",
			"pcie1, Gen2 x1, the flat cable connector (BAR 0 at 0x400000000, 2 at 0x0, 4 at " +
				"0x420000000)"},
		{"imx8mp", narrow, 69, "device 0, wormhole fits", "no PCIe port has room for the BARs; " +
			"pcie0: 32-bit of 127 MiB"},
		{"rpi5", black, 69, "device 0, blackhole fits", "4: 32 GiB"},
		{"altra", black, 0, "device 0, blackhole fits", "RCA2"},
		{"qemu-virt", black, 0, "device 0, blackhole fits", "pcie@10000000"},
		{"imx8mp", unknown, 69, "device 0, acme fits", "0: 128 MiB"},
		{"j721e", huge, 0, "device 0, acme fits", "0 at 0x10000000"},
		{"cm4", narrow, 0, "8-byte accesses", "the image does not use the feature"},
		{"cm4", wide, 69, "8-byte accesses", "make the image with width 4"},
		{"cm4", bulk, 69, "8-byte accesses", "make the image with width 4"},
		{"cm4", exact, 0, "8-byte accesses", "the image does not use the feature"},
		{"cm4", combining, 69, "write-combining", "issue 4928"},
		{"altra", combining, 69, "write-combining", "CONFIG_ALTRA_ERRATUM_82288=y"},
		{"altra", narrow, 0, "write-combining", "the image does not use the feature"},
		{"s32g3", combining, 0, "write-combining", "not known"},
		{"rpi5", combining, 0, "write-combining", "works"},
		{"rpi5", host, 69, "coherence", "the processor or the device may read old data"},
		{"cm4", host, 69, "inbound window", "first 3 GiB"},
		{"s32g3", host, 0, "coherence", "devices see"},
		{"orin-agx", host, 0, "coherence", "devices see"},
	} {
		exit, r := runCheckBoard(t, c.board, "--image", c.image)
		s, text := r.findCheck(c.check)
		if exit != c.exit || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit status %d, %s has the state %q, text %s\n\twant %d, %s\n%s", c.board,
				exit, c.check, s, text, c.exit, c.want, r.badChecks())
		}
		if r.Board != c.board || len(r.Facts) < 10 {
			t.Errorf("%s: the report is of board %s and has %d facts, want at least 10", c.board,
				r.Board, len(r.Facts))
		}
	}
}

func TestBoardFactsHaveTheirSourceOnALineOfItsOwn(t *testing.T) {
	exit, out, stderr := lm(t, "check-board", "qemu-virt")
	const line = "\n         from  "
	if exit != 0 || strings.Count(out, line) < 5 || strings.Contains(out, `\n`) {
		t.Errorf("exit status %d, want 0; %s\n%s", exit, stderr, out)
	}
}

func TestKernelConfigurationIsCheckedForABoard(t *testing.T) {
	var names strings.Builder
	for _, o := range hosts.KernelOptions(hosts.ByName("altra")) {
		names.WriteString(o.Name + "=y\n")
	}
	textConfig := tempFile(t, "config", names.String()+"CONFIG_ALTRA_ERRATUM_82288=y\n")
	exit, r := runCheckBoard(t, "altra", "--kernel-config", textConfig)
	if s, text := r.findCheck("write-combining"); exit != 0 || s != fine ||
		!strings.Contains(text, "works around") {
		t.Errorf("exit status %d, want 0; write-combining: %q, %s\n%s", exit, s, text,
			r.badChecks())
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprint(w, strings.Replace(names.String(), "CONFIG_ACPI=y", "CONFIG_ACPI=m", 1))
	w.Close()
	gzipConfig := tempFile(t, "config.gz", packed.String())
	exit, r = runCheckBoard(t, "altra", "--kernel-config", gzipConfig)
	if s, _ := r.findCheck("CONFIG_ACPI"); exit != 0 || s != warning {
		t.Errorf("exit status %d, want 0; CONFIG_ACPI=m: %q, want a warning\n%s", exit, s,
			r.badChecks())
	}
	exit, r = runCheckBoard(t, "rpi5", "--kernel-config", textConfig)
	if s, _ := r.findCheck("CONFIG_PCIE_BRCMSTB"); exit != 69 || s != missing {
		t.Errorf("exit status %d, want 69; CONFIG_PCIE_BRCMSTB: %q, want missing\n%s", exit, s,
			r.badChecks())
	}
}

func TestListNamesEveryBoardAndItsSources(t *testing.T) {
	exit, stdout, _ := lm(t, "check-board", "--list", "--json")
	var list []hostInfo
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || exit != 0 ||
		len(list) != len(hosts.All()) {
		t.Fatalf("exit status %d, want 0; %d boards (%v), want %d", exit, len(list), err,
			len(hosts.All()))
	}
	for _, h := range list {
		for _, f := range h.Facts {
			if (f.Source == "") != (f.Value == "unknown") {
				t.Errorf("%s, %s: value %s has the source %q; all but unknown values need one",
					h.Name, f.Name, f.Value, f.Source)
			}
		}
	}
	_, table, _ := lm(t, "check-board", "--list")
	for _, h := range hosts.All() {
		if !strings.Contains(table, "\n"+h.Name+" ") {
			t.Errorf("%s is not in the table", h.Name)
		}
	}
}

func TestTextReportPrintsReasonAndRemedy(t *testing.T) {
	files := readTree(t, "rpi5-wormhole.txtar")
	files["sys/kernel/security/lockdown"] = "none [confidentiality]"
	exit, stdout, stderr := lm(t, "check-board", "--root", createTree(t, files))
	want := "\nmissing  lockdown: confidentiality\n         why   a kernel in lockdown does " +
		"not allow a program to map a BAR, even as root\n" +
		"         next  start the kernel without lockdown= on its command line;"
	if exit != 69 || stderr != "" || !strings.Contains(stdout, want) ||
		!strings.HasPrefix(stdout,
			"board    Raspberry Pi 5 (rpi5)\nmachine  Raspberry Pi 5 Model B Rev 1.0, Linux "+
				"6.12.34-v8-16k\n") ||
		!strings.HasSuffix(stdout, "\nmissing: 1, not checked: 0, warnings: 1\n") {
		t.Errorf("exit status %d, want 69; output: %s%s", exit, stdout, stderr)
	}
}

// collectTree runs the script that lm check-board --collect prints, and returns the directory with
// the copied files.
func collectTree(t *testing.T, args ...string) string {
	t.Helper()
	_, script, _ := lm(t, "check-board", "--collect")
	copied := filepath.Join(t.TempDir(), "copy")
	run := exec.Command("sh", append([]string{"-s", copied}, args...)...)
	run.Stdin = strings.NewReader(script)
	if out, err := run.CombinedOutput(); err != nil || len(out) != 0 {
		t.Fatalf("the script of --collect: %v, output %s", err, out)
	}
	return copied
}

// TestCollectedTreeHasTheReportOfTheMachine compares the report on this machine with the report on
// its copy.
func TestCollectedTreeHasTheReportOfTheMachine(t *testing.T) {
	_, here := runCheckBoard(t)
	_, there := runCheckBoard(t, "--root", collectTree(t))
	for _, f := range here.Checks {
		s, text := there.findCheck(f.Check)
		// The texts of these two checks have paths, which differ in the copy.
		if s != f.State || f.Check != "board" && f.Check != "kernel configuration" &&
			text != f.Found+" / "+f.Why+" / "+f.Next {
			t.Errorf("%s: on the machine %s %s, in its copy %s %s", f.Check, f.State, f.Found, s,
				text)
		}
	}
	if len(here.Checks) != len(there.Checks) || here.Kernel != there.Kernel || here.Kernel == "" {
		t.Errorf("the machine has %d checks and kernel %q, its copy %d and %q", len(here.Checks),
			here.Kernel, len(there.Checks), there.Kernel)
	}
}

func TestCollectedTreeHasAllFilesOfTheReport(t *testing.T) {
	for _, name := range []string{"rpi5-wormhole.txtar", "qemu-virt.txtar"} {
		files := readTree(t, name)
		root := createTree(t, files)
		copied := collectTree(t, root)
		for path := range files {
			if _, err := os.Lstat(filepath.Join(copied, path)); err != nil {
				t.Errorf("%s: a file of the tree is not in the copy: %v", name, err)
			}
		}
		_, want := runCheckBoard(t, "--root", root)
		if _, got := runCheckBoard(t, "--root", copied); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestVirtualMachineIsRecognizedAndChecked(t *testing.T) {
	exit, r := runCheckBoard(t, "--root", createTree(t, readTree(t, "qemu-virt.txtar")))
	if exit != 69 || r.Board != "qemu-virt" || r.Machine != "linux,dummy-virt" || r.Missing != 1 {
		t.Errorf("exit status %d, want 69; board %s, machine %s\n%s", exit, r.Board, r.Machine,
			r.badChecks())
	}
	for check, want := range map[string]struct {
		state state
		text  string
	}{
		"edu 0000:00:02.0 IOMMU": {fine,
			"group 1; lightmetal uses the device through the driver vfio-pci"},
		"edu 0000:00:02.0 driver": {fine, "vfio:0000:00:02.0"},
		// The user of ivshmem chooses the size, so any size is correct.
		"ivshmem 0000:00:03.0 BAR 2": {fine, "1 MiB at 0x8001000000, write-combining possible"},
		"ivshmem 0000:00:03.0 IOMMU": {fine, "group 2; the IOMMU does not translate addresses"},
		"nvme 0000:00:04.0 driver":   {missing, "nvme / a kernel driver uses the device"},
		"lockdown":                   {warning, "mount -t securityfs"},
		"kernel configuration":       {warning, "not found"},
	} {
		if s, text := r.findCheck(check); s != want.state || !strings.Contains(text, want.text) {
			t.Errorf("%s: state %q, text %s; want %s, %s", check, s, text, want.state, want.text)
		}
	}
	// The driver of another device than the image's does not count.
	image := assemble(t, edu+"main:\n  read.4 r+0\n")
	if exit, r = runCheckBoard(t, "--image", image, "--root",
		createTree(t, readTree(t, "qemu-virt.txtar"))); exit != 0 || len(r.Devices) != 1 {
		t.Errorf("exit status %d, want 0; devices %v\n%s", exit, r.Devices, r.badChecks())
	}
}

// TestAnyBytesInATreeProduceAReport replaces each file of a tree with invalid texts: a copied tree
// is untrusted.
func TestAnyBytesInATreeProduceAReport(t *testing.T) {
	complete := readTree(t, "rpi5-wormhole.txtar")
	root := createTree(t, complete)
	for path := range complete {
		for _, text := range []string{"", "\x00", "\xff\xff\xff\xff\xff\xff",
			strings.Repeat("9", 100), "0x" + strings.Repeat("f", 17), "->/", ":[", "\x1f\x8b",
			"-1\n-1 -1\n"} {
			changes := map[string]string{path: text}
			if exit, _ := checkChanged(t, root, complete, changes); exit != 0 && exit != 69 {
				t.Errorf("with %s %.40q, the exit status is %d, want 0 or 69", path, text, exit)
			}
		}
	}
}
