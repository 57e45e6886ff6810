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
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/metal"
)

// expected computes on the host what a workload's outputs must be from its
// inputs, by name; a workload that only moves data has an output NAME-back for
// each input NAME.
var expected = map[string]func(in map[string][]int32) map[string][]int32{
	"loopback":          copied,
	"loopback-per-core": copied,
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
	"int8-network": network,
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

// copied is the output b of a program that copies its input a.
func copied(in map[string][]int32) map[string][]int32 {
	return map[string][]int32{"b": in["a"]}
}

func zip(a, b []int32, f func(a, b int32) int32) (list []int32) {
	for i := range a {
		list = append(list, f(a[i], b[i]))
	}
	return list
}

// pattern is workloads' fixed data.
func pattern(n int, seed uint32) (list []int32) {
	for range n {
		seed = seed*1664525 + 1013904223
		list = append(list, int32(seed)>>20)
	}
	return list
}

func weights(n int, seed uint32) (list []int32) {
	for range n {
		seed = seed*1664525 + 1013904223
		list = append(list, int32(int8(int32(seed)>>26)))
	}
	return list
}

func network(in map[string][]int32) map[string][]int32 {
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

// wanted gives what outputs must be for inputs.
func wanted(w *metal.Workload, image *lmb.Image, inputs map[string][]byte) map[string][]byte {
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
		in[t.Name] = numbers(data)
		if t.DType == gen.DTypeInt8 {
			in[t.Name] = nil
			for _, b := range data {
				in[t.Name] = append(in[t.Name], int32(int8(b)))
			}
		}
	}
	if f := expected[w.Name]; f != nil {
		for name, list := range f(in) {
			want[name] = encoded(list)
		}
	}
	return want
}

// others gives other data for every input.
func others(image *lmb.Image) map[string][]byte {
	inputs := map[string][]byte{}
	for _, t := range image.Tensors {
		if t.Role == gen.RoleInput {
			data := bytes.Clone(t.Data)
			slices.Reverse(data)
			if t.DType == gen.DTypeInt32 { // small numbers stay small
				list := numbers(t.Data)
				slices.Reverse(list)
				data = encoded(list)
			}
			inputs[t.Name] = data
		}
	}
	return inputs
}

func check(t *testing.T, image *lmb.Image, got, want map[string][]byte) {
	t.Helper()
	for _, tensor := range image.Tensors {
		if tensor.Role != gen.RoleOutput {
			continue
		}
		w := want[tensor.Name]
		if w == nil && !strings.HasPrefix(tensor.Name, "buffer-") && tensor.Name != "last" {
			t.Errorf("nothing is known of output %s", tensor.Name)
		}
		if w != nil && !bytes.Equal(got[tensor.Name], w) {
			t.Errorf("output %s: %.200s, want %.200s", tensor.Name,
				fmt.Sprint(numbers(got[tensor.Name])), fmt.Sprint(numbers(w)))
		}
	}
}

// eachWorkload captures every workload on every machine at hand.
func eachWorkload(t *testing.T, test func(t *testing.T, w *metal.Workload, b *boards.Board,
	machine func() hal.Device, binary *metal.LightMetalBinary)) {
	for _, b := range allChips {
		for name, machine := range machines(t, b) {
			for i := range workloads.All {
				w := &workloads.All[i]
				t.Run(b.Name+"/"+name+"/"+w.Name, func(t *testing.T) {
					on := machine()
					defer on.Close()
					binary, err := w.Capture(b, on)
					ok(t, err)
					test(t, w, b, machine, binary)
				})
			}
		}
	}
}

func TestWorkloadsCaptureWhatTheHostComputes(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board, _ func() hal.Device,
		binary *metal.LightMetalBinary) {
		captured := map[string][]byte{}
		for _, tensor := range binary.Image.Tensors {
			captured[tensor.Name] = tensor.Data
		}
		check(t, binary.Image, captured, wanted(w, binary.Image, nil))
	})
}

func TestWorkloadsReplayToTheSameOutputs(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board,
		machine func() hal.Device, binary *metal.LightMetalBinary) {
		on := machine()
		defer on.Close()
		got, result := replay(t, binary.Bytes(), on, nil)
		if result.Code != hal.OK {
			t.Fatalf("%+v", result)
		}
		for _, tensor := range binary.Image.Tensors {
			if tensor.Role == gen.RoleOutput && !bytes.Equal(got[tensor.Name], tensor.Data) {
				t.Errorf("output %s differs from the captured", tensor.Name)
			}
		}
	})
}

func TestWorkloadsReplayWithNewInputs(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w *metal.Workload, _ *boards.Board,
		machine func() hal.Device, binary *metal.LightMetalBinary) {
		inputs := others(binary.Image)
		if len(inputs) == 0 {
			return
		}
		on := machine()
		defer on.Close()
		got, result := replay(t, binary.Bytes(), on, inputs)
		if result.Code != hal.OK {
			t.Fatalf("%+v", result)
		}
		check(t, binary.Image, got, wanted(w, binary.Image, inputs))
	})
}

func TestTwoCapturesAreTheSameBytes(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w *metal.Workload, b *boards.Board,
		machine func() hal.Device, binary *metal.LightMetalBinary) {
		on := machine()
		defer on.Close()
		again, err := w.Capture(b, on)
		ok(t, err)
		if !bytes.Equal(again.Bytes(), binary.Bytes()) {
			t.Error("the second capture differs")
		}
	})
}

func TestCaptureWithNothingBehindTheDeviceGivesTheSameCommands(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w *metal.Workload, b *boards.Board,
		machine func() hal.Device, binary *metal.LightMetalBinary) {
		planned, err := w.Capture(b, nil)
		ok(t, err)
		for i := range binary.Image.Tensors {
			if binary.Image.Tensors[i].Role == gen.RoleOutput {
				binary.Image.Tensors[i].Data = nil
			}
		}
		file, err := lmb.Encode(binary.Image)
		ok(t, err)
		if !bytes.Equal(planned.Bytes(), file) {
			t.Error("the images differ in more than golden data")
		}
	})
}
