// Lminit starts the program lmrun for each image of a configuration file, one after the other. If
// the configuration file requests it, lminit starts again with the first image after a failure or
// after success. lmrun must be in the same directory as lminit.
//
// As PID 1, lminit also mounts file systems, reaps orphaned processes, and finally halts, reboots
// or powers off the machine. CONFIGURATION.md is the manual of lminit.
package main

import (
	"runtime"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// version is the text that -version prints. build.sh makes the linker replace this text by a text
// with the revision.
var version = "lminit 0.1"

// usage is the text that -help prints.
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
	// Start lmrun from the main thread of this process. The kernel kills lmrun when the thread that
	// has started lmrun ends (see PR_SET_PDEATHSIG in prctl(2)). The main thread ends only with the
	// process.
	runtime.LockOSThread()
	if unix.Getpid() == 1 {
		runAsPID1()
	}
	path, rest := splitConfigFlag(args.CommandLine())
	o, _ := args.Parse(rest)
	switch {
	case o.PrintHelp:
		writeText(1, usage)
		unix.Exit(0)
	case o.PrintVersion:
		writeText(1, version+"\n")
		unix.Exit(0)
	case path == "":
		writeText(2, "lminit: no -config given; lminit -help shows the usage\n")
		unix.Exit(hal.Usage.ExitStatus())
	}
	s := supervisor{configPath: path, commandLineFlags: rest}
	exit, _ := s.supervise()
	unix.Exit(exit)
}

// writeText writes text to the file descriptor fd, with control characters escaped. It ignores
// errors, because lminit has no other output to which it could report an error.
func writeText(fd int, text string) { _ = files.WriteFull(fd, files.EscapeControls([]byte(text))) }

// printLine prints text and a line feed to standard error. It escapes line feeds and other control
// characters inside text.
func printLine(text string) { writeText(2, files.OneLine(text)+"\n") }

// readFile returns the content of the file at path. The largest accepted size is 4 MiB.
func readFile(path string) ([]byte, error) { return files.Read(path, 4<<20) }
