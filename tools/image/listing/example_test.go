package listing_test

import (
	"fmt"
	"os"

	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// A listing becomes an image and a file, and a file becomes a listing.
func Example() {
	image, err := listing.Parse("x.lms", []byte(`lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0 size 4KiB
main:
  write.4 regs+0x8 5
  poll.4  regs+0x20 any-clear 1 within 1s
`), nil) // without a reader, the listing may not name files
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := lmb.Encode(image)
	if err != nil {
		fmt.Println(err)
		return
	}
	if image, err = lmb.Decode(file); err == nil {
		err = listing.Print(os.Stdout, image)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// lightmetal 1
	// device edu 1234:11e8 bar0 1MiB
	// window regs bar0 offset 0x0 size 4KiB
	//
	// main:
	//   write.4   regs+0x8 0x5
	//   poll.4    regs+0x20 & 0x1 != 0x1 within 1s
}

// An error has its place in the listing.
func ExampleParse_errors() {
	_, err := listing.Parse("x.lms",
		[]byte("lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB\nwindow r bar0 size 4KiB\nmain:\n"+
			"  wirte.4 r+0 1\n"), nil)
	fmt.Println(err)
	// Output: x.lms:5:3: expected a command, found "wirte.4"; did you mean write?
}
