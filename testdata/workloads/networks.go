package workloads

import (
	"encoding/binary"

	"lightmetal/fbs/gen"
	"lightmetal/tools/metal"
)

// affine is factor x + offset of each word.
func affine(data []byte, factor, offset uint32) (list []byte) {
	for i := 0; i < len(data); i += 4 {
		list = binary.LittleEndian.AppendUint32(list,
			factor*binary.LittleEndian.Uint32(data[i:])+offset)
	}
	return list
}

// chainOfSix is relu(x) ... as upstream's chain: six programs, each on 4 x 4
// cores, each over what the one before left.
func chainOfSix(d *metal.Device) {
	const page, pages = 1024, 32
	cores := metal.CoreRange{Start: metal.CoreCoord{X: 2, Y: 3}, End: metal.CoreCoord{X: 5, Y: 6}}
	buffer := func() *metal.Buffer { return dram(d, page*pages, page) }
	x, y, t, u := buffer(), buffer(), buffer(), buffer()
	in(x, "x")
	in(y, "y")
	out(t, "result")
	write(d, x, words(page*pages/4, 1))
	write(d, y, words(page*pages/4, 2))
	launch(d, eltwise(d, scale, 3, cores, x, nil, t))    // 3 x
	launch(d, eltwise(d, neg, 0, cores, t, nil, u))      // -3 x
	launch(d, eltwise(d, mul, 0, cores, u, y, t))        // -3 x y
	launch(d, eltwise(d, relu, 0, cores, t, nil, u))     // relu(-3 x y)
	launch(d, eltwise(d, add, 0, cores, u, y, x))        // + y
	launch(d, eltwise(d, absolute, 0, cores, x, nil, t)) // its size
	read(d, t)
}

// network is 64 -> 32 (relu, >> 7) -> 10. A layer's weights have a row a page,
// round the banks; each of four cores computes a quarter of the rows.
func network(d *metal.Device) {
	const inputs, hidden, outputs = 64, 32, 12
	cores := metal.CoreRange{Start: metal.CoreCoord{X: 1, Y: 1}, End: metal.CoreCoord{X: 4, Y: 1}}
	l1 := scratch(d, 4096, cores)
	x, h, y := dram(d, inputs, inputs), dram(d, hidden*64, 64), dram(d, outputs*64, 64)
	packed := dram(d, hidden, hidden)
	check(metal.NameInput(x, "x", gen.DTypeInt8, inputs))
	check(metal.NameOutput(y, "y", gen.DTypeInt32, outputs, 16))
	w1, b1 := dram(d, hidden*inputs, inputs), dram(d, hidden*64, 64)
	w2, b2 := dram(d, outputs*hidden, hidden), dram(d, outputs*64, 64)
	write(d, w1, bytesOf(hidden*inputs, 1))
	write(d, b1, biases(hidden, 2))
	write(d, w2, bytesOf(outputs*hidden, 3))
	write(d, b2, biases(outputs, 4))
	write(d, x, bytesOf(inputs, 5))
	launch(d, dense(d, cores, l1, w1, b1, x, h, hidden, inputs, 7))
	p := must(metal.CreateProgram(d))
	k := kernel(p, "pack.brisc", cores.Start, brisc)
	check(metal.SetRuntimeArgsBuffers(p, k, cores.Start,
		[]metal.RuntimeArg{metal.AddressOf(h), metal.AddressOf(packed), metal.Word(hidden),
			metal.AddressOf(l1)}))
	launch(d, p)
	launch(d, dense(d, cores, l1, w2, b2, packed, y, outputs, hidden, 255))
	read(d, y)
}

// biases has one number a page of 64 bytes.
func biases(n int, seed uint32) []byte {
	data, numbers := make([]byte, 64*n), words(n, seed)
	for i := range n {
		copy(data[64*i:], numbers[4*i:4*i+4])
	}
	return data
}

func dense(d *metal.Device, cores metal.CoreRange, l1, w, b, x, y *metal.Buffer, rows, columns,
	shift uint32) *metal.Program {
	p := must(metal.CreateProgram(d))
	k := kernel(p, "dense.brisc", cores, brisc)
	each := rows / 4
	var list []metal.CoreCoord
	var args [][]uint32
	for i := range uint32(4) {
		list = append(list, metal.CoreCoord{X: cores.Start.X + int(i), Y: cores.Start.Y})
		args = append(args, []uint32{address(w), address(b), address(x), address(y), i * each, each,
			columns, shift, address(l1)})
	}
	check(metal.SetRuntimeArgsPerCore(p, k, list, args))
	return p
}

func matmul(d *metal.Device) {
	const n = 64
	cores := metal.CoreRange{End: metal.CoreCoord{X: 3, Y: 1}}
	a, b, c := dram(d, 4*n*n, 4*n), dram(d, 4*n*n, 4*n), dram(d, 4*n*n, 4*n)
	l1 := scratch(d, 4*n*(n+2), cores)
	check(metal.NameInput(a, "a", gen.DTypeInt32, n, n))
	check(metal.NameInput(b, "b", gen.DTypeInt32, n, n))
	check(metal.NameOutput(c, "c", gen.DTypeInt32, n, n))
	write(d, a, words(n*n, 1))
	write(d, b, words(n*n, 2))
	p := must(metal.CreateProgram(d))
	k := kernel(p, "matmul.brisc", cores, brisc)
	var list []metal.CoreCoord
	var args [][]uint32
	for i := range uint32(8) {
		list = append(list, metal.CoreCoord{X: int(i) % 4, Y: int(i) / 4})
		args = append(args, []uint32{address(a), address(b), address(c), i * n / 8, n / 8, n,
			address(l1)})
	}
	check(metal.SetRuntimeArgsPerCore(p, k, list, args))
	launch(d, p)
	read(d, c)
}
