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
	"lightmetal/tools/files"
	"lightmetal/tools/lmb"
	"lightmetal/tools/stop"

	"github.com/spf13/cobra"
)

// captureFlags are the flags of lm capture as they are typed.
type captureFlags struct {
	board, device, out string
	list               bool
}

func captureCommand() *cobra.Command {
	var f captureFlags
	c := command("capture PROGRAM [WORKLOAD]",
		argumentCount(1, 2, "one program and at most one workload"),
		func(args []string) { f.run(args[0], args[1:]) })
	flags := c.Flags()
	flags.StringVar(&f.device, "device", "none",
		"what computes: mock:BOARD, ttsim:/path/libttsim.so, a device, or none")
	flags.StringVar(&f.board, "board", "", "wormhole or blackhole; not needed with a device")
	flags.StringVarP(&f.out, "out", "o", "",
		"image to write (default: WORKLOAD.lmb, or PROGRAM.lmb)")
	flags.BoolVar(&f.list, "list", false, "print the program's workloads")
	return c
}

// capturedTo returns the default of lm capture --out.
func defaultCaptureOutput(_ *cobra.Command, args []string) string {
	return filepath.Base(filepath.Clean(args[len(args)-1])) + ".lmb"
}

func (f *captureFlags) run(program string, workload []string) {
	folder := stop.Must(os.MkdirTemp("", "lm-capture"))
	defer os.RemoveAll(folder)
	executable := buildProgram(program, folder)
	if f.list {
		runProgram(stdout, executable, "--list")
		return
	}
	args := []string{"--board", f.board, "--device", f.device, "--out",
		filepath.Join(folder, "image")}
	if len(workload) == 1 {
		args = append(args, "--workload", workload[0])
	}
	runProgram(messageWriter(f.out), executable, args...)
	file, err := files.Read(filepath.Join(folder, "image"), math.MaxInt)
	if err != nil {
		stop.With(hal.BadImage, "%s wrote no image; its main function calls metal.Main", program)
	}
	_, err = lmb.Decode(file)
	failAt(program, err)
	writeFile(f.out, file)
}

// buildProgram gives the executable of a program: itself, or what the go
// command makes of a folder.
func buildProgram(program, folder string) string {
	status := stop.Must(os.Stat(program))
	if !status.IsDir() {
		return stop.Must(filepath.Abs(program))
	}
	overlay := writeKernelOverlay(program, folder)
	executable := filepath.Join(folder, "program")
	command := exec.Command("go", "build", "-overlay", overlay, "-o", executable, ".")
	command.Dir = program
	if out, err := command.CombinedOutput(); err != nil {
		failUsage("go build in %s: %v\n%s", program, err, bytes.TrimSpace(out))
	}
	if status, err := os.Stat(executable); err != nil || status.Mode()&0o111 == 0 {
		failUsage("%s holds no main package", program)
	}
	return executable
}

// withoutKernels writes an overlay (go help build) for a package that uses no cgo, in
// which the sources in C beside it, which are kernels, are not there.
func writeKernelOverlay(program, folder string) (overlay string) {
	replace := map[string]string{}
	in, _ := build.ImportDir(program, 0) // go build says better what is wrong with the folder
	if in != nil && len(in.CgoFiles) == 0 {
		for _, name := range slices.Concat(in.CFiles, in.CXXFiles, in.HFiles) {
			replace[stop.Must(filepath.Abs(filepath.Join(program, name)))] = ""
		}
	}
	text := stop.Must(json.Marshal(map[string]any{"Replace": replace}))
	overlay = filepath.Join(folder, "overlay.json")
	writeFile(overlay, text)
	return overlay
}

// runProgram runs a program of metal.Main, and gives its error as its own.
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
	code := hal.Internal
	for c := hal.Usage; c <= hal.DMAFault; c++ {
		if c.Exit() == exit.ExitCode() {
			code = c
			break
		}
	}
	text := strings.TrimSpace(said.String())
	stop.With(code, "%s", strings.TrimPrefix(text, code.Error()+": "))
}
