package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func init() {
	scenarios["served"] = served
	scenarios["faulty"] = faulty
}

// faulty replays the one image of /images on the last device with the given
// ids, which is the served one, and wants an exit status: faulty EXIT IDS [FLAG...].
func faulty(args []string) int {
	want, _ := strconv.Atoi(args[0]) // of a test's own
	devices, err := ready("pci", args[1])
	images, _ := filepath.Glob("/images/*.lmb")
	if err != nil || len(images) != 1 {
		fmt.Println("inside:", err, images)
		return 1
	}
	flags := append([]string{"-device", devices[len(devices)-1]}, args[2:]...)
	if !expect(want, "", "/lmrun", append(flags, images[0])...) {
		return 1
	}
	return 0
}

// served replays every image of /images on each device with the given ids, by
// a lane and with lmrun's further flags, and wants the outputs to be what
// /golden has of them: served LANE IDS [FLAG...].
func served(args []string) int {
	devices, err := ready(args[0], args[1])
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	images, _ := filepath.Glob("/images/*.lmb") // the pattern is right
	failed := len(images) == 0
	for _, device := range devices {
		for _, image := range images {
			failed = !golden(image, append([]string{"-device", device}, args[2:]...)) || failed
		}
	}
	fmt.Printf("inside: %d images replayed on %d devices\n", len(images), len(devices))
	for _, line := range kernelLines() {
		if strings.Contains(line, "tenstorrent") {
			fmt.Print("inside: the driver says: ", line)
		}
	}
	if failed {
		fmt.Print(kernelLog())
		return 1
	}
	return 0
}

// kernelLog is the end of what the kernel said.
func kernelLog() string {
	lines := kernelLines()
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// kernelLines is what the kernel said, with <level> in front of each line.
func kernelLines() []string {
	text := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return []string{"inside: " + err.Error()}
	}
	return strings.SplitAfter(string(text[:n]), "\n")
}

// golden replays an image, and wants the outputs of /golden.
func golden(image string, flags []string) bool {
	files, _ := filepath.Glob("/golden/" + strings.TrimSuffix(filepath.Base(image), ".lmb") + "/*")
	for _, file := range files {
		flags = append(flags, "-output", filepath.Base(file)+"=/tmp/"+filepath.Base(file))
	}
	if !expect(0, "done", "/lmrun", append(flags, image)...) {
		return false
	}
	for _, file := range files {
		if !equalFiles(file, "/tmp/"+filepath.Base(file)) {
			return false
		}
	}
	return true
}

// ready hands the devices with these ids to a lane and gives their names there.
func ready(lane, ids string) (names []string, err error) {
	switch lane {
	case "tt", "pci":
		err = reserveHugePages(8)
	default:
		err = insmod("virtio-iommu.ko", "vfio.ko", "vfio_virqfd.ko", "vfio_iommu_type1.ko",
			"vfio-pci-core.ko", "vfio-pci.ko")
	}
	if err != nil {
		return nil, err
	}
	if lane == "tt" {
		return []string{"tt:" + card}, insmod("tenstorrent.ko")
	}
	found, err := addresses(ids)
	for _, at := range found {
		names = append(names, lane+":"+at)
		if lane == "vfio" && err == nil {
			err = bind("vfio-pci", at)
		}
	}
	return names, err
}

// equalFiles complains where two files differ.
func equalFiles(want, got string) bool {
	a, err := os.ReadFile(want)
	b, err2 := os.ReadFile(got)
	if err == nil && err2 == nil && bytes.Equal(a, b) {
		return true
	}
	fmt.Printf("inside: %s and %s differ, %v, %v\n", want, got, err, err2)
	return false
}
