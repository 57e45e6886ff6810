package metal

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"
)

// tool stands in the origin of every image.
const tool = "metal 0.1"

// Call is one recorded call and the global ids of what it is about, 0: none.
type Call struct {
	Name                                           string
	Buffer, Program, Kernel, CircularBuffer, Trace uint64
}

// String is the call as the image's marks have it: "EnqueueProgram program 3".
func (c Call) String() string {
	text := c.Name
	for _, o := range []struct {
		kind string
		id   uint64
	}{{"buffer", c.Buffer}, {"program", c.Program}, {"kernel", c.Kernel},
		{"circular buffer", c.CircularBuffer}, {"trace", c.Trace}} {
		if o.id != 0 {
			text += fmt.Sprintf(" %s %d", o.kind, o.id)
		}
	}
	return text
}

// capture is an image in the making.
type capture struct {
	source    string
	calls     []Call
	main      *stream
	tensors   []lmb.Tensor
	goldens   []lmb.Tensor   // of comparisons that are judged on the host; they come last
	sequences []lmb.Sequence // of traces; the first is number 1
}

// LightMetalBinary is what a capture gives.
type LightMetalBinary struct {
	Image *lmb.Image
	Calls []Call // as they were recorded, those without effect on the device too
	file  []byte
}

// Bytes is the .lmb file; empty where recording was off.
func (b *LightMetalBinary) Bytes() []byte { return b.file }

// Size is the number of bytes of the file.
func (b *LightMetalBinary) Size() int { return len(b.file) }

// IsEmpty tells that nothing was recorded.
func (b *LightMetalBinary) IsEmpty() bool { return len(b.Calls) == 0 }

// SaveToFile writes the file, whole or not at all.
func (b *LightMetalBinary) SaveToFile(path string) error {
	return files.Write(path, b.file, 0o666, files.Replace)
}

// LightMetalBeginCapture records calls on a device from here on. Where recording
// is switched off it does nothing.
func LightMetalBeginCapture(d *Device) (err error) {
	defer fail.Catch(&err)
	d.use()
	switch {
	case !built || d.RecordingOff:
		return nil
	case d.capture != nil:
		refuse("a capture has begun already; call LightMetalEndCapture first")
	case d.open != nil:
		refuse("trace %d is not complete; call EndTraceCapture before "+
			"LightMetalBeginCapture", d.open.id)
	}
	d.capture = &capture{source: d.Source}
	d.capture.main = newStream()
	d.capture.main.capture = d.capture
	return nil
}

// LightMetalEndCapture ends the recording and gives the image. Where recording
// is switched off the image is empty.
func LightMetalEndCapture(d *Device) (_ *LightMetalBinary, err error) {
	defer fail.Catch(&err)
	d.use()
	c := d.capture
	switch {
	case !built || d.RecordingOff:
		return &LightMetalBinary{}, nil
	case c == nil:
		refuse("no capture has begun; call LightMetalBeginCapture first")
	case d.open != nil:
		refuse("trace %d is not complete; call EndTraceCapture first", d.open.id)
	}
	d.wait(true) // outputs have their golden data afterwards
	d.capture = nil
	image := c.image(d)
	file := fail.Must(lmb.Encode(image))
	return &LightMetalBinary{image, c.calls, file}, nil
}

// image puts the image together.
func (c *capture) image(d *Device) *lmb.Image {
	tensors := c.tensors
	for i := range c.main.commands {
		if at := &c.main.commands[i]; at.Opcode == gen.OpcodeCopyOut && at.Index == goldenIndex {
			tensors = append(tensors, c.goldens[len(tensors)-len(c.tensors)])
			at.Index = uint16(len(tensors))
		}
	}
	sequences := append([]lmb.Sequence{{Name: "main", Commands: c.main.commands}}, c.sequences...)
	return &lmb.Image{
		Origin: lmb.Origin{Tool: tool, Source: c.source}, Devices: targets(d.board),
		Windows: windows(),
		Tensors: tensors, Sequences: append(sequences, c.main.safe(&d.grid)...),
	}
}

// traced tells whether a call is recorded. It is all that recording costs a
// call while it is off, and with the build tag nolightmetal it is nothing.
func (d *Device) traced() bool { return built && d.capture != nil }

// record notes a call that has no effect on the device by itself.
func (d *Device) record(c Call) {
	if d.traced() {
		d.capture.calls = append(d.capture.calls, c)
	}
}

// streams are what a call goes to, with its mark: the image where it is
// recorded, then what the device carries out where there is one.
func (d *Device) streams(c Call) (list []*stream) {
	if d.traced() {
		d.capture.calls = append(d.capture.calls, c)
		list = append(list, d.capture.main)
	}
	if d.machine != nil {
		list = append(list, d.machine.pending)
	}
	for _, s := range list {
		s.mark(c.String())
	}
	return list
}

// sequence gives the number of a trace's sequence in the image.
func (c *capture) sequence(id TraceID, name string, commands []lmb.Command) uint16 {
	full := fmt.Sprintf("trace:%d", id)
	if name == loadName {
		full += ":load"
	}
	at := slices.IndexFunc(c.sequences, func(s lmb.Sequence) bool { return s.Name == full })
	if at < 0 {
		at = len(c.sequences)
		c.sequences = append(c.sequences, lmb.Sequence{Name: full, Commands: commands})
	}
	return uint16(1 + at)
}

// input gives the number of the input tensor with this name and data.
func (c *capture) input(t *tensor, data []byte) uint16 {
	for i := 1; ; i++ {
		name := numbered(t.name, i)
		at := c.find(name)
		if at < 0 {
			c.tensors = append(c.tensors, lmb.Tensor{Name: name, Role: gen.RoleInput,
				DType: t.dtype, Shape: t.shape, Data: slices.Clone(data)})
			return uint16(len(c.tensors) - 1)
		}
		if c.tensors[at].Role == gen.RoleInput && bytes.Equal(c.tensors[at].Data, data) {
			return uint16(at)
		}
	}
}

// output makes a new output tensor for a read of a buffer.
func (c *capture) output(b *Buffer) int {
	t := outputTensor(b, outputName(b))
	for i := 2; c.find(t.Name) >= 0; i++ {
		t.Name = numbered(outputName(b), i)
	}
	c.tensors = append(c.tensors, t)
	return len(c.tensors) - 1
}

func outputName(b *Buffer) string {
	if b.output != nil {
		return b.output.name
	}
	return fmt.Sprintf("buffer-%d", b.id)
}

func outputTensor(b *Buffer, name string) lmb.Tensor {
	t := lmb.Tensor{Name: name, Role: gen.RoleOutput, DType: gen.DTypeUint8,
		Shape: []uint32{uint32(b.config.Size)}}
	if b.output != nil {
		t.DType, t.Shape = b.output.dtype, b.output.shape
	}
	return t
}

func numbered(name string, i int) string {
	if i == 1 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, i)
}

func (c *capture) find(name string) int {
	return slices.IndexFunc(c.tensors, func(t lmb.Tensor) bool { return t.Name == name })
}

// Comparison says when a buffer counts as equal to its golden data.
type Comparison struct {
	golden lmb.Golden // of no kind: every byte is the same
	dtype  gen.DType
	wrong  string
}

// Exact wants every byte equal. A replay that finds another ends there.
func Exact() Comparison { return Comparison{dtype: gen.DTypeUint32} }

// Tolerance wants |got - want| <= absolute + relative |want| of every element.
// lm replay --check-golden judges it after the run.
func Tolerance(dtype gen.DType, absolute, relative float32) Comparison {
	c := Comparison{dtype: dtype, golden: lmb.Golden{Kind: gen.JudgementTolerance,
		First:  math.Float32bits(absolute),
		Second: math.Float32bits(relative)}}
	for _, v := range []float32{absolute, relative} {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			c.wrong = fmt.Sprintf("tolerance %v must be finite and not negative", v)
		}
	}
	return c
}

// Correlation wants Pearson's coefficient to be at least threshold, of each
// stretch of the buffer that lies in one piece in a bank. lm replay
// --check-golden judges it after the run.
func Correlation(dtype gen.DType, threshold float32) Comparison {
	c := Comparison{dtype: dtype, golden: lmb.Golden{Kind: gen.JudgementCorrelation,
		First: math.Float32bits(threshold)}}
	if !(threshold >= -1 && threshold <= 1) {
		c.wrong = fmt.Sprintf("correlation %v must be between -1 and 1", threshold)
	}
	return c
}

func (c Comparison) check(b *Buffer) {
	size := uint64(fbs.DTypeSize(c.dtype))
	switch {
	case c.wrong != "":
		refuse("%s", c.wrong)
	case size == 0:
		refuse("a comparison needs a type: Exact(), Tolerance(...) or Correlation(...)")
	case b.config.PageSize%size != 0:
		refuse("the page size, %d bytes, must be a multiple of the element size, %d "+
			"bytes", b.config.PageSize, size)
	}
}

// LightMetalCompareToCapture reads a buffer now and has every replay compare it
// with what was read. It needs something behind the device. Where nothing is
// recorded it does nothing.
func LightMetalCompareToCapture(q *CommandQueue, b *Buffer, how Comparison) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("LightMetalCompareToCapture", b)
	if !d.traced() {
		return nil
	}
	if d.machine == nil {
		refuse("LightMetalCompareToCapture: this capture computes nothing, so it has no " +
			"data to compare with; capture on a device, or pass the data to " +
			"LightMetalCompareToGolden")
	}
	golden, s := make([]byte, b.config.Size), d.machine.pending
	s.mark(Call{Name: "LightMetalCompareToCapture", Buffer: b.id}.String())
	s.readBuffer(b, d.machine.read(nil, -1, b, golden))
	d.machine.run()
	d.compare("LightMetalCompareToCapture", b, golden, how)
	return nil
}

// LightMetalCompareToGolden has every replay compare a buffer with these data.
// Nothing is read at capture.
func LightMetalCompareToGolden(q *CommandQueue, b *Buffer, golden []byte,
	how Comparison) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("LightMetalCompareToGolden", b)
	if uint64(len(golden)) != b.config.Size {
		refuse("there are %d golden bytes, but buffer %d has %d "+
			"bytes", len(golden), b.id, b.config.Size)
	}
	d.compare("LightMetalCompareToGolden", b, golden, how)
	return nil
}

func (d *Device) compare(name string, b *Buffer, golden []byte, how Comparison) {
	how.check(b)
	if !d.traced() {
		return
	}
	c := Call{Name: name, Buffer: b.id}
	d.capture.calls = append(d.capture.calls, c)
	s := d.capture.main
	s.mark(c.String())
	for _, r := range b.runs() {
		s.compare(r, r.gather(golden), how)
	}
}

// compare appends the comparison of a run with its golden bytes.
func (s *stream) compare(r run, golden []byte, how Comparison) {
	pieces(r.address, r.size, func(first, n uint64) {
		data := golden[first : first+n]
		if how.golden.Kind == gen.JudgementInvalid {
			c := fbs.Command{Opcode: gen.OpcodeCompare, Width: width, Option: uint8(gen.PolicyFail)}
			s.at(memory, unicast(r.tile), r.address+first, lmb.Command{Command: c, Data: data})
			return
		}
		s.capture.goldens = append(s.capture.goldens, lmb.Tensor{
			Name: fmt.Sprintf("golden:%d", len(s.capture.goldens)), Role: gen.RoleOutput,
			DType: how.dtype,
			Shape: []uint32{uint32(n) / uint32(fbs.DTypeSize(how.dtype))}, Data: data,
			Golden: how.golden,
		})
		c := fbs.Command{Opcode: gen.OpcodeCopyOut, Width: width, Mode: uint8(gen.AccessExact),
			Index: goldenIndex, Amount: uint32(n)}
		s.at(memory, unicast(r.tile), r.address+first, lmb.Command{Command: c})
	})
}

// goldenIndex stands in a capture for the output that the next of its goldens
// becomes: they come after all other tensors.
const goldenIndex = math.MaxUint16
