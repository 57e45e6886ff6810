// Lminit starts lmrun, which lies beside it: once for each image that a
// configuration names, again where that is wanted, and as a machine's process 1,
// for which it mounts what is needed, reaps, and in the end powers off.
// CONFIGURATION.md is its manual.
package main

import (
	"runtime"

	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

var version = "lminit 0.1" // build.sh has the linker add the revision

const usage = `lminit starts lmrun for every image that a configuration names.

usage: lminit -config FILE [flags of lmrun for every image]

  -config FILE  images and their flags, one "name value" a line, and what follows a failure
  -check        only verify configuration and images, and touch nothing
  -help         this text
  -version      which lminit this is; lmrun -version tells which images are replayed

As process 1 it reads /lmrun.conf where there is one, and else hands its arguments to lmrun.
The exit status is the last replay's; lmrun -help lists them.
`

func main() {
	// A replay is killed when the thread that started it ends (prctl(2),
	// PR_SET_PDEATHSIG). The main thread ends with the process.
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
		writeText(2, "lminit: no -config given; lminit -help tells more\n")
		unix.Exit(hal.Usage.ExitStatus())
	}
	s := supervisor{path: path, flags: rest}
	exit, _ := s.supervise()
	unix.Exit(exit)
}

// print writes a text, made safe for a terminal. There is nobody to tell when that fails.
func writeText(fd int, text string) { _ = files.WriteFull(fd, files.EscapeControls([]byte(text))) }

// printLine prints text to standard error as one line: a line feed in it is escaped.
func printLine(text string) { writeText(2, files.Line(text)+"\n") }

// readFile reads a configuration, or a file in /proc.
func readFile(path string) ([]byte, error) { return files.Read(path, 4<<20) }
