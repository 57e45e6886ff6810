// Inside is process 1 of the guest in tests that need more than one run of
// lmrun: it carries out one scenario, named by the first argument, and ends as
// lmrun does there, with a line `lmrun: exit N` and the power off.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// scenarios by name. A scenario gives the exit status: 0 where all it looked
// at was right.
var scenarios = map[string]func(args []string) int{}

func main() {
	if os.Getpid() != 1 { // a scenario's own child
		os.Exit(scenarios[os.Args[1]](os.Args[2:]))
	}
	for _, m := range [...]struct{ kind, path string }{{"proc", "/proc"}, {"sysfs", "/sys"},
		{"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}} {
		_ = os.MkdirAll(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			fmt.Println("inside: mounting", m.path, err)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	exit := 64
	if len(os.Args) > 1 && scenarios[os.Args[1]] != nil {
		exit = scenarios[os.Args[1]](os.Args[2:])
	} else {
		fmt.Println("inside: no such scenario:", os.Args[1:])
	}
	fmt.Printf("lmrun: exit %d\n", exit)
	unix.Sync()
	_ = unix.IoctlSetInt(1, unix.TCSBRK, 1) // the kernel's last words do not wait for ours
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// runLimit bounds every program that a scenario starts, and every wait for one.
// Only what hangs takes so long, however slow the host is.
const runLimit = 2 * time.Minute

// run starts a program, waits for it and gives what it printed on both outputs
// and its exit status, or 128 and the number of the signal that ended it.
func run(program string, args ...string) (output string, exit int) {
	text := new(strings.Builder)
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = text, text
	if err := c.Start(); err != nil {
		return err.Error(), 127
	}
	exit = finish(c)
	return text.String(), exit
}

// finish waits for a program that has so long, and gives its exit status.
func finish(c *exec.Cmd) (exit int) {
	limit := time.AfterFunc(runLimit, func() {
		fmt.Println("inside: still running, and killed:", c.Args)
		_ = c.Process.Kill()
	})
	defer limit.Stop()
	_ = c.Wait()
	return status(c.ProcessState)
}

func status(state *os.ProcessState) int {
	if wait := state.Sys().(syscall.WaitStatus); wait.Signaled() {
		return 128 + int(wait.Signal())
	}
	return state.ExitCode()
}

// spawn starts a program whose output goes to the console.
func spawn(program string, args ...string) (*exec.Cmd, error) {
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c, c.Start()
}

// expect runs a program and complains unless it exits with want and its
// output has the text in it.
func expect(want int, text, program string, args ...string) bool {
	output, exit := run(program, args...)
	return as(want, text, output, exit, append([]string{program}, args...))
}

// as complains unless a program ended and spoke as it should.
func as(want int, text, output string, exit int, program []string) bool {
	if exit == want && strings.Contains(output, text) {
		return true
	}
	fmt.Printf("inside: %s: exit %d, want %d with %q; it said:\n%s\n", strings.Join(program, " "),
		exit, want, text, output)
	return false
}

// insmod loads kernel modules from /modules, in order.
func insmod(names ...string) error {
	for _, name := range names {
		file, err := os.Open(filepath.Join("/modules", name))
		// in the others from Linux 6.4 on; of a kernel that has it
		if os.IsNotExist(err) && (name == "vfio_virqfd.ko" || name == "virtio-iommu.ko") {
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

const devices = "/sys/bus/pci/devices"

// address finds the first PCI function with these ids, "1234:11e8".
func address(ids string) (string, error) {
	found, err := addresses(ids)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// addresses finds all PCI functions with these ids, in the order of their
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
		return nil, fmt.Errorf("no PCI function %s", ids)
	}
	return found, nil
}

// bind gives a PCI function to a driver.
func bind(driver, address string) error {
	folder := filepath.Join(devices, address)
	if err := os.WriteFile(filepath.Join(folder, "driver_override"), []byte(driver),
		0); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, "driver")); err == nil {
		if err := os.WriteFile(filepath.Join(folder, "driver", "unbind"), []byte(address),
			0); err != nil {
			return err
		}
	}
	return os.WriteFile("/sys/bus/pci/drivers/"+driver+"/bind", []byte(address), 0)
}
