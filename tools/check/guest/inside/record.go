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
var byUIO = map[string][2]string{"uio": {"uio_cif.ko", "hilscher"},
	"uio_pci_generic": {"uio_pci_generic.ko", "uio_pci_generic"}}

// recorded runs a program of this guest under lm record, on a resource of the
// only device with these ids, or on the device by VFIO, and prints the record:
//
//	IDS RESOURCE|vfio|uio|uio_pci_generic|tt [SECONDS]
//
// With SECONDS a program that hangs for so long is ended, and begun again.
// The programs are parts of /arguments with an empty line between them, the lines
// of one are it and its arguments. In them PATH is the resource's path, DEVICE the
// device's name, and ADDRESS where its BAR 0 lies.
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
	for _, program := range programs(at, args[1]) {
		if exit := recordedTo(program, args[2:]); exit != 0 {
			return exit
		}
	}
	return 0
}

// programs are what is to run, with the device's names in it.
func programs(at, resource string) (list [][]string) {
	lines, _ := os.ReadFile("/arguments")
	bars, _ := os.ReadFile(filepath.Join(devices, at, "resource"))
	first, _, _ := strings.Cut(string(bars), " ")
	names := strings.NewReplacer("PATH", filepath.Join(devices, at, resource), "DEVICE", at,
		"ADDRESS", first)
	for part := range strings.SplitSeq(names.Replace(string(lines)), "\n\n") {
		list = append(list, strings.Split(part, "\n"))
	}
	return list
}

// recordedTo has a program run until it ends well, or too often.
func recordedTo(program, seconds []string) (exit int) {
	limit, attempts := 4*time.Minute, 1
	if len(seconds) > 0 { // each so many seconds
		n, _ := strconv.Atoi(seconds[0])
		limit, attempts = time.Duration(n)*time.Second, 8
	}
	exit = 1
	for n := 0; n < attempts && exit != 0; n++ {
		var err error
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
