// Statements prints how many statements of this project go build compiles into lmrun for arm64:
// statements [-tags TAGS].
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
	n, err := measure.Product(".", "tools/lmrun", *tags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
	fmt.Println(n)
}
