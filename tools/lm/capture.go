package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/spf13/cobra"
)

// captureFlags are the flags of lm capture as they are typed.
type captureFlags struct {
	board, device, out string
	list               bool
}

func captureCommand() *cobra.Command {
	var f captureFlags
	c := &cobra.Command{
		Use:  "capture PROGRAM [WORKLOAD]",
		Args: between(1, 2, "one program and at most one workload"),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args[0], args[1:]) },
	}
	flags := c.Flags()
	flags.StringVar(&f.device, "device", "none", "what computes: mock:BOARD, ttsim:/path/libttsim.so, a device, or none")
	flags.StringVar(&f.board, "board", "", "wormhole or blackhole; not needed with a device")
	flags.StringVarP(&f.out, "out", "o", "", "image to write (default: WORKLOAD.lmb, or PROGRAM.lmb)")
	flags.BoolVar(&f.list, "list", false, "print the program's workloads")
	return c
}

func (f *captureFlags) run(program string, workload []string) error {
	if f.out != "" {
		if err := files.Distinct([]string{f.out}, program); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp("", "lm-capture")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	executable, err := buildProgram(program, folder)
	if err != nil {
		return err
	}
	if f.list {
		return runProgram(stdout, executable, "--list")
	}
	args := []string{"--board", f.board, "--device", f.device, "--out", filepath.Join(folder, "image")}
	name := filepath.Base(filepath.Clean(program))
	if len(workload) == 1 {
		name = workload[0]
		args = append(args, "--workload", name)
	}
	if err := runProgram(tell(f.out), executable, args...); err != nil {
		return err
	}
	file, err := readFile(filepath.Join(folder, "image"), math.MaxInt)
	if err != nil {
		return wrong(hal.BadImage, "%s wrote no image; its main function calls metal.Main", program)
	}
	if _, err := lmb.Decode(file); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	if f.out == "" {
		f.out = name + ".lmb"
	}
	return writeFile(f.out, file)
}

// buildProgram gives the executable of a program: itself, or what the go
// command makes of a folder.
func buildProgram(program, folder string) (string, error) {
	status, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	if !status.IsDir() {
		return filepath.Abs(program)
	}
	overlay, err := withoutKernels(program, folder)
	if err != nil {
		return "", err
	}
	executable := filepath.Join(folder, "program")
	command := exec.Command("go", "build", "-overlay", overlay, "-o", executable, ".")
	command.Dir = program
	if out, err := command.CombinedOutput(); err != nil {
		return "", usage("go build in %s: %v\n%s", program, err, bytes.TrimSpace(out))
	}
	if status, err := os.Stat(executable); err != nil || status.Mode()&0o111 == 0 {
		return "", usage("%s holds no main package", program)
	}
	return executable, nil
}

// withoutKernels writes an overlay (go help build) for a package that uses no cgo, in
// which the sources in C beside it, which are kernels, are not there.
func withoutKernels(program, folder string) (overlay string, err error) {
	replace := map[string]string{}
	in, _ := build.ImportDir(program, 0) // go build says better what is wrong with the folder
	if in != nil && len(in.CgoFiles) == 0 {
		for _, name := range slices.Concat(in.CFiles, in.CXXFiles, in.HFiles) {
			path, err := filepath.Abs(filepath.Join(program, name))
			if err != nil {
				return "", err
			}
			replace[path] = ""
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, writeFile(overlay, text)
}

// runProgram runs a program of metal.Main, and gives its error as its own.
func runProgram(to io.Writer, executable string, args ...string) error {
	c := exec.Command(executable, args...)
	var said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, to, &said
	err := c.Run()
	if err == nil {
		_, _ = stderr.Write(said.Bytes())
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return usage("%s cannot be run: %v", executable, err)
	}
	code := hal.Internal
	for c := hal.Usage; c <= hal.DMAFault; c++ {
		if c.Exit() == exit.ExitCode() {
			code = c
			break
		}
	}
	text := strings.TrimSpace(said.String())
	return wrong(code, "%s", strings.TrimPrefix(text, code.Error()+": "))
}
