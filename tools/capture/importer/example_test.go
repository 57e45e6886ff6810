package importer_test

import (
	"fmt"
	"os"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/importer/traces"
)

// This example imports a capture. The report says what each pass did.
func Example() {
	trace, err := os.Open("../../../testdata/captures/edu.qemutrace")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer trace.Close()
	image, report, err := importer.Import(trace, importer.Options{
		From: importer.FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(image.Devices[0].Board, len(image.Sequences[0].Commands), "commands; passes:")
	for _, pass := range report.Passes {
		fmt.Println(" ", pass.Name)
	}
	// Output:
	// edu 16 commands; passes:
	//   read
	//   fold
	//   expect
	//   coalesce
}
