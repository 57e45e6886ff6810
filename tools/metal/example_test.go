//go:build !nolightmetal

package metal_test

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/hal/mock"
	"lightmetal/tools/metal"
)

// Calls between the begin and the end of a capture become an image.
func Example() {
	d, err := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := metal.LightMetalBeginCapture(d); err != nil {
		fmt.Println(err)
		return
	}
	b, err := metal.CreateBuffer(d, metal.BufferConfig{Size: 4096, PageSize: 1024,
		Type: metal.DRAM})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := metal.EnqueueWriteBuffer(d.CommandQueue(), b, make([]byte, 4096), true); err != nil {
		fmt.Println(err)
		return
	}
	binary, err := metal.LightMetalEndCapture(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(binary.Image.Devices[0].Board, len(binary.Image.Sequences))
	// Output: wormhole 1
}
