package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func init() { scenarios["served"] = served }

// served replays every image of /images on the one device with the given ids,
// by a lane and with lmrun's further flags, and wants the outputs to be what
// /golden has of them: served LANE IDS [FLAG...].
func served(args []string) int {
	device, err := ready(args[0], args[1])
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	images, _ := filepath.Glob("/images/*.lmb") // the pattern is right
	failed := len(images) == 0
	for _, image := range images {
		flags := append([]string{"-device", device}, args[2:]...)
		golden, _ := filepath.Glob("/golden/" + strings.TrimSuffix(filepath.Base(image), ".lmb") + "/*")
		for _, file := range golden {
			flags = append(flags, "-output", filepath.Base(file)+"=/tmp/"+filepath.Base(file))
		}
		if !expect(0, "done", "/lmrun", append(flags, image)...) {
			failed = true
			continue
		}
		for _, file := range golden {
			failed = !equalFiles(file, "/tmp/"+filepath.Base(file)) || failed
		}
	}
	fmt.Printf("inside: %d images replayed\n", len(images))
	if failed {
		return 1
	}
	return 0
}

// ready hands the device with these ids to a lane and gives its name there.
func ready(lane, ids string) (device string, err error) {
	at, err := address(ids)
	if err != nil {
		return "", err
	}
	if lane == "pci" {
		return "pci:" + at, os.WriteFile("/proc/sys/vm/nr_hugepages", []byte("8"), 0)
	}
	if err := insmod("virtio-iommu.ko", "vfio.ko", "vfio_iommu_type1.ko", "vfio-pci-core.ko", "vfio-pci.ko"); err != nil {
		return "", err
	}
	return "vfio:" + at, bind("vfio-pci", at)
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
