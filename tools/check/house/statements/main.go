// Statements prints how many statements of this project go build compiles into a program
// for arm64: statements [-tags TAGS] [PROGRAM], which is tools/lmrun where none is named.
package main

import (
	"flag"
	"fmt"
	"os"

	"lightmetal/tools/check/house/measure"
)

func main() {
	tags := flag.String("tags", "", "build tags, with commas between")
	flag.Parse()
	program := "tools/lmrun"
	if flag.NArg() > 0 {
		program = flag.Arg(0)
	}
	n, err := measure.Product(".", program, *tags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
	fmt.Println(n)
}
