package mock

// The registers of the overlay's streams that programs use as counters, for example in tt-metal's
// circular buffers. The streams themselves move no data in the model.

import (
	"fmt"

	"lightmetal/boards/chips"
)

const (
	overlayBase     = 0xffb40000 // first register of stream 0
	streamStride    = 0x1000     // bytes from the registers of one stream to those of the next
	tensixStreams   = 64
	ethernetStreams = 32

	counterMask = 1<<17 - 1 // bits of a counter
	sourceMask  = 1<<24 - 1 // bits of STREAM_REMOTE_SRC
	updateShift = 6         // the bits below choose one of several counters
)

// streamTraits has the offsets of a stream's registers. Sources: tt-isa-documentation
// WormholeB0/NoC/Overlay/AsGeneralUse.md; ttsim v1.10.0 src/tile.cpp, noc_overlay_wr32, and
// data/bh/tile_regs.json; tt-metal noc_overlay_parameters.h of each chip.
type streamTraits struct {
	source    uint64 // STREAM_REMOTE_SRC
	start     uint64 // STREAM_REMOTE_DEST_BUF_START: tiles acknowledged of a circular buffer
	size      uint64 // STREAM_REMOTE_DEST_BUF_SIZE: tiles received of a circular buffer
	update    uint64 // STREAM_REMOTE_DEST_BUF_SPACE_AVAILABLE_UPDATE
	available uint64 // STREAM_REMOTE_DEST_BUF_SPACE_AVAILABLE
}

var (
	wormholeStream = streamTraits{source: 4 * 0, start: 4 * 3, size: 4 * 4, update: 4 * 34,
		available: 4 * 64}
	blackholeStream = streamTraits{source: 4 * 4, start: 4 * 8, size: 4 * 10, update: 4 * 270,
		available: 4 * 297}
)

// streamRegister is a register of a stream. A function is nil if the register does not support the
// access. `stream` is the address of the stream's first register.
type streamRegister struct {
	load  func(t *coreTile, address uint64) uint32
	store func(t *coreTile, stream, address uint64, value uint32) error
}

var (
	counterRegister   = streamRegister{(*coreTile).loadWord, (*coreTile).storeCounter}
	sizeRegister      = streamRegister{(*coreTile).loadWord, (*coreTile).storeSize}
	sourceRegister    = streamRegister{(*coreTile).loadWord, (*coreTile).storeSource}
	availableRegister = streamRegister{load: (*coreTile).loadWord}
	updateRegister    = streamRegister{store: (*coreTile).updateAvailable}
)

// overlayRegister returns the stream's register at an address, or nil.
func (t *coreTile) overlayRegister(address uint64) *streamRegister {
	streams := uint64(tensixStreams)
	if t.kind == chips.Ethernet {
		streams = ethernetStreams
	}
	if address < overlayBase || address >= overlayBase+streams*streamStride {
		return nil
	}
	s := t.tiles.traits.stream
	switch address % streamStride {
	case s.start:
		return &counterRegister
	case s.size:
		return &sizeRegister
	case s.source:
		return &sourceRegister
	case s.available:
		return &availableRegister
	case s.update:
		return &updateRegister
	}
	return nil
}

func (t *coreTile) loadStream(r *streamRegister, address uint64) (value uint32, ok bool) {
	if r.load == nil {
		return 0, false
	}
	return r.load(t, address), true
}

func (t *coreTile) storeStream(r *streamRegister, address uint64, value uint32) error {
	if r.store == nil {
		return errNoRegister
	}
	return r.store(t, address&^(streamStride-1), address, value)
}

func (t *coreTile) loadWord(address uint64) uint32 { return t.registers[address] }

func (t *coreTile) storeCounter(_, address uint64, value uint32) error {
	t.registers[address] = value & counterMask
	return nil
}

// storeSize also sets the available space.
func (t *coreTile) storeSize(stream, address uint64, value uint32) error {
	t.registers[address] = value & counterMask
	t.registers[stream+t.tiles.traits.stream.available] = value & counterMask
	return nil
}

func (t *coreTile) storeSource(_, address uint64, value uint32) error {
	if value&^sourceMask != 0 {
		return fmt.Errorf("STREAM_REMOTE_SRC is %#x, but must fit into 24 bits", value)
	}
	t.registers[address] = value
	return nil
}

// updateAvailable adds to the available space of destination 0, the only destination in the maker's
// simulator.
func (t *coreTile) updateAvailable(stream, _ uint64, value uint32) error {
	if value&(1<<updateShift-1) != 0 {
		return fmt.Errorf("the update of the available space is for destination %d, but the "+
			"simulator has "+
			"only destination 0", value&(1<<updateShift-1))
	}
	at := stream + t.tiles.traits.stream.available
	t.registers[at] = (t.registers[at] + value>>updateShift) & counterMask
	return nil
}
