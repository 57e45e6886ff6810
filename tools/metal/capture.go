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

// tool is the name of the tool in the origin of every image.
const tool = "metal 0.1"

// Call is a recorded call with the global ids of its objects. An id is 0 if the call has no such
// object.
type Call struct {
	Name                                           string
	Buffer, Program, Kernel, CircularBuffer, Trace uint64
}

// String returns the call as the marks of an image contain it, such as "EnqueueProgram program 3".
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

// capture is an image that is being recorded.
type capture struct {
	source    string         // Device.Source
	calls     []Call         // all calls so far
	main      *stream        // commands of the sequence main
	tensors   []lmb.Tensor   // inputs and outputs
	goldens   []lmb.Tensor   // outputs that the host compares; they follow tensors in the image
	sequences []lmb.Sequence // sequences of traces; the number of the first in the image is 1
}

// LightMetalBinary is the result of a capture.
type LightMetalBinary struct {
	Image *lmb.Image
	Calls []Call // all recorded calls, also those without an effect on the device
	file  []byte // .lmb file of Image
}

// Bytes returns the .lmb file. It is empty if recording was off.
func (b *LightMetalBinary) Bytes() []byte { return b.file }

// Size returns the number of bytes of the file.
func (b *LightMetalBinary) Size() int { return len(b.file) }

// IsEmpty reports whether no call was recorded.
func (b *LightMetalBinary) IsEmpty() bool { return len(b.Calls) == 0 }

// SaveToFile writes the file to path. If writing fails, a file that already exists there stays
// unchanged.
func (b *LightMetalBinary) SaveToFile(path string) error {
	return files.Write(path, b.file, 0o666, files.OpenToReplace)
}

// LightMetalBeginCapture begins to record the calls on a device. It does nothing if recording is
// switched off.
func LightMetalBeginCapture(d *Device) (err error) {
	defer fail.Catch(&err)
	d.use()
	switch {
	case !built || d.RecordingOff:
		return nil
	case d.capture != nil:
		refuse("a capture has begun already; call LightMetalEndCapture first")
	case d.open != nil:
		refuse("trace %d is not complete; "+
			"call EndTraceCapture before LightMetalBeginCapture", d.open.id)
	}
	d.capture = &capture{source: d.Source}
	d.capture.main = newStream()
	d.capture.main.capture = d.capture
	return nil
}

// LightMetalEndCapture ends the recording and returns the binary. The binary is empty if recording
// is switched off.
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
	d.wait(true) // this sets the golden data of the outputs
	d.capture = nil
	image := c.image(d)
	file := fail.Must(lmb.Encode(image))
	return &LightMetalBinary{image, c.calls, file}, nil
}

// image returns the image of everything that was recorded.
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

// traced reports whether calls are recorded. While recording is off, this check is the only cost of
// recording in a call; with the build tag nolightmetal there is no cost.
func (d *Device) traced() bool { return built && d.capture != nil }

// record records a call that has no effect on the device by itself.
func (d *Device) record(c Call) {
	if d.traced() {
		d.capture.calls = append(d.capture.calls, c)
	}
}

// streams returns the streams to which a call must append its commands: the stream of the image if
// calls are recorded, and then that of the machine if there is a device. It records the call and
// appends its mark to each stream.
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

// sequence returns the number of a trace's sequence in the image. It adds the sequence at the first
// call. name is loadName or replayName.
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

// input returns the index of the input tensor with the name of t, or a numbered name, whose default
// is `data`. It adds the tensor if necessary.
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

// output adds an output tensor for a read of a buffer, and returns its index.
func (c *capture) output(b *Buffer) int {
	t := outputTensor(b, outputName(b))
	for i := 2; c.find(t.Name) >= 0; i++ {
		t.Name = numbered(outputName(b), i)
	}
	c.tensors = append(c.tensors, t)
	return len(c.tensors) - 1
}

// outputName returns the name of the output of the first read of a buffer.
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

// numbered returns the name of tensor i with the same base name: name, name.2, name.3 and so on.
func numbered(name string, i int) string {
	if i == 1 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, i)
}

// find returns the index of the tensor with a name, or -1.
func (c *capture) find(name string) int {
	return slices.IndexFunc(c.tensors, func(t lmb.Tensor) bool { return t.Name == name })
}

// Comparison is the condition for a buffer to be equal to its golden data.
type Comparison struct {
	golden lmb.Golden // condition; without a kind, every byte must be equal
	dtype  gen.DType  // type of the elements
	wrong  string     // why the comparison is invalid; "" if it is valid
}

// Exact requires every byte to be equal. A replay fails as soon as it finds a difference.
func Exact() Comparison { return Comparison{dtype: gen.DTypeUint32} }

// Tolerance requires |got - want| <= absolute + relative |want| for every element. lm replay
// --check-golden checks this after the run.
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

// Correlation requires Pearson's correlation coefficient to be at least threshold, separately for
// each range of the buffer that is contiguous in a bank. lm replay --check-golden checks this after
// the run.
func Correlation(dtype gen.DType, threshold float32) Comparison {
	c := Comparison{dtype: dtype, golden: lmb.Golden{Kind: gen.JudgementCorrelation,
		First: math.Float32bits(threshold)}}
	if !(threshold >= -1 && threshold <= 1) {
		c.wrong = fmt.Sprintf("correlation %v must be between -1 and 1", threshold)
	}
	return c
}

// check fails if the comparison is invalid, or invalid for the buffer b.
func (c Comparison) check(b *Buffer) {
	size := uint64(fbs.DTypeSize(c.dtype))
	switch {
	case c.wrong != "":
		refuse("%s", c.wrong)
	case size == 0:
		refuse("a comparison needs a type: Exact(), Tolerance(...) or Correlation(...)")
	case b.config.PageSize%size != 0:
		refuse("the page size, %d bytes, "+
			"must be a multiple of the element size, %d bytes", b.config.PageSize, size)
	}
}

// LightMetalCompareToCapture reads a buffer now, and makes every replay compare the buffer with
// these data. It returns an error if no device computes during the capture. If calls are not
// recorded, it does nothing.
func LightMetalCompareToCapture(q *CommandQueue, b *Buffer, how Comparison) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("LightMetalCompareToCapture", b)
	if !d.traced() {
		return nil
	}
	if d.machine == nil {
		refuse("LightMetalCompareToCapture: " +
			"this capture computes nothing, so it has no data to compare with; " +
			"capture on a device, or pass the data to LightMetalCompareToGolden")
	}
	golden, s := make([]byte, b.config.Size), d.machine.pending
	s.mark(Call{Name: "LightMetalCompareToCapture", Buffer: b.id}.String())
	s.readBuffer(b, d.machine.read(nil, -1, b, golden))
	d.machine.run()
	d.compare("LightMetalCompareToCapture", b, golden, how)
	return nil
}

// LightMetalCompareToGolden makes every replay compare a buffer with the data golden. It does not
// read the buffer during the capture.
func LightMetalCompareToGolden(q *CommandQueue, b *Buffer, golden []byte,
	how Comparison) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("LightMetalCompareToGolden", b)
	if uint64(len(golden)) != b.config.Size {
		refuse("there are %d golden bytes, "+
			"but buffer %d has %d bytes", len(golden), b.id, b.config.Size)
	}
	d.compare("LightMetalCompareToGolden", b, golden, how)
	return nil
}

// compare records a comparison of a buffer with golden data. name is the name of the exported call.
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

// compare appends the comparison of the run r with its golden bytes.
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

// goldenIndex is the tensor index of the outputs in capture.goldens while the capture lasts. Their
// index is known only at the end, because they follow all other tensors; capture.image then
// replaces goldenIndex.
const goldenIndex = math.MaxUint16
