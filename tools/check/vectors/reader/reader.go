// Package reader has the readers of the format in Go, with one interface, and runs vectors with
// them.
package reader

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/ours"
	"lightmetal/tools/check/vectors/vector"
)

// Reader verifies and loads one image.
type Reader interface {
	Verify(file []byte, limitUs uint64) *oracle.Fault
	ReservedBytes() uint64
	Load(machine oracle.Machine, limitUs uint64) (Player, *oracle.Fault)
	Tensors() []Tensor
	SequenceCount() int
}

// Player executes sequences of a loaded image.
type Player interface {
	SetInput(tensor int, data []byte)
	Run(sequence int) vector.Result
	Tensor(tensor int) []byte
	Close()
}

// Tensor describes a tensor of an image.
type Tensor struct {
	Size              uint64
	IsInput, IsOutput bool
	HasData           bool
}

// Runtime reads images with this project's runtime and executes their sequences with it.
type Runtime struct{ view *fbs.View }

// Verify implements Reader.
func (r *Runtime) Verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.view, fault = ours.Verify(file); fault != nil {
		return fault
	}
	return ours.CheckTimeLimit(r.view, limitUs)
}

// ReservedBytes implements Reader.
func (r *Runtime) ReservedBytes() uint64 {
	return r.view.Reservation.ArenaBytes + r.view.Reservation.HostBytes
}

// Load implements Reader.
func (r *Runtime) Load(machine oracle.Machine, limitUs uint64) (Player, *oracle.Fault) {
	return ours.Load(r.view, machine, limitUs)
}

// Tensors implements Reader.
func (r *Runtime) Tensors() (list []Tensor) {
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		list = append(list, Tensor{t.Size, t.Role == gen.RoleInput, t.Role == gen.RoleOutput,
			t.HasData != 0})
	}
	return list
}

// SequenceCount implements Reader.
func (r *Runtime) SequenceCount() int { return len(r.view.Sequences) }

// Oracle reads images with package oracle and executes their sequences with it.
type Oracle struct {
	image    *oracle.Image
	SettleNs int64 // time for which it waits for errors of DMA
}

// Verify implements Reader.
func (r *Oracle) Verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.image, fault = oracle.Verify(file); fault != nil {
		return fault
	}
	return oracle.CheckTimeLimit(r.image, limitUs)
}

// ReservedBytes implements Reader.
func (r *Oracle) ReservedBytes() uint64 {
	return r.image.Reservation.Arena + r.image.Reservation.Host
}

// Load implements Reader.
func (r *Oracle) Load(machine oracle.Machine, limitUs uint64) (Player, *oracle.Fault) {
	p, fault := oracle.Load(r.image, machine, limitUs)
	if fault == nil {
		p.SettleNs = r.SettleNs
	}
	return p, fault
}

// Tensors implements Reader.
func (r *Oracle) Tensors() (list []Tensor) {
	for _, t := range r.image.Tensors {
		list = append(list, Tensor{t.Size, t.Role == uint8(gen.RoleInput),
			t.Role == uint8(gen.RoleOutput), t.HasData != 0})
	}
	return list
}

// SequenceCount implements Reader.
func (r *Oracle) SequenceCount() int { return len(r.image.Sequences) }
