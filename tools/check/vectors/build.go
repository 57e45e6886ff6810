package main

// This file makes vectors of definitions: it lets the oracle execute images on machines that the
// definitions describe, and records what happens.

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/lmb"
)

// definition describes a vector.
type definition struct {
	name   string
	format []string // sentences of FORMAT.md that the vector shows, beginnings suffice
	image  string   // name of a listing in testdata/vectors, or path of an image
	change func(*file)
	machine
	runs []run  // nil: one run of sequence 0
	want string // how the last run must end, or `reject CODE PLACE`, as the author expects it
}

// run is a run of a sequence.
type run struct {
	sequence string         // its name; "": sequence 0
	inputs   map[int][]byte // data that the caller sets first, by tensor
}

// machine describes what a machine answers. Memory of devices contains zeros, and what was stored.
type machine struct {
	accessNs, lateNs int64
	limitUs          uint64
	answers          []answer
	failAt           int // number of the access that is answered with an error; 0: none
	goneAt           int // device goneDevice goes away after so many accesses; 0: it does not
	goneDevice       int
	devices          []vector.Device
	bus              []vector.Window
	elapsed          bool // the vector has the time of each run
	unloads          bool // the vector has what happens when the use of the image ends
}

// answer is what loads of a place return, instead of the contents of memory.
type answer struct {
	space  vector.Space
	offset uint64
	value  uint64
	times  int   // the answer applies to so many loads; 0: to all
	until  int64 // not 0: the answer applies until this time in nanoseconds
}

// file is an image file that a definition changes.
type file struct {
	data []byte
	view *fbs.View // tables, as they lie in data; nil if the image is not valid
}

// recorder is the machine of a definition. It records a vector.
type recorder struct {
	machine
	v        *vector.Vector
	memory   map[vector.Space]map[uint64]byte
	accesses int
	now      int64
	gone     map[int]bool
}

func (r *recorder) add(s vector.Step) { r.v.Steps = append(r.v.Steps, s) }

// count counts an access, and reports whether it succeeds.
func (r *recorder) count() (ok bool) {
	r.accesses++
	r.now += r.accessNs
	return r.accesses != r.failAt
}

// leave lets the device go away if its time has come.
func (r *recorder) leave() {
	if r.goneAt != 0 && r.accesses == r.goneAt {
		r.gone[r.goneDevice] = true
		r.add(vector.Step{Kind: vector.Gone, Index: r.goneDevice})
	}
}

// deviceOf returns the device that answers an access, -1 for host memory.
func deviceOf(space vector.Space) int {
	if space.Kind == vector.HostSpace {
		return -1
	}
	return space.Device
}

// find returns the answer to a load, nil if memory answers.
func (r *recorder) find(space vector.Space, offset uint64) *answer {
	for i := range r.answers {
		a := &r.answers[i]
		isDone := a.times < 0 || a.until != 0 && r.now >= a.until
		if a.space == space && a.offset == offset && !isDone {
			if a.times--; a.times == 0 {
				a.times = -1 // it was the last one
			} else if a.times < 0 {
				a.times = 0 // the answer applies to all loads
			}
			return a
		}
	}
	return nil
}

// value returns what a load returns.
func (r *recorder) value(space vector.Space, offset uint64, width uint8) (value uint64, a *answer) {
	if r.gone[deviceOf(space)] {
		return fbs.WidthMask(width), nil
	}
	if a := r.find(space, offset); a != nil {
		if a.value > fbs.WidthMask(width) {
			panic(fmt.Sprintf("the answer %#x has more than %d bytes", a.value, width))
		}
		return a.value, a
	}
	for i := range uint64(width) {
		value |= uint64(r.memory[space][offset+i]) << (8 * i)
	}
	return value, nil
}

// Load implements oracle.Machine.
func (r *recorder) Load(space vector.Space, offset uint64, width uint8) (value uint64, ok bool) {
	ok = r.count()
	value, a := r.value(space, offset, width)
	s := vector.Step{Kind: vector.Load, Space: space, Offset: offset, Width: width, Value: value,
		Fails: !ok}
	if a != nil {
		s.Until = a.until
	}
	last := len(r.v.Steps) - 1
	isRepeated := s.Until != 0 && last >= 0 && r.v.Steps[last].String() == s.String()
	if !isRepeated {
		r.add(s)
	}
	r.leave()
	return value, ok
}

// Store implements oracle.Machine.
func (r *recorder) Store(space vector.Space, offset uint64, width uint8, value uint64) (ok bool) {
	ok = r.count()
	r.add(vector.Step{Kind: vector.Store, Space: space, Offset: offset, Width: width, Value: value,
		Fails: !ok})
	if ok {
		r.put(space, offset, vector.LittleEndian(value, width))
	}
	r.leave()
	return ok
}

// put changes memory.
func (r *recorder) put(space vector.Space, offset uint64, data []byte) {
	if r.gone[deviceOf(space)] {
		return
	}
	if r.memory[space] == nil {
		r.memory[space] = map[uint64]byte{}
	}
	for i, b := range data {
		r.memory[space][offset+uint64(i)] = b
	}
}

// LoadBytes implements oracle.Machine.
func (r *recorder) LoadBytes(space vector.Space, offset uint64, width uint8, data []byte) bool {
	ok := r.count()
	for i := range data {
		value, _ := r.value(space, offset+uint64(i), 1)
		data[i] = byte(value)
	}
	r.add(vector.Step{Kind: vector.LoadBytes, Space: space, Offset: offset,
		Data: bytes.Clone(data)})
	r.leave()
	return ok
}

// StoreBytes implements oracle.Machine.
func (r *recorder) StoreBytes(space vector.Space, offset uint64, width uint8, data []byte) bool {
	ok := r.count()
	r.add(vector.Step{Kind: vector.StoreBytes, Space: space, Offset: offset,
		Data: bytes.Clone(data)})
	r.put(space, offset, data)
	r.leave()
	return ok
}

// Fence implements oracle.Machine.
func (r *recorder) Fence() { r.add(vector.Step{Kind: vector.Fence}) }

// IsPresent implements oracle.Machine.
func (r *recorder) IsPresent(device int) bool {
	r.add(vector.Step{Kind: vector.Query, Index: device})
	return !r.gone[device]
}

// Now implements oracle.Machine.
func (r *recorder) Now() int64 { return r.now }

// Wait implements oracle.Machine.
func (r *recorder) Wait(nanoseconds int64) {
	if nanoseconds > 0 {
		r.now += nanoseconds + r.lateNs
	}
}

// Device implements oracle.Machine.
func (r *recorder) Device(index int, needed vector.Device) vector.Device {
	return vector.NewMachine(r.v).Device(index, needed)
}

// BusAddress implements oracle.Machine.
func (r *recorder) BusAddress(window int) (address uint64, ok bool) {
	return vector.NewMachine(r.v).BusAddress(window)
}

// build makes the vector of a definition. `files` has the images by name.
func (d *definition) build(files map[string][]byte) (*vector.Vector, error) {
	base, known := files[d.image]
	if !known {
		return nil, fmt.Errorf("there is no image %s", d.image)
	}
	v := &vector.Vector{Name: d.name, Sentences: slices.Clone(d.format), Image: d.image, Size: -1,
		AccessNs: d.accessNs, LateNs: d.lateNs, LimitUs: d.limitUs, Devices: d.devices,
		Windows: d.bus}
	d.addPatches(v, base)
	image, err := v.File(base)
	if err != nil {
		return nil, err
	}
	if err := d.play(v, image); err != nil {
		return nil, err
	}
	if ended := ending(v); ended != d.want {
		return nil, fmt.Errorf("it ends with %q, but its author expects %q", ended, d.want)
	}
	return v, nil
}

// addPatches adds what distinguishes the changed file from the image.
func (d *definition) addPatches(v *vector.Vector, base []byte) {
	if d.change == nil {
		return
	}
	f := &file{data: vector.Aligned(base)}
	f.view, _ = fbs.Verify(f.data)
	d.change(f)
	if len(f.data) != len(base) {
		v.Size = len(f.data)
	}
	old := make([]byte, len(f.data))
	copy(old, base)
	for i := 0; i < len(old); i++ {
		first := i
		for i < len(old) && old[i] != f.data[i] {
			i++
		}
		if i > first {
			v.Patches = append(v.Patches, vector.Patch{Offset: first, Data: f.data[first:i]})
		}
	}
}

// stamp makes the checksum of the envelope right again.
func (f *file) stamp() {
	size := fbs.ReadStruct[fbs.Preamble](f.data).EnvelopeSize
	lmb.Stamp(f.data, size)
}

// play lets the oracle read an image and execute its runs.
func (d *definition) play(v *vector.Vector, file []byte) error {
	r := &recorder{machine: d.machine, v: v, memory: map[vector.Space]map[uint64]byte{},
		gone: map[int]bool{}}
	r.answers = append([]answer{}, d.answers...)
	image, fault := oracle.Verify(file)
	var player *oracle.Player
	if fault == nil {
		player, fault = oracle.Load(image, r, d.limitUs)
	}
	if fault != nil {
		v.Reject = &vector.Verdict{Code: fault.Code, Place: fault.Place}
		return nil
	}
	runs := d.runs
	if runs == nil {
		runs = []run{{}}
	}
	for _, run := range runs {
		for tensor := range image.Tensors {
			if data := run.inputs[tensor]; data != nil {
				player.SetInput(tensor, data)
				r.add(vector.Step{Kind: vector.Input, Index: tensor, Data: data})
			}
		}
		sequence := 0
		if run.sequence != "" {
			sequence = image.Find(run.sequence)
		}
		if sequence < 0 {
			return fmt.Errorf("there is no sequence %s", run.sequence)
		}
		r.add(vector.Step{Kind: vector.Run, Index: sequence})
		began := r.now
		result := player.Run(sequence)
		if d.elapsed {
			r.add(vector.Step{Kind: vector.Elapsed, Value: uint64(r.now - began)})
		}
		v.Steps = append(v.Steps, result.Steps()...)
	}
	for tensor := range image.Tensors {
		if image.Tensors[tensor].Role == roleOutput {
			r.add(vector.Step{Kind: vector.Output, Index: tensor,
				Data: bytes.Clone(player.Tensor(tensor))})
		}
	}
	if d.unloads {
		r.add(vector.Step{Kind: vector.Unload})
		player.Close()
	}
	return nil
}

// Numbers of fbs/image.fbs.
const (
	roleOutput       = 2
	kindBar, kindTlb = 1, 2

	opWrite, opModify, opRelocate, opCopyIn, opFill, opCopyOut, opExpect = 1, 2, 3, 4, 5, 6, 7

	opCompare, opPoint, opFence, opDelay, opCall, opEnd = 8, 9, 10, 11, 12, 13

	opAdvance, opReset = 14, 15
)

// command returns the command with an opcode that follows n others with this opcode.
func (f *file) command(opcode gen.Opcode, n int) *fbs.Command {
	for i := range f.view.Commands {
		if f.view.Commands[i].Opcode != opcode {
			continue
		}
		if n == 0 {
			return &f.view.Commands[i]
		}
		n--
	}
	panic(fmt.Sprint("the image has too few commands with opcode ", opcode))
}

// ending returns how a vector ends.
func ending(v *vector.Vector) string {
	if v.Reject != nil {
		return strings.TrimSpace("reject " + v.Reject.Code + " " + v.Reject.Place)
	}
	var words []string
	for _, s := range v.Steps {
		switch s.Kind {
		case vector.Run:
			words = nil
		case vector.End:
			words = append(words, strings.TrimPrefix(s.String(), "end "))
		case vector.Safe, vector.Ignored:
			words = append(words, s.String())
		}
	}
	return strings.Join(words, ", ")
}

// imageName returns the name of the image that a listing makes.
func imageName(listing string) string {
	return strings.TrimSuffix(filepath.Base(listing), ".lms") + ".lmb"
}
