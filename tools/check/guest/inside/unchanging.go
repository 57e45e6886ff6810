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

// Places of one file system: where it is mounted, and where that mount is
// bound read-only.
const (
	disk  = "/disk"
	bound = "/bound"
)

// unchanging replays signed files that somebody can change, and such that
// nobody can, and tries to change each while it is replayed: the payload of the
// latter alone stays in the page cache.
func unchanging(*guest, []string) error {
	if err := fileSystem(); err != nil {
		return err
	}
	plain, sealed := "/plain.lmb", "/verity.lmb"
	return errors.Join(
		replayChanged(disk+plain, disk+plain, false, nil),
		replayChanged(bound+plain, disk+plain, false, nil), // read-only is the mount alone
		replayChanged(bound+plain, bound+plain, false, unix.EROFS),
		replayChanged(disk+sealed, disk+sealed, true, unix.EPERM),
		unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		replayChanged(disk+plain, disk+plain, true, unix.EROFS),
		replayChanged(bound+plain, disk+plain, true, unix.EROFS),
		replayChanged("/signed.lmb", "/signed.lmb", false, nil), // no file system on a device
	)
}

// fileSystem mounts the first drive that is ext4, puts the signed image there
// twice, and has fs-verity keep one of the two.
func fileSystem() error {
	signed, err := os.ReadFile("/signed.lmb")
	if err != nil {
		return err
	}
	for _, path := range []string{disk, bound} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	drives, _ := filepath.Glob("/dev/nvme*n1")
	err = fmt.Errorf("no drive has a file system: %q", drives)
	for _, path := range drives {
		if err = unix.Mount(path, disk, "ext4", 0, ""); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(disk+"/plain.lmb", signed, 0o644),
		os.WriteFile(disk+"/verity.lmb", signed, 0o644), enableVerity(disk+"/verity.lmb"))
	unix.Sync()
	return errors.Join(err, unix.Mount(disk, bound, "", unix.MS_BIND, ""),
		unix.Mount("", bound, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

// enableVerity has the kernel hold a file against a tree of SHA-256 of its
// blocks from now on, and refuse to open it for writing
// (Linux, Documentation/filesystems/fsverity.rst).
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

// replayChanged replays a signed file and, while lmrun waits for its input,
// writes over the payload by another path, which is to end in refused. What the
// device got is compared with the payload as it was signed; mapped is whether
// the file's own pages are in lmrun's memory, by the kernel's list.
func replayChanged(path, through string, mapped bool, refused error) error {
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
	// waits for lmrun, which has verified by then
	pipe, err := os.OpenFile("/tmp/in", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid))
	changed := overwrite(through, bytes.Repeat([]byte{0xee}, 4096), int64(len(signed)/2))
	_, writeErr := pipe.Write(make([]byte, 4))
	err = errors.Join(err, writeErr, pipe.Close())
	if bad := c.Wait(); bad != nil {
		err = errors.Join(err, bad, errors.New(text.String()))
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
		return overwrite(through, signed, 0)
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
