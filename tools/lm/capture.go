package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/build"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
)

// captureFlags are the flags of lm capture as they are typed.
type captureFlags struct {
	board, device, out string
	list               bool
}

func captureCommand() *cobra.Command {
	var f captureFlags
	c := newCommand("capture PROGRAM [WORKLOAD]",
		argumentCount(1, 2, "one program and at most one workload"),
		func(args []string) { f.run(args[0], args[1:]) })
	flags := c.Flags()
	flags.StringVar(&f.device, "device", "none",
		"device to compute on: mock:BOARD, ttsim:/path/libttsim.so, a real device, or none")
	flags.StringVar(&f.board, "board", "",
		"board to capture for, if there is no device: wormhole or blackhole")
	flags.StringVarP(&f.out, "out", "o", "",
		"image to write (default: WORKLOAD.lmb, or PROGRAM.lmb)")
	flags.BoolVar(&f.list, "list", false, "print the program's workloads")
	return c
}

func defaultCaptureOutput(_ *cobra.Command, args []string) string {
	return filepath.Base(filepath.Clean(args[len(args)-1])) + ".lmb"
}

func (f *captureFlags) run(program string, workload []string) {
	directory := fail.Must(os.MkdirTemp("", "lm-capture"))
	defer os.RemoveAll(directory)
	executable := buildProgram(program, directory)
	if f.list {
		runProgram(stdout, executable, "--list")
		return
	}
	args := []string{"--board", f.board, "--device", f.device, "--out",
		filepath.Join(directory, "image")}
	if len(workload) == 1 {
		args = append(args, "--workload", workload[0])
	}
	runProgram(messageWriter(f.out), executable, args...)
	file, err := files.Read(filepath.Join(directory, "image"), math.MaxInt)
	if err != nil {
		fail.With(hal.BadImage, "%s wrote no image; its main function must call metal.Main",
			program)
	}
	image, err := lmb.Decode(file)
	failAtPath(program, err)
	writeFile(f.out, file)
	printWritten(f.out, image, len(file), "")
}

// buildProgram returns the executable of a program: the program itself or, if it is a directory,
// the result of go build.
func buildProgram(program, directory string) string {
	status := fail.Must(os.Stat(program))
	if !status.IsDir() {
		return fail.Must(filepath.Abs(program))
	}
	overlay := writeKernelOverlay(program, directory)
	executable := filepath.Join(directory, "program")
	command := exec.Command("go", "build", "-overlay", overlay, "-o", executable, ".")
	command.Dir = program
	if out, err := command.CombinedOutput(); err != nil {
		failUsage("go build in %s failed: %v\n%s", program, err, bytes.TrimSpace(out))
	}
	if status, err := os.Stat(executable); err != nil || status.Mode()&0o111 == 0 {
		failUsage("%s has no main package; PROGRAM must be the directory of a main package",
			program)
	}
	return executable
}

// writeKernelOverlay writes an overlay (see go help build) that hides the C files next to a package
// without cgo. These files are kernels of the device.
func writeKernelOverlay(program, directory string) (overlay string) {
	replace := map[string]string{}
	in, _ := build.ImportDir(program, 0) // go build reports better what is wrong with the directory
	if in != nil && len(in.CgoFiles) == 0 {
		for _, name := range slices.Concat(in.CFiles, in.CXXFiles, in.HFiles) {
			replace[fail.Must(filepath.Abs(filepath.Join(program, name)))] = ""
		}
	}
	text := fail.Must(json.Marshal(map[string]any{"Replace": replace}))
	overlay = filepath.Join(directory, "overlay.json")
	writeFile(overlay, text)
	return overlay
}

// runProgram runs a program that calls metal.Main, and stops with its error if it fails.
func runProgram(to io.Writer, executable string, args ...string) {
	c := exec.Command(executable, args...)
	var said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, to, &said
	err := c.Run()
	if err == nil {
		_, _ = stderr.Write(said.Bytes())
		return
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		failUsage("%s cannot be run: %v", executable, err)
	}
	text := strings.TrimSpace(said.String())
	for c := hal.Usage; c <= hal.RingUnset; c++ {
		if c.ExitStatus() == exit.ExitCode() {
			fail.On(workloadError{c, text})
		}
	}
	fail.With(hal.Internal, "%s", text)
}

// workloadError is the error of a program that calls metal.Main. Its text begins with that of its
// code.
type workloadError struct {
	code hal.Code
	text string
}

func (e workloadError) Error() string { return e.text }

func (e workloadError) Unwrap() error { return e.code }
