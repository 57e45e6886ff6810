// Lm is the host tool of lightmetal: it assembles, imports, prints, checks and
// replays Light Metal binaries.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// version is in the origin of every image that lm writes. build.sh adds the revision and
// the tags through the linker.
var version = "lm 0.1"

func main() {
	ttsim.ChildMain()
	if err := checkProcessLimits(); err != nil {
		stderr.file = os.Stderr
		os.Exit(printFailure(err, false))
	}
	os.Exit(run(os.Args[1:]))
}

// checkProcessLimits fails on a machine on which Go would end lm at any time with status 2:
// every thread reserves address space, and the Go runtime opens files when it needs them.
func checkProcessLimits() error {
	const filesLeast, addressesLeast = 16, 2 << 30
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err == nil && limit.Cur < addressesLeast {
		return newFault(hal.Internal,
			"the address space is limited to %d MiB, but lm needs up to %d MiB; "+
				"raise the limit with ulimit -v", limit.Cur>>20, addressesLeast>>20)
	}
	return files.EnsureSpareFDs(filesLeast)
}

// run executes a command line and returns the exit status.
func run(args []string) int {
	*stdout, *stderr, asJSON = newSafeWriter(os.Stdout), newSafeWriter(os.Stderr), false
	defer closeImages()
	root := newRoot()
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	err := fail.Try(func() { fail.On(root.Execute()) })
	command, _, _ := root.Find(args)
	// --json counts even if the command line is wrong.
	exit := printFailure(err, asJSON || command.Flags().Lookup("json") != nil &&
		slices.Contains(args, "--json"))
	if err := stdout.finish(); err != nil {
		exit = printFailure(err, false)
	}
	_ = stderr.finish() // there is no other place to report an error
	return exit
}

// printFailure prints an error that is not printed yet, and returns the exit status. Further
// lines are indented, so that no text from a file looks like a message of lm.
func printFailure(err error, asJSON bool) int {
	var program programStatus
	if errors.As(err, &program) {
		return int(program)
	}
	code := codeOf(err)
	var already printedError
	var path *fs.PathError
	if ours := hal.Code(0); errors.As(err, &path) && !errors.As(err, &ours) {
		err = hal.FileFault(path.Path, path.Err)
	}
	switch {
	case err == nil || errors.As(err, &already):
	case asJSON:
		printJSON(stdout, failure{code.ExitStatus(), code.Error(), err.Error()})
	default:
		if stderr.screen != nil {
			stderr.screen.isError = true
		}
		fmt.Fprintln(stderr, "lm: "+strings.ReplaceAll(messageOf(code, err), "\n", "\n    "))
	}
	return code.ExitStatus()
}

// messageOf returns the text of an error. All errors with exit status 64 begin with "usage: ",
// whichever package they are from.
func messageOf(code hal.Code, err error) string {
	var workload workloadError
	if code.ExitStatus() != hal.Usage.ExitStatus() || errors.As(err, &workload) {
		return err.Error()
	}
	return hal.Usage.Error() + ": " + fail.Reason(err)
}

// failure is what --json prints when a command fails.
type failure struct {
	Exit   int    `json:"exit"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lm",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentPreRun = func(c *cobra.Command, args []string) {
		rejectEmptyValues(c, args)
		checkFiles(c, args)
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(asmCommand(), boardFileCommand(), captureCommand(), checkBoardCommand(),
		compareCommand(), diffCommand(), dumpCommand(), faultsCommand(),
		importCommand(), infoCommand(), manCommand(), recordCommand(), replayCommand(),
		reportCommand(), serveCommand(), setCommand(), signCommand(),
		tensorCommand(), trimCommand(), upgradeCommand(), verifyCommand(), versionCommand())
	setHelpTexts(root)
	return root
}

// rejectEmptyValues fails if a flag has an empty value: a shell variable that is not set
// must not switch a check off, such as that of --key.
func rejectEmptyValues(c *cobra.Command, _ []string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if values := flagValues(f); len(values) == 0 || slices.Contains(values, "") {
			failUsage("--%s has an empty value; see lm %s --help", f.Name, c.Name())
		}
	})
}

// newCommand returns a command of lm that stops at the first error.
func newCommand(use string, args cobra.PositionalArgs, run func(args []string)) *cobra.Command {
	return &cobra.Command{Use: use, Args: args,
		Run: func(_ *cobra.Command, args []string) { run(args) }}
}

// asJSON is true if this invocation prints JSON.
var asJSON bool

func defineJSONFlag(c *cobra.Command, help string) {
	c.Flags().BoolVar(&asJSON, "json", false, help)
}

// exactlyOne returns an argument check that requires one file.
func exactlyOne(what string) cobra.PositionalArgs { return argumentCount(1, 1, "one "+what) }

// argumentCount returns an argument check that requires least to most arguments.
func argumentCount(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			failUsage("%s takes %s, not %s; see lm %[1]s --help", c.Name(), what,
				english.Count(len(args), "argument"))
		}
		return nil
	}
}

// failUsage stops with an error in the command line.
func failUsage(format string, a ...any) { fail.With(hal.Usage, format, a...) }

// failIf stops with an error of a file, if err is not nil. failAtPath does the same, but with the
// code of err.
func failIf(code hal.Code, path string, err error) {
	if err != nil {
		fail.With(code, "%s: %v", path, err)
	}
}

func failAtPath(path string, err error) {
	if err != nil {
		fail.On(fail.Around(path+": ", err, ""))
	}
}

// codeOf returns the code of an error. An error without a code, such as cobra's, counts as
// hal.Usage.
func codeOf(err error) hal.Code {
	var code hal.Code
	var image *fbs.Error
	var errno syscall.Errno
	switch {
	case err == nil:
		return hal.OK
	case errors.As(err, &code):
		return code
	case errors.As(err, &image):
		return hal.BadImage
	case errors.As(err, &errno):
		return hal.CodeOf(hal.FileFault("", errno))
	}
	return hal.Usage
}

// printResult prints the result of a command as text or as JSON.
func printResult(w io.Writer, what fmt.Stringer) {
	if asJSON {
		printJSON(w, what)
	} else {
		fmt.Fprint(w, what)
	}
}

func printJSON(w io.Writer, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a type that JSON cannot express
	}
	keepLines(w)
	fmt.Fprintf(w, "%s\n", text)
}

func newFault(code hal.Code, format string, a ...any) error {
	return &hal.Fault{Code: code, Reason: fmt.Sprintf(format, a...)}
}
