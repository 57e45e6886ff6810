// Run captures the workloads in testdata/workloads: lm capture
// testdata/workloads/run NAME.
package main

import (
	"lightmetal/testdata/workloads"
	"lightmetal/tools/metal"
)

func main() { metal.Main(workloads.All) }
