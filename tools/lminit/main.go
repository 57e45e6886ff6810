// Lminit starts lmrun, which is in the same directory, once for each image that a
// configuration names, and restarts it after a failure if the configuration says so. As a
// machine's PID 1 it also mounts file systems, reaps processes, and in the end powers off.
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
  -check        only verify configuration and images, and change nothing
  -help         this text
  -version      version of this lminit; lmrun -version prints which images are replayed

As PID 1 it reads /lmrun.conf if that exists, and otherwise passes its arguments to lmrun.
The exit status is that of the last replay; lmrun -help lists them.
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
		writeText(2, "lminit: no -config given; lminit -help shows the usage\n")
		unix.Exit(hal.Usage.ExitStatus())
	}
	s := supervisor{configPath: path, flags: rest}
	exit, _ := s.supervise()
	unix.Exit(exit)
}

// writeText writes a text with its control characters escaped. A failure cannot be reported
// anywhere.
func writeText(fd int, text string) { _ = files.WriteFull(fd, files.EscapeControls([]byte(text))) }

// printLine prints text to standard error as one line: a line feed in it is escaped.
func printLine(text string) { writeText(2, files.Line(text)+"\n") }

// readFile reads a configuration or a file of /proc.
func readFile(path string) ([]byte, error) { return files.Read(path, 4<<20) }
