package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"lightmetal/tools/check/coverage/trace"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "coverage:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("coverage", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print a JSON object for each program, with every function")
	allFunctions := flags.Bool("functions", false, "print every function too")
	printLeft := flags.Bool("left", false, "print what was not reached, by line of source")
	listFile := flags.String("held", "", "fail if more was not reached than this `file` lists")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("want LMRUN=SEEN[,SEEN...]; -help lists the flags")
	}
	list, err := readList(*listFile)
	if err != nil {
		return err
	}
	var reports []*report
	worst := map[string]int{}
	for _, arg := range flags.Args() {
		functions, err := readCoverage(arg)
		if err != nil {
			return err
		}
		r := summarise(functions, list)
		r.Program = arg
		reports = append(reports, r)
		addUnreached(functions, worst)
		switch {
		case *printLeft:
			printUnreached(out, functions)
		case !*asJSON:
			r.print(out, *allFunctions, *listFile != "")
		}
	}
	if *asJSON {
		if err := json.NewEncoder(out).Encode(reports); err != nil {
			return err
		}
	}
	if *listFile == "" {
		return nil
	}
	return compareWithList(out, list, worst)
}

// readCoverage reads a program, and which of its instructions ran, from one directory or several.
func readCoverage(arg string) ([]*function, error) {
	path, folders, _ := strings.Cut(arg, "=")
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	program, err := trace.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := make([]trace.Seen, len(program.Words))
	for folder := range strings.SplitSeq(folders, ",") {
		if _, err := os.Stat(program.Path(folder)); err != nil {
			return nil, fmt.Errorf("nothing was seen of %s: %w", path, err)
		}
		seen, err := program.Load(folder)
		if err != nil {
			return nil, err
		}
		for i := range all {
			all[i] |= seen[i]
		}
	}
	return functionsOf(program, all)
}
