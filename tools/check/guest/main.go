package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"
)

// Exit statuses of the harness itself; all others are lmrun's, or of an lm serve
// that does not come to listen.
const (
	exitUsage  = 64
	exitNoFile = 66
	exitFailed = 70
	exitIO     = 74
)

func main() {
	exit, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "guest: %s\n", files.EscapeControls([]byte(err.Error())))
	}
	os.Exit(exit)
}

func run(args []string) (exit int, err error) {
	if len(args) > 0 && args[0] == "bare" {
		return runBare(args[1:])
	}
	// Images may want host memory, in pages that stay where they are.
	m := &machine{files: map[string][]byte{}, stdout: os.Stdout, kernelArgs: " hugepages=16"}
	flags := flag.NewFlagSet("guest", flag.ContinueOnError)
	flags.StringVar(&m.kernel, "kernel", "", "arm64 kernel `image`")
	flags.StringVar(&m.lmrun, "lmrun", "", "static arm64 lmrun `binary`")
	flags.StringVar(&m.dir, "dir", "",
		"`folder` for the machine's files, which stay there; default: a temporary one")
	flags.StringVar(&m.trace, "trace", "", "write QEMU's trace of device accesses to `file`")
	flags.StringVar(&m.qemu, "qemu", "",
		"QEMU `program`; default: qemu-system-aarch64 of the system")
	flags.StringVar(&m.lm, "lm", "", "lm `binary`, for -with")
	flags.StringVar(&m.modules, "modules", "",
		"`folder` of the kernel's modules, for devices by vfio:")
	flags.Func("with", "a `device` that lm serve shows to the machine, such as mock:wormhole; "+
		"each once", func(device string) error {
		m.with = append(m.with, []string{device})
		return nil
	})
	flags.DurationVar(&m.timeout, "timeout", time.Minute, "hard limit for the whole run")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(),
			"usage: guest -kernel K -lmrun BIN [flags] IMAGE.lmb [-- lmrun flags]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return exitUsage, nil // Parse has said why
	}
	rest := flags.Args()
	if m.kernel == "" || m.lmrun == "" || len(rest) == 0 {
		flags.Usage()
		return exitUsage, nil
	}
	path, rest := rest[0], rest[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if m.dir == "" {
		if m.dir, err = os.MkdirTemp("", "lightmetal-guest-"); err != nil {
			return exitFailed, err
		}
		defer os.RemoveAll(m.dir)
	}
	if exit, err = m.replay(path, rest); errors.Is(err, fs.ErrNotExist) ||
		hal.CodeOf(err) == hal.NoFile {
		return exitNoFile, err
	}
	if hal.CodeOf(err) == hal.IO {
		return exitIO, err
	}
	return exit, err
}

// replay boots the machine with an image and lmrun's flags, and brings the
// outputs back.
func (m *machine) replay(path string, flags []string) (exit int, err error) {
	file, err := files.Read(path, programMax)
	if err != nil {
		return exitFailed, err
	}
	image, err := lmb.Decode(file)
	if err != nil {
		image = &lmb.Image{} // that it is bad is lmrun's to say
	}
	outputs, err := m.bind(flags, image)
	if err != nil {
		return exitUsage, err
	}
	m.files["/image.lmb"] = file
	if functions := vfioDevices(flags); len(functions) == 0 {
		m.args = append(m.args, "/image.lmb")
	} else if err := m.byVFIO(functions, "/image.lmb"); err != nil {
		return exitUsage, err
	}
	exit, err = m.boot()
	if ended := (*unserved)(nil); errors.As(err, &ended) && ended.exit > 0 {
		return ended.exit, err
	}
	if err != nil {
		return exitFailed, err
	}
	if exit != 0 {
		return exit, m.served // what a served device refused is often why
	}
	if m.served != nil {
		return exitFailed, m.served
	}
	for i := range outputs {
		if err := outputs[i].fetch(); err != nil {
			return exitFailed, err
		}
	}
	return 0, nil
}
