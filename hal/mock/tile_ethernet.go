package mock

// The effects of the firmware of Ethernet tiles that a host sees before it starts its own programs
// there. The model has no Ethernet links: all are down. The values are those of ttsim v1.10.0,
// src/tile.cpp, e_tile_init, bh_eth_link_init, tile_rd_bytes and tile_wr_bytes.

import "lightmetal/boards/chips"

// ethernetFirmware describes the L1 of an Ethernet tile after power-up.
type ethernetFirmware struct {
	words map[uint64]uint32 // values of 4-byte words, by address

	heartbeat uint64 // address of a counter that each load increments; 0: none
	message   uint64 // address of the message that the firmware answers; 0: none
}

// returnInstruction is the RISC-V instruction ret: the firmware's functions that programs call do
// nothing in the model.
const returnInstruction = 0x8067

var (
	wormholeFirmware = ethernetFirmware{words: map[uint64]uint32{
		0x210:  6<<16 | 14<<12, // version 6.14.0
		0x1104: 3,              // the link is not connected
		0x9020: 0x440, 0x440: returnInstruction,
	}}
	blackholeFirmware = ethernetFirmware{words: map[uint64]uint32{
		0x7cf00: 0x71574, 0x71574: returnInstruction,
		0x7cf04: 0x759ac, 0x759ac: returnInstruction,
		0x7cf08: 0x75414, 0x75414: returnInstruction,
		0x7cc00: 0xc0dea000,   // the firmware has initialised the tile
		0x7cc04: 2,            // the link is down
		0x7cfbc: 1<<16 | 6<<8, // version 1.6.0
	}, heartbeat: 0x7cc70, message: 0x590}
)

// Signals in bits 24 to 31 of a message to the firmware (tt-metal, dev_msgs.h).
const (
	signalInit = 0x40
	signalMask = 0xff << 24
)

func (t *coreTile) startFirmware() {
	if t.kind != chips.Ethernet {
		return
	}
	for address, value := range t.tiles.traits.firmware.words {
		t.l1.store(address, 4, uint64(value))
	}
}

// hasFirmware reports whether the firmware of an Ethernet tile runs. It runs until the host starts
// its own program, by releasing the first core from reset.
func (t *coreTile) hasFirmware() bool {
	return t.kind == chips.Ethernet && t.cores[0].isInReset(t.softReset)
}

// firmwareBeforeLoad is called before the host loads from L1. It increments the heartbeat if the
// host loads it.
func (t *coreTile) firmwareBeforeLoad(address uint64) {
	if f := t.tiles.traits.firmware; f.heartbeat != 0 && address == f.heartbeat && t.hasFirmware() {
		t.l1.store(address, 4, t.l1.load(address, 4)+1)
	}
}

// firmwareAnswer returns the contents of L1 after the host has stored `value`. Only in the
// initialisation message, the firmware clears the signal.
func (t *coreTile) firmwareAnswer(address uint64, width uint8, value uint64) uint64 {
	f := t.tiles.traits.firmware
	if t.kind == chips.Ethernet && f.message != 0 && address == f.message && width == 4 &&
		value>>24 == signalInit {
		return value &^ signalMask
	}
	return value
}
