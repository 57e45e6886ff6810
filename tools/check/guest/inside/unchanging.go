package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { steps["unchanging"] = step{"", unchanging} }

// Mount points of one file system. The second is read-only.
const (
	mountPoint    = "/disk"
	readOnlyMount = "/bound"
)

// unchanging replays signed files, and tries to change each while it is replayed. A file
// with fs-verity must stay in the page cache; any other must be copied to private memory first.
func unchanging(*guest, []string) error {
	if err := mountFileSystem(); err != nil {
		return err
	}
	plain, sealed := "/plain.lmb", "/verity.lmb"
	return errors.Join(
		replayChanged(mountPoint+plain, mountPoint+plain, false, nil),
		replayChanged(readOnlyMount+plain, mountPoint+plain, false, nil),
		// only the mount is read-only
		replayChanged(readOnlyMount+plain, readOnlyMount+plain, false, unix.EROFS),
		replayChanged(mountPoint+sealed, mountPoint+sealed, true, unix.EPERM),
		unix.Mount("", mountPoint, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		replayChanged(mountPoint+plain, mountPoint+plain, false, unix.EROFS),
		replayChanged(readOnlyMount+plain, mountPoint+plain, false, unix.EROFS),
		replayChanged("/signed.lmb", "/signed.lmb", false, nil), // a file system without a device
	)
}

// mountFileSystem mounts the first drive with an ext4 file system, writes the signed image there
// twice, and enables fs-verity for the second file.
func mountFileSystem() error {
	signed, err := os.ReadFile("/signed.lmb")
	if err != nil {
		return err
	}
	for _, path := range []string{mountPoint, readOnlyMount} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	drives, _ := filepath.Glob("/dev/nvme*n1")
	err = fmt.Errorf("no drive has a file system: %q", drives)
	for _, path := range drives {
		if err = unix.Mount(path, mountPoint, "ext4", 0, ""); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(mountPoint+"/plain.lmb", signed, 0o644),
		os.WriteFile(mountPoint+"/verity.lmb", signed, 0o644),
		enableVerity(mountPoint+"/verity.lmb"))
	unix.Sync()
	return errors.Join(err, unix.Mount(mountPoint, readOnlyMount, "", unix.MS_BIND, ""),
		unix.Mount("", readOnlyMount, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

// enableVerity enables fs-verity for a file. The kernel then checks each block with a tree of
// SHA-256 checksums, and rejects opening the file for writing (Linux,
// Documentation/filesystems/fsverity.rst).
func enableVerity(path string) error {
	const request = 0x40806685 // FS_IOC_ENABLE_VERITY
	argument := struct {
		version, algorithm, blockSize uint32
		_                             [29]uint32
	}{version: 1, algorithm: 1, blockSize: 4096}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request,
		uintptr(unsafe.Pointer(&argument))); errno != 0 {
		return fmt.Errorf("fs-verity of %s: %w", path, errno)
	}
	return nil
}

// replayChanged replays a signed file. While lmrun waits for its input, it overwrites a part of the
// payload through writePath, which must fail with refused, or succeed if that is nil. The data that
// the device got must be the signed payload. mapped is whether lmrun's memory must contain the
// pages of the file itself, according to /proc/PID/maps.
func replayChanged(path, writePath string, mapped bool, refused error) error {
	signed, err := os.ReadFile("/signed.lmb")
	if err != nil {
		return err
	}
	_ = os.Remove("/tmp/out")
	_ = os.Remove("/tmp/in")
	if err := unix.Mkfifo("/tmp/in", 0o600); err != nil {
		return err
	}
	text := new(strings.Builder)
	c := exec.Command("/lmrun", "-key", "/keys", "-loop", "1", "-input", "go=/tmp/in", "-output",
		"got=/tmp/out", path)
	c.Stdout, c.Stderr = text, text
	if err := c.Start(); err != nil {
		return err
	}
	// opening waits for lmrun, which has verified the image by then
	pipe, err := os.OpenFile("/tmp/in", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid))
	changed := overwrite(writePath, bytes.Repeat([]byte{0xee}, 4096), int64(len(signed)/2))
	_, writeErr := pipe.Write(make([]byte, 4))
	err = errors.Join(err, writeErr, pipe.Close())
	if waitErr := c.Wait(); waitErr != nil {
		err = errors.Join(err, waitErr, errors.New(text.String()))
	}
	got, _ := os.ReadFile("/tmp/out")
	switch {
	case err != nil:
	case strings.Contains(string(maps), path) != mapped:
		err = fmt.Errorf("mapped should be %v:\n%s", mapped, maps)
	case !errors.Is(changed, refused):
		err = fmt.Errorf("a writer got %v, want %v", changed, refused)
	case len(got) < 1<<16 || !bytes.Contains(signed, got):
		err = fmt.Errorf("the device got other data than were signed: %d bytes, % x", len(got),
			got[:min(16, len(got))])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if changed == nil {
		return overwrite(writePath, signed, 0)
	}
	return nil
}

func overwrite(path string, data []byte, at int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, at)
	return errors.Join(err, file.Close())
}
