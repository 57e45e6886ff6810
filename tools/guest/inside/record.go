package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() { scenarios["record"] = recorded }

// byUIO are modules, and the names of their drivers: of a card that, as edu, has
// its registers in BAR 0, and of any that interrupts by a line.
var byUIO = map[string][2]string{"uio": {"uio_cif.ko", "hilscher"}, "uio_pci_generic": {"uio_pci_generic.ko", "uio_pci_generic"}}

// recorded runs a program of this guest under lm record, on a resource of the
// only device with these ids, or on the device by VFIO, and prints the record:
//
//	IDS RESOURCE|vfio|uio|uio_pci_generic|tt [SECONDS]
//
// With SECONDS a program that hangs for so long is ended, and begun again.
// The program and its arguments are the lines of /arguments. PATH in them is the resource's path, DEVICE the device's name.
func recorded(args []string) int {
	at, err := address(args[0])
	if args[1] == "tt" {
		_, err = ready("tt", args[0])
	} else if driver := byUIO[args[1]]; driver[0] != "" {
		if err = insmod("uio.ko", driver[0]); err == nil {
			err = bind(driver[1], at)
		}
	} else if err == nil && args[1] == "vfio" {
		err = (&bench{lane: "vfio", edu: at, ivshmem: at, nvme: at}).prepare()
	} else if err == nil {
		err = os.WriteFile(filepath.Join(devices, at, "enable"), []byte("1"), 0)
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	prepareDPDK()
	lines, _ := os.ReadFile("/arguments")
	program := strings.Split(strings.NewReplacer("PATH", filepath.Join(devices, at, args[1]), "DEVICE", at).Replace(string(lines)), "\n")
	limit := 4 * time.Minute
	attempts := 1
	if len(args) > 2 { // each so many seconds
		seconds, _ := strconv.Atoi(args[2])
		limit, attempts = time.Duration(seconds)*time.Second, 8
	}
	exit := 1
	for n := 0; n < attempts && exit != 0; n++ {
		if exit, err = recordedOnce(program, limit); err != nil {
			fmt.Println("inside:", err)
			return 1
		}
	}
	return exit
}

// prepareDPDK makes what testpmd wants of a machine.
func prepareDPDK() {
	for _, folder := range []string{"/dev/hugepages", "/run", "/var/run"} {
		_ = os.MkdirAll(folder, 0o755)
	}
	_ = os.Chmod("/", 0o755)
	_ = unix.Mount("hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, "")
}

// recordedOnce runs a program under lm record, which is asked to end after a
// limit, and prints the record.
func recordedOnce(program []string, limit time.Duration) (exit int, err error) {
	const out = "/tmp/out.record"
	if !strings.HasPrefix(program[0], "--") { // else flags of lm come first
		program = append([]string{"--"}, program...)
	}
	c := exec.Command("/lm", append([]string{"record", "-o", out}, program...)...)
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	if err := c.Start(); err != nil {
		return 0, err
	}
	late := time.AfterFunc(limit, func() { _ = c.Process.Signal(unix.SIGTERM) })
	_ = c.Wait()
	late.Stop()
	data, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	text := base64.StdEncoding.EncodeToString(data)
	for len(text) > 0 {
		n := min(len(text), 120)
		fmt.Println("record:", text[:n])
		text = text[n:]
	}
	fmt.Println("record: end")
	return status(c.ProcessState), nil
}
