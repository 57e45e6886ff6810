package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"lightmetal/tools/coverage/trace"
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
	asJSON := flags.Bool("json", false, "one JSON object, with every function")
	each := flags.Bool("functions", false, "every function too")
	left := flags.Bool("left", false, "what was not reached, by line of source")
	held := flags.String("held", "", "fail where more was not reached than this `file` lists")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("it takes two arguments, LMRUN and SEEN; -help tells more")
	}
	functions, err := look(flags.Arg(0), flags.Arg(1))
	if err != nil {
		return err
	}
	r := summarise(functions)
	switch {
	case *asJSON:
		err = json.NewEncoder(out).Encode(r)
	case *left:
		printLeft(out, functions)
	default:
		r.print(out, *each)
	}
	if err != nil || *held == "" {
		return err
	}
	list, err := os.ReadFile(*held)
	if err != nil {
		return err
	}
	return hold(out, string(list), functions)
}

// look reads a program and what was seen of it.
func look(path, folder string) ([]*function, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	program, err := trace.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := os.Stat(program.Path(folder)); err != nil {
		return nil, fmt.Errorf("nothing was seen of %s: %w", path, err)
	}
	seen, err := program.Load(folder)
	if err != nil {
		return nil, err
	}
	return functionsOf(program, seen)
}
