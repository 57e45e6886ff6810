package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// tree is the root directory of a machine, or of a copy of some of its files. A file that cannot be
// read counts as absent.
type tree string

// textMax is the largest number of bytes that are read from a file. A kernel configuration has 300
// KB, but files of a copied tree may have any size.
const textMax = 4 << 20

func (t tree) readBytes(path string) (data []byte) {
	_ = fail.Try(func() {
		file := openFile(filepath.Join(string(t), path))
		defer file.Close()
		data, _ = io.ReadAll(io.LimitReader(file, textMax))
	})
	return data
}

// readText returns the content of a file, without blanks and zero bytes at both ends.
func (t tree) readText(path string) string {
	return strings.Trim(string(t.readBytes(path)), "\x00 \t\r\n")
}

// readNumber returns the number that a file contains, decimal or with 0x.
func (t tree) readNumber(path string) (uint64, bool) {
	v, err := strconv.ParseUint(t.readText(path), 0, 64)
	return v, err == nil
}

// linkBase returns the last element of the target of a symbolic link, empty if there is none.
func (t tree) linkBase(path string) string {
	to, err := os.Readlink(filepath.Join(string(t), path))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

func (t tree) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(string(t), path))
	return err == nil
}

// listDirectory returns the names in a directory, sorted.
func (t tree) listDirectory(path string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(string(t), path))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// mountOf returns the directory at which the file system with this path is mounted, and whether it
// is mounted read-only. The directory is empty if /proc/self/mountinfo cannot be read.
func (t tree) mountOf(path string) (directory string, readOnly bool) {
	for line := range strings.Lines(t.readText("/proc/self/mountinfo")) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): 4 directory, 5 options, last: options
		isAbove := len(f) > 5 && strings.HasPrefix(path+"/", strings.TrimSuffix(f[4], "/")+"/")
		if isAbove && len(f[4]) >= len(directory) {
			options := f[5] + "," + f[len(f)-1]
			directory, readOnly = f[4], slices.Contains(strings.Split(options, ","), "ro")
		}
	}
	return directory, readOnly
}

// procField returns the first value after a label at the start of a line, as in files of /proc:
// "VmLck:   0 kB".
func procField(text, label string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

// kernelConfig contains the options that a kernel was built with. In the zero value, they are
// unknown.
type kernelConfig struct {
	from    string            // file it was read from, empty: unknown
	options map[string]string // values: y, m or others; options that are not set are absent
}

func (c *kernelConfig) known() bool { return c.from != "" }

// isEnabled reports whether an option is built in or a module.
func (c *kernelConfig) isEnabled(name string) bool {
	return c.options[name] == "y" ||
		c.options[name] == "m"
}

// readKernelConfig reads the file that the user names.
func readKernelConfig(path string) *kernelConfig {
	if path == "" {
		return &kernelConfig{}
	}
	c, reason := parseKernelConfig(path, readFile(path, textMax))
	if reason != "" {
		fail.With(hal.BadImage, "%s is not a kernel configuration: %s", path, reason)
	}
	return c
}

// findKernelConfig reads the configuration from the usual places. It ignores a file that is not a
// kernel configuration.
func (t tree) findKernelConfig(release string) *kernelConfig {
	for _, path := range [...]string{"/proc/config.gz", "/boot/config-" + release,
		"/lib/modules/" + release + "/build/.config"} {
		if c, reason := parseKernelConfig(path, t.readBytes(path)); reason == "" {
			return c
		}
	}
	return &kernelConfig{}
}

// parseKernelConfig parses a .config file, compressed or not. If data is not a configuration,
// reason says why.
func parseKernelConfig(from string, data []byte) (c *kernelConfig, reason string) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unpacked, err := gunzip(data)
		if err != nil {
			return nil, err.Error()
		}
		data = unpacked
	}
	c = &kernelConfig{from: from, options: map[string]string{}}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok &&
			strings.HasPrefix(name, "CONFIG_") {
			c.options[name] = value
		}
	}
	if len(c.options) == 0 {
		return nil, "the file has no line CONFIG_NAME=value"
	}
	return c, ""
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the gzip file is truncated or damaged: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, textMax))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the gzip file is truncated or damaged: %w", err)
	case len(unpacked) == textMax:
		return nil, fmt.Errorf("the unpacked file is too large: the file must be smaller than %s",
			lmb.SizeText(textMax))
	}
	return unpacked, nil
}

func requireDirectory(path string) {
	if !fail.Must(os.Stat(path)).IsDir() {
		fail.With(hal.NoFile, "%s is not a directory", path)
	}
}
