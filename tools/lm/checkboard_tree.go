package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
)

// tree is the root directory of a machine, or of a copy of parts of one. What
// cannot be read counts as not there.
type tree string

// textMax bounds what is read of one file: a kernel's configuration has
// 300 KB, and a copied tree may hold anything.
const textMax = 4 << 20

func (t tree) bytes(path string) (data []byte) {
	_ = fail.Try(func() {
		file := openFile(filepath.Join(string(t), path))
		defer file.Close()
		data, _ = io.ReadAll(io.LimitReader(file, textMax))
	})
	return data
}

// text is a file without the blanks and zero bytes around it.
func (t tree) text(path string) string { return strings.Trim(string(t.bytes(path)), "\x00 \t\r\n") }

// number is a file that holds one, decimal or with 0x.
func (t tree) number(path string) (uint64, bool) {
	v, err := strconv.ParseUint(t.text(path), 0, 64)
	return v, err == nil
}

// link returns the last element of the target of a symbolic link, empty if there is none.
func (t tree) link(path string) string {
	to, err := os.Readlink(filepath.Join(string(t), path))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

func (t tree) has(path string) bool {
	_, err := os.Lstat(filepath.Join(string(t), path))
	return err == nil
}

// names lists a directory in order.
func (t tree) names(path string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(string(t), path))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// field is the first value after a label at the start of a line, as /proc has
// them: "VmLck:   0 kB".
func field(text, label string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

// kernelConfig is what a kernel was built with. The zero value is unknown.
type kernelConfig struct {
	from    string            // file it was read from, empty: unknown
	options map[string]string // y, m or a value; what is not set is not in it
}

func (c *kernelConfig) known() bool { return c.from != "" }

// on reports whether an option is built in or a module.
func (c *kernelConfig) on(name string) bool {
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
		fail.With(hal.BadImage, "%s: no kernel configuration: %s", path, reason)
	}
	return c
}

// findKernelConfig looks where kernels leave their configuration. A file that
// is none is as good as absent.
func (t tree) findKernelConfig(release string) *kernelConfig {
	for _, path := range [...]string{"/proc/config.gz", "/boot/config-" + release,
		"/lib/modules/" + release + "/build/.config"} {
		if c, reason := parseKernelConfig(path, t.bytes(path)); reason == "" {
			return c
		}
	}
	return &kernelConfig{}
}

// parseKernelConfig takes a .config, compressed or not; reason says why data
// is none.
func parseKernelConfig(from string, data []byte) (c *kernelConfig, reason string) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		unpacked, err := gunzip(data)
		if err != nil {
			return nil, "not a whole gzip file: " + err.Error()
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
		return nil, "no line CONFIG_NAME=value in it"
	}
	return c, ""
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, textMax))
	if err == nil && len(unpacked) == textMax {
		err = errors.New("too large")
	}
	return unpacked, err
}

// requireDirectory fails if a path is not a directory.
func requireDirectory(path string) {
	if !fail.Must(os.Stat(path)).IsDir() {
		fail.With(hal.NoFile, "%s is not a directory", path)
	}
}
