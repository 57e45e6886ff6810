package main

// This file has the readers of the project in Go, with one interface.

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/ours"
	"lightmetal/tools/check/vectors/vector"
)

// reader is a reader of images, with one image.
type reader interface {
	verify(file []byte, limitUs uint64) *oracle.Fault
	reservedBytes() uint64
	load(machine oracle.Machine, limitUs uint64) (player, *oracle.Fault)
	tensors() []tensor
	sequences() int
}

// player executes sequences of a loaded image.
type player interface {
	SetInput(tensor int, data []byte)
	Run(sequence int) vector.Result
	Tensor(tensor int) []byte
	Close()
}

type tensor struct {
	size             uint64
	isInput, hasData bool
}

// goRuntime is the Go runtime as a reader.
type goRuntime struct{ view *fbs.View }

func (r *goRuntime) verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.view, fault = ours.Verify(file); fault != nil {
		return fault
	}
	return ours.CheckTimeLimit(r.view, limitUs)
}

func (r *goRuntime) reservedBytes() uint64 {
	return r.view.Reservation.ArenaBytes + r.view.Reservation.HostBytes
}

func (r *goRuntime) load(machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
	return ours.Load(r.view, machine, limitUs)
}

func (r *goRuntime) tensors() (list []tensor) {
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		list = append(list, tensor{t.Size, t.Role == gen.RoleInput, t.HasData != 0})
	}
	return list
}

func (r *goRuntime) sequences() int { return len(r.view.Sequences) }

// specified is package oracle as a reader.
type specified struct {
	image    *oracle.Image
	settleNs int64 // how long it waits for errors of DMA
}

func (r *specified) verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.image, fault = oracle.Verify(file); fault != nil {
		return fault
	}
	return oracle.CheckTimeLimit(r.image, limitUs)
}

func (r *specified) reservedBytes() uint64 {
	return r.image.Reservation.Arena + r.image.Reservation.Host
}

func (r *specified) load(machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
	p, fault := oracle.Load(r.image, machine, limitUs)
	if fault == nil {
		p.SettleNs = r.settleNs
	}
	return p, fault
}

func (r *specified) tensors() (list []tensor) {
	for _, t := range r.image.Tensors {
		list = append(list, tensor{t.Size, t.Role == uint8(gen.RoleInput), t.HasData != 0})
	}
	return list
}

func (r *specified) sequences() int { return len(r.image.Sequences) }
