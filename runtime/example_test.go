package runtime_test

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
)

// A program replays a file on a device. This example uses a mock; a program on a target calls
// hal.Open("vfio:0000:01:00.0") instead.
func Example() {
	file, err := runtime.Open("../testdata/images/edu-factorial.lmb")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	view, err := file.Verify()
	if err != nil {
		fmt.Println(err)
		return
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, mock.New(&boards.Edu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer replay.Close()
	copy(replay.Input(view.TensorByName("n")), []byte{6, 0, 0, 0})
	result := replay.Run(view.SequenceByName("compute"))
	fmt.Println(result.Code, replay.Output(view.TensorByName("result")))
	// Output: done [208 2 0 0]
}
