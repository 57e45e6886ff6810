package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fileRole describes which files a value of a flag or an argument names.
type fileRole struct {
	form   string // form of the value, with FILE for the path; empty: the value names no file
	writes bool   // the command writes these files, otherwise it reads them
	paths  func(value string) []string
}

var (
	noFile       = &fileRole{paths: func(string) []string { return nil }}
	readsFile    = &fileRole{form: "FILE", paths: valueAsPath}
	readsSysfs   = &fileRole{form: "FILE", paths: deviceDirectoryFiles}
	readsSource  = &fileRole{form: "FILE", paths: sourceFiles}
	readsProgram = &fileRole{form: "FILE", paths: programFiles}
	readsBoard   = &fileRole{form: "FILE", paths: boardFiles}
	readsDevice  = &fileRole{form: "playback:FILE", paths: deviceFiles}
	readsData    = &fileRole{form: "FILE", paths: dataFiles}
	readsTensor  = &fileRole{form: "NAME=FILE", paths: tensorFiles}
	readsHost    = &fileRole{form: "NAME=0x1000,FILE", paths: hostFiles}
	readsBar     = &fileRole{form: "FILE=0", paths: barFiles}
	writesFile   = &fileRole{form: "FILE", writes: true, paths: valueAsPath}
	writesKeys   = &fileRole{form: "FILE", writes: true, paths: keyFiles}
	writesTensor = &fileRole{form: "NAME=FILE", writes: true, paths: outputFiles}
)

func valueAsPath(value string) []string { return []string{value} }

func keyFiles(value string) []string { return []string{value, value + ".pub"} }

// deviceDirectoryFiles returns a recording, or the files that describe the device of a
// directory below /sys or of a copy of it.
func deviceDirectoryFiles(value string) []string {
	list := []string{value}
	for _, name := range boardfile.DeviceFiles {
		list = append(list, filepath.Join(value, name))
	}
	return list
}

// sourceFiles returns a program or, if it is a directory, the files that go build reads there.
func sourceFiles(value string) []string {
	list := []string{value}
	entries, _ := os.ReadDir(value)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".go", ".mod", ".sum", ".s", ".c", ".cc", ".cpp", ".h", ".hpp":
			list = append(list, filepath.Join(value, e.Name()))
		}
	}
	return list
}

// programFiles returns the executable or an argument of a recorded program. It returns nothing for
// the argument "-", which only the program interprets.
func programFiles(value string) []string {
	if value == "-" {
		return nil
	}
	return []string{value}
}

// boardFiles returns a board file; names of boards have neither dot nor slash.
func boardFiles(value string) []string {
	if strings.ContainsAny(value, "./") {
		return []string{value}
	}
	return nil
}

// deviceFiles returns the files of mock:FILE, ttsim:FILE and playback:FILE[,BOARD].
func deviceFiles(value string) []string {
	kind, rest, _ := strings.Cut(value, ":")
	switch kind {
	case "mock":
		return boardFiles(rest)
	case "ttsim":
		return []string{rest}
	case "playback":
		path, board, _ := strings.Cut(rest, ",")
		return append(boardFiles(board), path)
	}
	return nil
}

// dataFiles returns the file of a tensor's data, none if the value is numbers.
func dataFiles(value string) []string {
	if isInline(value) {
		return nil
	}
	return []string{value}
}

func tensorFiles(value string) []string {
	if _, path, ok := strings.Cut(value, "="); ok {
		return dataFiles(path)
	}
	return nil
}

// outputFiles returns the file of NAME=FILE, where FILE is never numbers.
func outputFiles(value string) []string {
	if _, path, ok := strings.Cut(value, "="); ok {
		return []string{path}
	}
	return nil
}

func hostFiles(value string) []string {
	if _, path, ok := strings.Cut(value, ","); ok {
		return []string{path}
	}
	return nil
}

func barFiles(value string) []string {
	at := strings.LastIndex(value, "=")
	if at < 1 || strings.HasPrefix(value, "memfd:") {
		return nil
	}
	return []string{value[:at]}
}

// fileUse declares which arguments and flags of a command name files.
type fileUse struct {
	args  []*fileRole          // by position; the last one is for all further arguments
	flags map[string]*fileRole // every flag whose value is text

	// defaultOut returns the default of --out; if defaultOut is nil or returns "", there is none.
	defaultOut func(c *cobra.Command, args []string) string
}

// fileUses declares the files of every command. checkFiles enforces it, and a test
// compares it with the tables of flags.
var fileUses = map[string]fileUse{
	"asm": {
		args:  []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile, "board": readsBoard, "rule": noFile},
		defaultOut: func(_ *cobra.Command, args []string) string {
			return defaultOutput(args[0], ".lms")
		},
	},
	"board-file": {
		args: []*fileRole{readsSysfs},
		flags: map[string]*fileRole{"out": writesFile, "name": noFile, "device": noFile,
			"rule": noFile},
	},
	"capture": {
		args:       []*fileRole{readsSource, noFile},
		flags:      map[string]*fileRole{"out": writesFile, "board": noFile, "device": readsDevice},
		defaultOut: defaultCaptureOutput,
	},
	"check-board": {
		args: []*fileRole{noFile},
		flags: map[string]*fileRole{"image": readsFile, "root": readsFile,
			"kernel-config": readsFile},
	},
	"compare": {args: []*fileRole{readsFile, readsTensor}},
	"diff":    {args: []*fileRole{readsFile}},
	"dump": {
		args:  []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile},
	},
	"faults": {args: []*fileRole{readsFile, readsFile}},
	"import": {
		args: []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile, "board": readsBoard, "host": readsHost,
			"from": noFile, "rule": noFile, "device": noFile, "region": noFile, "base": noFile,
			"deadline": noFile, "poll": noFile, "ignore": noFile, "reached": noFile,
			"rehearsal": readsFile, "again": readsFile, "omit": noFile, "as-data": noFile,
			"ring": noFile, "wait": noFile, "carry": noFile,
			"input":  noFile,
			"output": noFile, "part": noFile, "frame": noFile, "stop": noFile, "without": noFile},
		defaultOut: defaultImportOutput,
	},
	"info": {args: []*fileRole{readsFile}},
	"man":  {args: []*fileRole{writesFile, readsFile}},
	"record": {
		args: []*fileRole{readsProgram},
		flags: map[string]*fileRole{"out": writesFile, "file": readsBar, "device": noFile,
			"marks": writesFile, "port-table": writesFile,
			"host-memory": noFile, "watch": noFile, "on-unknown": noFile, "protect": noFile},
	},
	"replay": {
		args: []*fileRole{readsFile},
		flags: map[string]*fileRole{"device": readsDevice, "input": readsTensor,
			"output": writesTensor, "profile": writesFile, "sequence": noFile, "before": noFile,
			"after": noFile},
	},
	"report": {
		args: []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile, "profile": readsFile,
			"sequence": noFile},
	},
	"serve": {
		flags: map[string]*fileRole{"device": readsDevice, "trace": writesFile,
			"socket": writesFile, "without": noFile, "fault": noFile},
	},
	"set": {
		args:  []*fileRole{readsFile, readsTensor},
		flags: map[string]*fileRole{"out": writesFile},
	},
	"sign": {
		args:  []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile, "key": readsFile, "new-key": writesKeys},
	},
	"tensor": {
		args: []*fileRole{readsData, writesFile},
		flags: map[string]*fileRole{"image": readsFile, "type": noFile, "shape": noFile,
			"name": noFile},
	},
	"trim": {
		args:  []*fileRole{readsFile},
		flags: map[string]*fileRole{"out": writesFile, "sequence": noFile},
	},
	"upgrade": {args: []*fileRole{readsFile}, flags: map[string]*fileRole{"out": writesFile}},
	"verify": {
		args: []*fileRole{readsFile},
		flags: map[string]*fileRole{"key": readsFile, "board": noFile, "for": noFile,
			"made-from": readsFile},
	},
	"version": {},
}

// namedFile is a file that an invocation names.
type namedFile struct {
	path    string
	namedBy string // the argument or flag that names the file, for messages
	writes  bool
}

// namedFiles returns the files that the arguments and flags of a command name.
func (u *fileUse) namedFiles(c *cobra.Command, args []string) (list []namedFile) {
	add := func(role *fileRole, value, by string) {
		for _, path := range role.paths(value) {
			list = append(list, namedFile{path, by, role.writes})
		}
	}
	for i, arg := range args {
		if len(u.args) > 0 {
			add(u.args[min(i, len(u.args)-1)], arg, "argument "+arg)
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if role := u.flags[f.Name]; role != nil {
			for _, value := range flagValues(f) {
				add(role, value, "--"+f.Name+" "+value)
			}
		}
	})
	return list
}

func flagValues(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// checkFiles completes --out and rejects, before a command does anything, outputs
// that are inputs or other outputs, and standard input that is named twice.
func checkFiles(c *cobra.Command, args []string) {
	use, ours := fileUses[c.Name()]
	if !ours {
		return // a command that cobra defines
	}
	out := c.Flags().Lookup("out")
	if use.defaultOut != nil && !out.Changed {
		fail.On(c.Flags().Set(out.Name, use.defaultOut(c, args)))
	}
	inPlace := checkInPlace(c, args)
	var inputs, outputs []string
	var standard []string // arguments and flags that name standard input
	for i, file := range use.namedFiles(c, args) {
		switch {
		case file.writes:
			outputs = append(outputs, file.path)
			continue
		case file.path == "-":
			standard = append(standard, file.namedBy)
		}
		if !inPlace || i > 0 { // the first argument is the image
			inputs = append(inputs, file.path)
		}
	}
	if len(standard) > 1 {
		failStandardInput(standard[0], standard[1])
	}
	err := files.RejectAliases(slices.DeleteFunc(outputs, isEmpty), inputs...)
	if fault, ok := err.(*hal.Fault); ok && c.Flags().Lookup("in-place") != nil && !inPlace {
		fault.Reason += ", or use --in-place"
	}
	fail.On(err)
}

// failStandardInput fails because two arguments or flags name standard input.
func failStandardInput(first, second string) {
	if first == "argument -" && second == first {
		failUsage("two arguments are `-`; only one can be standard input: " +
			"name a file for the other")
	}
	failUsage("%s and %s both read standard input; name a file for one of them", first, second)
}

func isEmpty(path string) bool { return path == "" }

// outputFlags defines -o and --in-place of a command that changes an image.
func outputFlags(flags *pflag.FlagSet, out *string) {
	flags.StringVarP(out, "out", "o", "", "image to write")
	flags.Bool("in-place", false, "overwrite the image itself")
}

// checkInPlace requires -o or --in-place for a command that has both flags. It reports whether the
// command overwrites the image; in this case, it sets --out to the path of the image.
func checkInPlace(c *cobra.Command, args []string) (inPlace bool) {
	flag := c.Flags().Lookup("in-place")
	if flag == nil || len(args) == 0 {
		return false
	}
	out := c.Flags().Lookup("out")
	inPlace = flag.Value.String() == "true"
	switch {
	case inPlace && out.Changed:
		failUsage("use either -o FILE or --in-place, not both")
	case !inPlace && !out.Changed:
		failUsage("-o FILE is missing; use -o FILE, or --in-place to overwrite %s", args[0])
	case inPlace && args[0] == "-":
		failUsage("--in-place does not work with standard input; " +
			"use -o FILE, or -o - for standard output")
	case inPlace:
		fail.On(c.Flags().Set(out.Name, args[0]))
	}
	return inPlace
}
