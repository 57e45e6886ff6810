// Lminit starts lmrun for each image of a configuration file, one after the other, and again after
// a failure or success if the file says so. lmrun must be in the same directory as lminit. If
// lmrun-signed is there, too, lminit starts it for images with a key.
//
// As PID 1, lminit also mounts file systems, reaps orphaned processes, and finally halts, reboots
// or powers off the machine. CONFIGURATION.md is its manual.
package main

import (
	"runtime"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// version is what -version prints. build.sh makes the linker replace it by a text with the
// revision.
var version = "lminit 0.1"

const usage = `usage: lminit -config FILE [flags of lmrun for every image]

Lminit starts lmrun for every image that a configuration names, and lmrun-signed if
that is installed beside it and the image has a line "key".

  -config FILE  images and their flags, one "name value" per line, and what to do on failure
  -check        only verify the configuration and the images
  -help         this text
  -version      version of this lminit; lmrun -version prints the format of images

As PID 1 it reads /lmrun.conf if that exists, and otherwise passes its arguments to lmrun.
The exit status is that of the last replay; lmrun -help lists them.
`

func main() {
	// The kernel kills lmrun when the thread that started it ends (PR_SET_PDEATHSIG in prctl(2)).
	// The main thread ends only with the process.
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

// writeText escapes control characters. There is no other output for its errors.
func writeText(fd int, text string) { _ = files.WriteFull(fd, files.EscapeControls([]byte(text))) }

// printLine prints one line to standard error. It escapes line feeds, too.
func printLine(text string) { writeText(2, files.OneLine(text)+"\n") }

func readFile(path string) ([]byte, error) { return files.Read(path, 4<<20) }
