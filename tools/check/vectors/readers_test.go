package main

// This file has the readers of the project in Go, with one interface.

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/ours"
	"lightmetal/tools/check/vectors/vector"
)

// reader verifies and loads one image.
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

// tensor describes a tensor of an image.
type tensor struct {
	size             uint64
	isInput, hasData bool
}

// runtimeReader reads images with this project's runtime and executes their sequences with it.
type runtimeReader struct{ view *fbs.View }

func (r *runtimeReader) verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.view, fault = ours.Verify(file); fault != nil {
		return fault
	}
	return ours.CheckTimeLimit(r.view, limitUs)
}

func (r *runtimeReader) reservedBytes() uint64 {
	return r.view.Reservation.ArenaBytes + r.view.Reservation.HostBytes
}

func (r *runtimeReader) load(machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
	return ours.Load(r.view, machine, limitUs)
}

func (r *runtimeReader) tensors() (list []tensor) {
	for i := range r.view.Tensors {
		t := &r.view.Tensors[i]
		list = append(list, tensor{t.Size, t.Role == gen.RoleInput, t.HasData != 0})
	}
	return list
}

func (r *runtimeReader) sequences() int { return len(r.view.Sequences) }

// oracleReader reads images with package oracle and executes their sequences with it.
type oracleReader struct {
	image    *oracle.Image
	settleNs int64 // time for which it waits for errors of DMA
}

func (r *oracleReader) verify(file []byte, limitUs uint64) (fault *oracle.Fault) {
	if r.image, fault = oracle.Verify(file); fault != nil {
		return fault
	}
	return oracle.CheckTimeLimit(r.image, limitUs)
}

func (r *oracleReader) reservedBytes() uint64 {
	return r.image.Reservation.Arena + r.image.Reservation.Host
}

func (r *oracleReader) load(machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
	p, fault := oracle.Load(r.image, machine, limitUs)
	if fault == nil {
		p.SettleNs = r.settleNs
	}
	return p, fault
}

func (r *oracleReader) tensors() (list []tensor) {
	for _, t := range r.image.Tensors {
		list = append(list, tensor{t.Size, t.Role == uint8(gen.RoleInput), t.HasData != 0})
	}
	return list
}

func (r *oracleReader) sequences() int { return len(r.image.Sequences) }
