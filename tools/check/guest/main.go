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

// Exit statuses of the program guest itself. All other statuses are those of lmrun, or of an
// `lm serve` that failed before it listened.
const (
	exitUsage  = 64
	exitNoFile = 66
	exitFailed = 70
	exitIO     = 74
)

func main() {
	status, err := runGuest(os.Args[1:], &machine{files: map[string][]byte{}, stdout: os.Stdout})
	if err != nil {
		fmt.Fprintf(os.Stderr, "guest: %s\n", files.EscapeControls([]byte(err.Error())))
	}
	os.Exit(status)
}

// runGuest executes the command `guest` with the given arguments on a machine, and returns its
// exit status.
func runGuest(args []string, m *machine) (status int, err error) {
	if len(args) > 0 && args[0] == "bare" {
		return runBare(args[1:], &bareMachine{machine: m})
	}
	// Images may have host windows, whose memory the kernel must not move: reserve huge pages.
	m.kernelArgs = " hugepagesz=2M hugepages=16"
	flags := flag.NewFlagSet("guest", flag.ContinueOnError)
	flags.StringVar(&m.kernel, "kernel", "", "arm64 kernel `image`")
	flags.StringVar(&m.lmrun, "lmrun", "", "static arm64 lmrun `binary`")
	flags.StringVar(&m.dir, "dir", "",
		"`directory` for the machine's files, which are kept; default: a temporary directory")
	flags.StringVar(&m.traceFile, "trace", "", "write QEMU's trace of device accesses to `file`")
	flags.StringVar(&m.qemu, "qemu", "",
		"QEMU `program`; default: the installed qemu-system-aarch64")
	flags.StringVar(&m.lmProgram, "lm", "", "lm `binary`, required by -with")
	flags.StringVar(&m.moduleDir, "modules", "",
		"`directory` of the kernel's modules, required for vfio: devices")
	flags.Func("with", "add a `device` served by lm serve, such as mock:wormhole; "+
		"may be repeated", func(device string) error {
		m.servedDevices = append(m.servedDevices, []string{device})
		return nil
	})
	flags.DurationVar(&m.timeout, "timeout", time.Minute, "time limit of the whole run")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(),
			"usage: guest -kernel K -lmrun BIN [flags] IMAGE.lmb [-- lmrun flags]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return exitUsage, nil // Parse has printed the error
	}
	arguments := flags.Args()
	if m.kernel == "" || m.lmrun == "" || len(arguments) == 0 {
		flags.Usage()
		return exitUsage, nil
	}
	path, arguments := arguments[0], arguments[1:]
	if len(arguments) > 0 && arguments[0] == "--" {
		arguments = arguments[1:]
	}
	if m.dir == "" {
		if m.dir, err = os.MkdirTemp("", "lightmetal-guest-"); err != nil {
			return exitFailed, err
		}
		defer os.RemoveAll(m.dir)
	}
	if status, err = m.replay(path, arguments); errors.Is(err, fs.ErrNotExist) ||
		hal.CodeOf(err) == hal.NoFile {
		return exitNoFile, err
	}
	if hal.CodeOf(err) == hal.IO {
		return exitIO, err
	}
	return status, err
}

// replay boots the machine with an image and lmrun's flags, copies the outputs to the host, and
// returns the exit status.
func (m *machine) replay(path string, flags []string) (status int, err error) {
	file, err := files.Read(path, programBytesMax)
	if err != nil {
		return exitFailed, err
	}
	image, err := lmb.Decode(file)
	if err != nil {
		image = &lmb.Image{} // lmrun will report the error
	}
	outputs, err := m.replaceHostFiles(flags, image)
	if err != nil {
		return exitUsage, err
	}
	m.files["/image.lmb"] = file
	if functions := vfioFunctions(flags); len(functions) == 0 {
		m.args = append(m.args, "/image.lmb")
	} else if err := m.setUpVFIO(functions, "/image.lmb"); err != nil {
		return exitUsage, err
	}
	status, err = m.boot()
	var startError *serverStartError
	if errors.As(err, &startError) && startError.status > 0 {
		return startError.status, err
	}
	if err != nil {
		return exitFailed, err
	}
	if status != 0 {
		return status, m.serversErr // an error of a served device is often the cause
	}
	if m.serversErr != nil {
		return exitFailed, m.serversErr
	}
	for i := range outputs {
		if err := outputs[i].copyToUser(); err != nil {
			return exitFailed, err
		}
	}
	return 0, nil
}
