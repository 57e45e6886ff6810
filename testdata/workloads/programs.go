package workloads

import (
	"bytes"

	"lightmetal/fbs/gen"
	"lightmetal/tools/metal"
)

func loopback(d *metal.Device) {
	const page, pages = 2048, 25 // as upstream's: 50 KB
	a, b, l1 := dram(d, page*pages, page), dram(d, page*pages, page), scratch(d, page, one)
	in(a, "a")
	out(b, "b")
	write(d, a, words(page*pages/4, 1))
	p := must(metal.CreateProgram(d))
	k := kernel(p, "copy.brisc", first, brisc)
	check(metal.SetRuntimeArgs(p, k, first, []uint32{address(a), address(b), 0, pages, page,
		address(l1)}))
	launch(d, p)
	check(metal.Finish(d.CommandQueue()))
	read(d, b)
}

func loopbackPerCore(d *metal.Device) {
	const page, pages = 512, 24
	cores := metal.CoreRange{End: metal.CoreCoord{X: 1, Y: 1}}
	a, b, l1 := dram(d, page*pages, page), dram(d, page*pages, page), scratch(d, page, cores)
	in(a, "a")
	out(b, "b")
	write(d, a, words(page*pages/4, 1))
	p := must(metal.CreateProgram(d))
	k := kernel(p, "copy.ncrisc", cores, ncrisc)
	list := []metal.CoreCoord{{X: 1, Y: 1}, {X: 0, Y: 0}, {X: 1, Y: 0}, {X: 0, Y: 1}}
	var args [][]uint32
	for i := range list {
		args = append(args, []uint32{address(a), address(b), uint32(i * pages / 4), pages / 4, page,
			address(l1)})
	}
	check(metal.SetRuntimeArgsPerCore(p, k, list, args))
	launch(d, p)
	read(d, b)
}

// Operations of the kernel eltwise.
const (
	add = iota
	mul
	neg
	relu
	absolute
	scale
)

// eltwise is a program of reader, compute and writer: c = operation(a, b), b
// is nil for operations of one operand. Pages are dealt out to cores in order.
func eltwise(d *metal.Device, operation, constant uint32, cores metal.CoreRange, a, b,
	c *metal.Buffer) *metal.Program {
	p := must(metal.CreateProgram(d))
	circulars(p, cores, uint32(a.PageSize()))
	wire(d, p, operation, constant, cores, a, b, c)
	return p
}

func circulars(p *metal.Program, cores metal.CoreSpec, page uint32) {
	for _, index := range []uint8{0, 1, 16} {
		must(metal.CreateCircularBuffer(p, cores,
			metal.CircularBufferConfig{TotalSize: 2 * uint64(page),
				PageSizes: map[uint8]uint64{index: uint64(page)}}))
	}
}

func wire(d *metal.Device, p *metal.Program, operation, constant uint32, cores metal.CoreRange, a,
	b, c *metal.Buffer) {
	reader, compute, writer := kernel(p, "reader.brisc", cores, brisc),
		kernel(p, "eltwise.trisc0", cores, trisc0),
		kernel(p, "writer.ncrisc", cores, ncrisc)
	width := cores.End.X - cores.Start.X + 1
	n := width * (cores.End.Y - cores.Start.Y + 1)
	page, each := uint32(a.PageSize()), uint32(a.Size()/a.PageSize())/uint32(n)
	check(metal.SetRuntimeArgs(p, compute, cores, []uint32{operation, each, constant}))
	for i := range n {
		core := metal.CoreCoord{X: cores.Start.X + i%width, Y: cores.Start.Y + i/width}
		from := []metal.RuntimeArg{metal.Word(page), metal.Word(uint32(i) * each), metal.Word(each),
			metal.AddressOf(a), {}}
		if b != nil {
			from[4] = metal.AddressOf(b)
		}
		check(metal.SetRuntimeArgsBuffers(p, reader, core, from))
		check(metal.SetRuntimeArgsBuffers(p, writer, core,
			[]metal.RuntimeArg{metal.Word(page), metal.Word(uint32(i) * each), metal.Word(each),
				metal.AddressOf(c)}))
	}
}

func readerComputeWriter(d *metal.Device) {
	a, b, c := dram(d, 8*1024, 1024), dram(d, 8*1024, 1024), dram(d, 8*1024, 1024)
	in(a, "a")
	in(b, "b")
	out(c, "c")
	write(d, a, words(2048, 1))
	write(d, b, words(2048, 2))
	launch(d, eltwise(d, add, 0, one, a, b, c))
	read(d, c)
}

// dynamicCircularBuffer puts the first circular buffer on a sharded buffer, and
// for the second launch on another. A one-operand kernel leaves both as the
// reader filled them.
func dynamicCircularBuffer(d *metal.Device) {
	const page, pages = 256, 4
	a, c := dram(d, pages*page, page), dram(d, pages*page, page)
	here, there := scratch(d, 2*page, one), scratch(d, 2*page, one)
	in(a, "a")
	out(c, "c")
	write(d, a, words(pages*page/4, 1))
	p := must(metal.CreateProgram(d))
	cb := must(metal.CreateCircularBuffer(p, one,
		metal.CircularBufferConfig{TotalSize: 2 * page, PageSizes: map[uint8]uint64{0: page},
			Buffer: here}))
	must(metal.CreateCircularBuffer(p, one, metal.CircularBufferConfig{TotalSize: 2 * page,
		PageSizes: map[uint8]uint64{16: page}}))
	wire(d, p, neg, 0, one, a, nil, c)
	zero := make([]byte, 2*page)
	write(d, here, zero)
	write(d, there, zero)
	launch(d, p)
	read(d, c)
	golden(d, there, zero)
	check(metal.NameOutput(here, "here", gen.DTypeInt32, 2*page/4))
	read(d, here)

	check(metal.UpdateDynamicCircularBufferAddress(p, cb, there))
	write(d, here, zero)
	launch(d, p)
	read(d, c)
	golden(d, here, zero)
	check(metal.NameOutput(there, "there", gen.DTypeInt32, 2*page/4))
	read(d, there)
}

func earlyDeallocation(d *metal.Device) {
	a, b, c := dram(d, 4096, 1024), dram(d, 4096, 1024), dram(d, 4096, 1024)
	in(a, "a")
	out(c, "c")
	write(d, a, words(1024, 1))
	write(d, b, words(1024, 2))
	p := eltwise(d, mul, 0, one, a, b, c)
	launch(d, p)
	check(metal.DeallocateBuffer(a))
	check(metal.DeallocateBuffer(b))
	// The next buffer takes the first one's place and spoils it.
	e := dram(d, 4096, 1024)
	write(d, e, make([]byte, 4096))
	check(metal.ReleaseProgram(p))
	read(d, c)
}

func semaphores(d *metal.Device) {
	p := must(metal.CreateProgram(d))
	ping, pong := must(metal.CreateSemaphore(p, first, 1)), must(metal.CreateSemaphore(p, first, 0))
	word := scratch(d, 64, one)
	out(word, "word")
	write(d, word, bytes.Repeat([]byte{1, 0, 0, 0}, 16))
	check(metal.SetRuntimeArgs(p, kernel(p, "semaphores.brisc", first, brisc), first,
		[]uint32{5, ping, pong, address(word), 7}))
	check(metal.SetRuntimeArgs(p, kernel(p, "semaphores.ncrisc", first, ncrisc), first,
		[]uint32{5, pong, ping, address(word), 11}))
	launch(d, p)
	read(d, word)
}

// coreToCore sends page x of a row of cores to page 3 - x of another row, half
// of them over each network.
func coreToCore(d *metal.Device) {
	const page = 256
	row := func(y int) metal.CoreRange {
		return metal.CoreRange{Start: metal.CoreCoord{X: 2, Y: y}, End: metal.CoreCoord{X: 5, Y: y}}
	}
	from, to := scratch(d, page, row(0)), scratch(d, page, row(7))
	in(from, "from")
	out(to, "to")
	write(d, from, words(4*page/4, 1))
	p := must(metal.CreateProgram(d))
	for x := range 4 {
		core, far := metal.CoreCoord{X: 2 + x, Y: 0}, metal.CoreCoord{X: 5 - x, Y: 7}
		file, config := "send.brisc", brisc
		if x >= 2 {
			file, config = "send.ncrisc", ncrisc
		}
		k := kernel(p, file, core, config)
		check(metal.SetRuntimeArgsBuffers(p, k, core,
			[]metal.RuntimeArg{metal.AddressOf(from), metal.Word(must(d.WorkerCore(far))),
				metal.AddressOf(to),
				metal.Word(page)}))
	}
	launch(d, p)
	read(d, to)
}

func traceOne(d *metal.Device) {
	a, b, c := dram(d, 4096, 512), dram(d, 4096, 512), dram(d, 4096, 512)
	in(a, "a")
	out(c, "c")
	p := eltwise(d, add, 0, metal.CoreRange{End: metal.CoreCoord{X: 1}}, a, b, c)
	q := d.CommandQueue()
	t := must(metal.BeginTraceCapture(q))
	launch(d, p)
	check(metal.EndTraceCapture(q, t))
	write(d, a, words(1024, 1))
	write(d, b, words(1024, 2))
	check(metal.ReplayTrace(q, t, true))
	read(d, c)
	// Other inputs, the same trace.
	write(d, b, words(1024, 3))
	check(metal.EnqueueTrace(q, t, false))
	read(d, c)
	check(metal.ReleaseTrace(d, t))
}

// traceTwo has two programs on one core: the kernels of the second lie
// elsewhere than those of the first, but for the word at the reset address.
func traceTwo(d *metal.Device) {
	const n = 64
	a, b, c := scratch(d, 4*n, one), scratch(d, 4*n, one), scratch(d, 4*n, one)
	out(c, "c")
	program := func(file string, from, to *metal.Buffer, factor, offset uint32) *metal.Program {
		p := must(metal.CreateProgram(d))
		k := kernel(p, file, first, brisc)
		check(metal.SetRuntimeArgsBuffers(p, k, first,
			[]metal.RuntimeArg{metal.Word(n), metal.AddressOf(from), metal.AddressOf(to),
				metal.Word(factor),
				metal.Word(offset)}))
		return p
	}
	one, two := program("local.brisc", a, b, 3, 1), program("local-at-4000.brisc", b, c, 5, 2)
	data := words(n, 1)
	write(d, a, data)
	launch(d, one)
	launch(d, two)
	read(d, c)
	check(metal.LightMetalCompareToGolden(d.CommandQueue(), c, affine(data, 15, 7), metal.Exact()))

	q := d.CommandQueue()
	t := must(metal.BeginTraceCapture(q))
	launch(d, one)
	launch(d, two)
	check(metal.EndTraceCapture(q, t))
	write(d, c, bytes.Repeat([]byte{0xef, 0xbe, 0xad, 0xde}, n))
	check(metal.ReplayTrace(q, t, true))
	golden(d, c, affine(data, 15, 7))
	read(d, c)
	write(d, c, bytes.Repeat([]byte{0xef, 0xbe, 0xad, 0xde}, n))
	check(metal.ReplayTrace(q, t, false))
	read(d, c)
}
