//go:build !nolightmetal

package metal_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/testdata/workloads"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/metal"
)

// computeOutputs has, by the name of a workload, a function that computes the workload's outputs
// from its inputs on the host. A workload that only moves data has an output NAME-back for each
// input NAME, and needs no function.
var computeOutputs = map[string]func(in map[string][]int32) map[string][]int32{
	"loopback":          copyInput,
	"loopback-per-core": copyInput,
	"reader-compute-writer": func(in map[string][]int32) map[string][]int32 {
		return map[string][]int32{"c": zip(in["a"], in["b"],
			func(a, b int32) int32 { return a + b })}
	},
	"dynamic-circular-buffer": func(in map[string][]int32) map[string][]int32 {
		c := zip(in["a"], in["a"], func(a, _ int32) int32 { return -a })
		left := in["a"][128:] // the last two pages stay in the circular buffer
		return map[string][]int32{"c": c, "c.2": c, "here": left, "there": left}
	},
	"early-deallocation": func(in map[string][]int32) map[string][]int32 {
		return map[string][]int32{"c": zip(in["a"], pattern(1024, 2),
			func(a, b int32) int32 { return a * b })}
	},
	"semaphores": func(map[string][]int32) map[string][]int32 {
		word := int32(1)
		for range 5 {
			word = (word*3+7)*3 + 11
		}
		return map[string][]int32{"word": append([]int32{word}, slices.Repeat([]int32{1}, 15)...)}
	},
	"core-to-core": func(in map[string][]int32) map[string][]int32 {
		var to []int32
		for x := range 4 {
			to = append(to, in["from"][64*(3-x):64*(4-x)]...)
		}
		return map[string][]int32{"to": to}
	},
	"trace-one-program": func(in map[string][]int32) map[string][]int32 {
		sum := func(a, b int32) int32 { return a + b }
		return map[string][]int32{"c": zip(in["a"], pattern(1024, 2), sum),
			"c.2": zip(in["a"], pattern(1024, 3), sum)}
	},
	"trace-two-programs": func(map[string][]int32) map[string][]int32 {
		c := zip(pattern(64, 1), pattern(64, 1), func(a, _ int32) int32 { return 15*a + 7 })
		return map[string][]int32{"c": c, "c.2": c, "c.3": c}
	},
	"chain-of-six": func(in map[string][]int32) map[string][]int32 {
		return map[string][]int32{"result": zip(in["x"], in["y"], func(x, y int32) int32 {
			v := max(-3*x*y, 0) + y
			return max(v, -v)
		})}
	},
	"int8-network": int8Network,
	"matmul-64": func(in map[string][]int32) map[string][]int32 {
		c := make([]int32, 64*64)
		for i := range c {
			for k := range 64 {
				c[i] += in["a"][i/64*64+k] * in["b"][k*64+i%64]
			}
		}
		return map[string][]int32{"c": c}
	},
}

// copyInput returns the output b of a workload that copies its input a.
func copyInput(in map[string][]int32) map[string][]int32 {
	return map[string][]int32{"b": in["a"]}
}

// zip returns the list of f(a[i], b[i]).
func zip(a, b []int32, f func(a, b int32) int32) (list []int32) {
	for i := range a {
		list = append(list, f(a[i], b[i]))
	}
	return list
}

// pattern returns the data that the workloads have in constant buffers: a linear congruential
// sequence, 12 bits of each number.
func pattern(n int, seed uint32) (list []int32) {
	for range n {
		seed = seed*1664525 + 1013904223
		list = append(list, int32(seed)>>20)
	}
	return list
}

// weights returns the int8 weights of a layer of the workload int8-network.
func weights(n int, seed uint32) (list []int32) {
	for range n {
		seed = seed*1664525 + 1013904223
		list = append(list, int32(int8(int32(seed)>>26)))
	}
	return list
}

// int8Network computes the output y of the workload int8-network: two dense layers, with a shift
// and a clamp between them.
func int8Network(in map[string][]int32) map[string][]int32 {
	layer := func(x, w, b []int32) (y []int32) {
		for row, sum := range b {
			for i := range x {
				sum += x[i] * w[row*len(x)+i]
			}
			y = append(y, sum)
		}
		return y
	}
	h := layer(in["x"], weights(32*64, 1), pattern(32, 2))
	for i := range h {
		h[i] = min(max(h[i]>>7, 0), 127)
	}
	y := make([]int32, 12*16)
	for i, v := range layer(h, weights(12*32, 3), pattern(12, 4)) {
		y[16*i] = v
	}
	return map[string][]int32{"y": y}
}

// wantedOutputs returns what the outputs of a workload must be, by name. inputs has the data of
// the inputs that do not keep their default.
func wantedOutputs(w *metal.Workload, image *lmb.Image,
	inputs map[string][]byte) map[string][]byte {
	in, want := map[string][]int32{}, map[string][]byte{}
	for _, t := range image.Tensors {
		if t.Role != gen.RoleInput {
			continue
		}
		data := inputs[t.Name]
		if data == nil {
			data = t.Data
		}
		want[t.Name+"-back"] = data
		in[t.Name] = decodeInt32s(data)
		if t.DType == gen.DTypeInt8 {
			in[t.Name] = nil
			for _, b := range data {
				in[t.Name] = append(in[t.Name], int32(int8(b)))
			}
		}
	}
	if f := computeOutputs[w.Name]; f != nil {
		for name, list := range f(in) {
			want[name] = encodeInt32s(list)
		}
	}
	return want
}

// reverseInputs returns new data for every input: its default in reverse order.
func reverseInputs(image *lmb.Image) map[string][]byte {
	inputs := map[string][]byte{}
	for _, t := range image.Tensors {
		if t.Role == gen.RoleInput {
			data := bytes.Clone(t.Data)
			slices.Reverse(data)
			if t.DType == gen.DTypeInt32 { // reverse numbers, not bytes, so that they stay small
				list := decodeInt32s(t.Data)
				slices.Reverse(list)
				data = encodeInt32s(list)
			}
			inputs[t.Name] = data
		}
	}
	return inputs
}

// checkOutputs compares the outputs `got` with `want`. An output that is not in `want` must be one
// that the workload did not name, or "last".
func checkOutputs(t *testing.T, image *lmb.Image, got, want map[string][]byte) {
	t.Helper()
	for _, tensor := range image.Tensors {
		if tensor.Role != gen.RoleOutput {
			continue
		}
		w := want[tensor.Name]
		if w == nil && !strings.HasPrefix(tensor.Name, "buffer-") && tensor.Name != "last" {
			t.Errorf("computeOutputs does not compute output %s", tensor.Name)
		}
		if w != nil && !bytes.Equal(got[tensor.Name], w) {
			t.Errorf("output %s is %.200s, want %.200s", tensor.Name,
				fmt.Sprint(decodeInt32s(got[tensor.Name])), fmt.Sprint(decodeInt32s(w)))
		}
	}
}

// captures has the binaries that forEachWorkload has captured, by the names of their subtests.
var captures = map[string][]byte{}

// slowWorkloads are not run with -short, since the kernels of each take a mock about a second.
var slowWorkloads = []string{"buffer-deallocations", "chain-of-six", "matmul-64"}

// forEachWorkload captures every workload, once for all tests, on every device that deviceOpeners
// returns, and calls `test` with the image of each capture.
func forEachWorkload(t *testing.T, test func(t *testing.T, w *metal.Workload, b *boards.Board,
	openDevice func() hal.Device, image *lmb.Image, file []byte)) {
	for _, b := range allChips {
		for name, openDevice := range deviceOpeners(t, b) {
			for i := range workloads.All {
				w := &workloads.All[i]
				title := b.Name + "/" + name + "/" + w.Name
				t.Run(title, func(t *testing.T) {
					if slices.Contains(slowWorkloads, w.Name) {
						effort.SkipShort(t)
					}
					if captures[title] == nil {
						device := openDevice()
						defer device.Close()
						binary, err := w.Capture(b, device)
						ok(t, err)
						captures[title] = binary.Bytes()
					}
					image, err := lmb.Decode(captures[title])
					ok(t, err)
					test(t, w, b, openDevice, image, captures[title])
				})
			}
		}
	}
}

func TestWorkloadsCaptureWhatTheHostComputes(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board, _ func() hal.Device,
		image *lmb.Image, _ []byte) {
		captured := map[string][]byte{}
		for _, tensor := range image.Tensors {
			captured[tensor.Name] = tensor.Data
		}
		checkOutputs(t, image, captured, wantedOutputs(w, image, nil))
	})
}

func TestWorkloadsReplayToTheSameOutputs(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board,
		openDevice func() hal.Device, image *lmb.Image, file []byte) {
		device := openDevice()
		defer device.Close()
		got, result := replay(t, file, device, nil)
		if result.Code != hal.OK {
			t.Fatalf("the replay's result is %+v", result)
		}
		for _, tensor := range image.Tensors {
			if tensor.Role == gen.RoleOutput && !bytes.Equal(got[tensor.Name], tensor.Data) {
				t.Errorf("output %s differs from the golden data of the capture", tensor.Name)
			}
		}
	})
}

func TestWorkloadsReplayWithNewInputs(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board,
		openDevice func() hal.Device, image *lmb.Image, file []byte) {
		inputs := reverseInputs(image)
		if len(inputs) == 0 {
			return
		}
		device := openDevice()
		defer device.Close()
		got, result := replay(t, file, device, inputs)
		if result.Code != hal.OK {
			t.Fatalf("the replay's result is %+v", result)
		}
		checkOutputs(t, image, got, wantedOutputs(w, image, inputs))
	})
}

func TestTwoCapturesHaveTheSameBytes(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w *metal.Workload, b *boards.Board,
		openDevice func() hal.Device, _ *lmb.Image, file []byte) {
		device := openDevice()
		defer device.Close()
		again, err := w.Capture(b, device)
		ok(t, err)
		if !bytes.Equal(again.Bytes(), file) {
			t.Error("the second capture differs")
		}
	})
}

func TestCaptureWithoutHardwareHasTheSameCommands(t *testing.T) {
	forEachWorkload(t, func(t *testing.T, w *metal.Workload, b *boards.Board,
		_ func() hal.Device, image *lmb.Image, _ []byte) {
		planned, err := w.Capture(b, nil)
		ok(t, err)
		for i := range image.Tensors {
			if image.Tensors[i].Role == gen.RoleOutput {
				image.Tensors[i].Data = nil
			}
		}
		file, err := lmb.Encode(image)
		ok(t, err)
		if !bytes.Equal(planned.Bytes(), file) {
			t.Error("the images differ in more than golden data")
		}
	})
}
