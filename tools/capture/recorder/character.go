//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// characterFile matches the character devices of the drivers gasket (Coral) and xdma (AMD), which
// map a BAR: an offset in the file is the offset in the BAR.
var characterFile = regexp.MustCompile(`^/dev/(?:apex_\d+|(xdma\d+)_(user|control|bypass))$`)

// characterTarget returns what a program maps from a file that characterFile matches.
func (r *recording) characterTarget(t *thread, fd int, path string, offset uint64) (
	*mapTarget, error) {
	var info unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &info); err != nil {
		return nil, err
	}
	folder := driverFolder(&info)
	bars, err := barRanges(folder)
	if err != nil {
		return nil, err
	}
	index, err := characterBAR(path, func(i int) bool { return bars[i].size > 0 })
	if err != nil {
		return nil, err
	}
	r.reportDriver(path)
	return r.pciTarget(folder, index, offset)
}

// driverFolder returns the directory in /sys of the device to which a character device belongs.
func driverFolder(info *unix.Stat_t) string {
	return fmt.Sprintf("/sys/dev/char/%d:%d/device", unix.Major(uint64(info.Rdev)),
		unix.Minor(uint64(info.Rdev)))
}

// reportDriver reports once that system calls of a character device may access the device.
func (r *recording) reportDriver(path string) {
	if !r.reportedOnce[path] {
		r.reportedOnce[path] = true
		r.reportEvent("what the driver of %s does in system calls is not recorded", path)
	}
}

// characterBAR returns the BAR that a character device maps. The driver xdma takes the BARs in the
// order user, control, bypass, and makes no file for one that the card lacks (libxdma.c,
// identify_bars).
func characterBAR(path string, exists func(bar int) bool) (int, error) {
	const apexBAR = 2
	name := characterFile.FindStringSubmatch(path)
	if name[1] == "" {
		return apexBAR, nil
	}
	var bars []int
	for i := range 6 {
		if exists(i) {
			bars = append(bars, i)
		}
	}
	at := 0
	for _, kind := range []string{"user", "control", "bypass"} {
		file := filepath.Join(deviceFolder, name[1]+"_"+kind)
		_, err := os.Stat(file)
		switch {
		case kind == name[2] && at < len(bars) && len(bars) <= 3:
			return bars[at], nil
		case err == nil:
			at++
		}
	}
	return 0, fmt.Errorf("the BAR of %s is unknown; use --file %[1]s=BAR:SIZE", path)
}

// deviceFolder has the device files; a test replaces it.
var deviceFolder = "/dev"
