// Lminit starts lmrun once for each image of a configuration, and starts again after a failure
// if the configuration requests it. The program lmrun must be in the same directory. As PID 1,
// lminit also mounts file systems, reaps orphaned processes, and finally powers the machine off.
// CONFIGURATION.md is the manual of lminit.
package main

import (
	"runtime"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

var version = "lminit 0.1" // the linker appends the revision, see build.sh

const usage = `lminit starts lmrun for every image that a configuration names.

usage: lminit -config FILE [flags of lmrun for every image]

  -config FILE  images and their flags, one "name value" per line, and what to do on failure
  -check        only verify the configuration and the images
  -help         this text
  -version      version of this lminit; lmrun -version prints the format of images

As PID 1 it reads /lmrun.conf if that exists, and otherwise passes its arguments to lmrun.
The exit status is that of the last replay; lmrun -help lists them.
`

func main() {
	// The kernel kills lmrun when the thread that started lmrun ends (prctl(2),
	// PR_SET_PDEATHSIG). Start it from the main thread, which lives as long as the process.
	runtime.LockOSThread()
	if unix.Getpid() == 1 {
		runAsPID1()
	}
	path, rest := splitConfigFlag(args.CommandLine())
	o, _ := args.Parse(rest)
	switch {
	case o.Help:
		writeText(1, usage)
		unix.Exit(0)
	case o.Version:
		writeText(1, version+"\n")
		unix.Exit(0)
	case path == "":
		writeText(2, "lminit: no -config given; lminit -help shows the usage\n")
		unix.Exit(hal.Usage.ExitStatus())
	}
	s := supervisor{configPath: path, flags: rest}
	exit, _ := s.supervise()
	unix.Exit(exit)
}

// writeText writes text to a file descriptor, with control characters escaped. It ignores
// errors, since there is no other place to report them.
func writeText(fd int, text string) { _ = files.WriteFull(fd, files.EscapeControls([]byte(text))) }

// printLine prints text to standard error as one line. Line feeds within the text are escaped.
func printLine(text string) { writeText(2, files.OneLine(text)+"\n") }

// readFile returns the content of a configuration or of a file of /proc.
func readFile(path string) ([]byte, error) { return files.Read(path, 4<<20) }
