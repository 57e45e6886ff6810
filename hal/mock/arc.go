package mock

// This file models the ARC processor of a chip, which drivers send messages to.

import "lightmetal/boards"

// Addresses and values that drivers use when they start and for power management. Names and
// values are from tt-kmd 2.9.0, wormhole.c, blackhole.c, msgqueue.c and telemetry.h; tt-umd
// 0.9.9, types/telemetry.hpp; and ttsim v1.10.0 src/tile.cpp, a_tile_init. The ARC's memory
// (CSM) contains a message queue and a table of telemetry values.
const (
	arcCSM     = 0x1000_0000 // address of its memory
	arcControl = 0x100       // offset of the QCB: address and number of entries of the queue
	arcQueue   = 0x200       // offset of the queue
	arcTable   = 0x1000      // telemetry: version, entries, and a word each, tag | index << 16
	arcData    = 0x1800      // the values, by index

	arcEntries    = 4
	arcHeader     = 32 // bytes of the queue before its messages
	arcMessage    = 32
	requestsEnd   = 0x00 // ARC_MSG_QUEUE_REQ_WPTR
	requestsBegin = 0x10 // ARC_MSG_QUEUE_REQ_RPTR
	responsesEnd  = 0x14 // ARC_MSG_QUEUE_RES_WPTR
	maxAIClock    = 1    // TT_POWER_FLAG_MAX_AI_CLK
	arcTelemetry  = 0x1_0000
	arcFirmware   = 0x1208_0000 // 18.8.0, a version with the table on both chips
	getAIClock    = 0x34        // Wormhole's message for the clock, in MHz
	scratchRes0   = 0x6c        // ARC_RESET_SCRATCH_RES0: the first result of a message
	niuTranslates = 1 << 14     // NIU_CFG_0

	// Tags of the table, tt-umd's TelemetryTag.
	tagAIClock, tagASICTemperature, tagBoardIDHigh, tagBoardIDLow          = 14, 11, 1, 2
	tagFlashBundleVersion, tagAIClockLimitMax, tagPCIeUsage, tagEnabledEth = 28, 63, 38, 35
)

// arcLayout describes the registers of a chip's ARC and the values that it answers with.
type arcLayout struct {
	board          *boards.Board
	registers, csm Place
	interrupt      Place            // a store to this register makes it read its messages
	interruptBit   uint64           // bit that the store must set; 0 for any store
	ready          map[Place]uint64 // values of registers while it runs
	control        uint64           // ARC_MSG_QCB_PTR
	table, data    uint64           // ARC_TELEMETRY_PTR, ARC_TELEMETRY_DATA
	queueAt        uint64           // base of the address of the queue
	power          uint64           // ARC_MSG_TYPE_POWER_SETTING
	message        uint64           // scratch register of single messages, 0 if there is none
	// an n150, a p150a: tt-kmd telemetry.c, tt_sysfs_show_card_type
	card            uint64
	idle, busyClock uint64 // MHz (UMD)
}

var arcLayouts = [...]arcLayout{{
	board: &boards.Wormhole, registers: Place{Tile: true, Y: 10, Address: 0x8_8003_0000},
	csm: Place{Tile: true, Y: 10, Address: 0x8_1000_0000},
	// ARC_MISC_CNTL_IRQ0_MASK
	interrupt: Place{Tile: true, Y: 10, Address: 0x8_8003_0100}, interruptBit: 1 << 16,
	// POST_CODE_REG, FW_BUNDLE_VERSION of the table before, NIU_CFG_0.
	ready: map[Place]uint64{{Tile: true, Y: 10, Address: 0x8_8003_0060}: 0xc0de0001,
		{Tile: true, Y: 10, Address: 0x8_2007_8d60 + 49*4}:    arcFirmware,
		{Tile: true, Y: 10, Address: 0x8_8005_0000 + niuCfg0}: niuTranslates},
	control: 0x1d8, table: 0x1d0, data: 0x1d4, queueAt: arcCSM, power: 0xc0, message: 0x74,
	card: 0x18, idle: 500, busyClock: 1000,
}, {
	board: &boards.Blackhole, registers: Place{Tile: true, X: 8, Y: 0, Address: 0x80030000},
	csm:       Place{Tile: true, X: 8, Y: 0, Address: arcCSM},
	interrupt: Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, // ARC_MSI_FIFO
	// ARC_BOOT_STATUS: the core runs and accepts messages.
	ready: map[Place]uint64{{Tile: true, X: 8, Address: 0x8003_0408}: 5,
		{Tile: true, X: 2, Address: pcieNIU + niuCfg0}: niuTranslates},
	control: 0x42c, table: 0x434, data: 0x430, power: 0x21, card: 0x40, idle: 800, busyClock: 1350,
}}

// arc is the ARC processor of a device that a kernel driver uses.
type arc struct {
	*arcLayout
	device *Device
}

// newArc returns the running ARC processor of a device; nil if the board has none or the device
// plays a recording back.
func newArc(d *Device) *arc {
	if _, ok := d.model.(*Tiles); !ok {
		return nil
	}
	for i := range arcLayouts {
		if a := (&arc{&arcLayouts[i], d}); a.board == d.board {
			a.boot()
			return a
		}
	}
	return nil
}

// loadWord returns the 32-bit word at an offset from a place.
func (a *arc) loadWord(at Place, offset uint64) uint64 {
	at.Address += offset
	value, _ := a.device.modelAt(at).Load(at, 4) // no model rejects these
	return value
}

// storeWord stores a 32-bit word at an offset from a place.
func (a *arc) storeWord(at Place, offset, value uint64) {
	at.Address += offset
	a.device.modelAt(at).Store(at, 4, value)
}

// boot sets all registers and the memory as after the firmware has started.
func (a *arc) boot() {
	for place, value := range a.ready {
		a.storeWord(place, 0, value)
	}
	a.storeWord(a.registers, a.control, arcCSM+arcControl)
	a.storeWord(a.csm, arcControl, arcCSM+arcQueue-a.queueAt)
	a.storeWord(a.csm, arcControl+4, arcEntries)
	a.storeWord(a.registers, a.table, arcCSM+arcTable)
	a.storeWord(a.registers, a.data, arcCSM+arcData)
	// Clocks are in MHz; degrees have 16 fractional bits.
	table := [...][2]uint64{{tagAIClock, a.idle}, {tagASICTemperature, 40 << 16},
		{tagBoardIDHigh, a.card << 4}, {tagBoardIDLow, 1},
		{tagFlashBundleVersion, arcFirmware}, {tagAIClockLimitMax, a.busyClock}, {tagPCIeUsage, 1},
		{tagEnabledEth, 0xfff}}
	a.storeWord(a.csm, arcTable, arcTelemetry)
	a.storeWord(a.csm, arcTable+4, uint64(len(table)))
	for i, entry := range table {
		a.storeWord(a.csm, arcTable+8+4*uint64(i), entry[0]|uint64(i)<<16)
		a.storeWord(a.csm, arcData+4*uint64(i), entry[1])
	}
}

// handleStore reads and answers the messages if a store to a place requests that.
func (a *arc) handleStore(at Place, value uint64) {
	if a == nil || at != a.interrupt || value&a.interruptBit != a.interruptBit {
		return
	}
	a.storeWord(at, 0, value&^a.interruptBit)
	if a.message != 0 { // WH_FW_MESSAGE_PRESENT | id; the answer is the id, and 0 above it
		if text := a.loadWord(a.registers, a.message); text>>8 == 0xaa {
			a.storeWord(a.registers, a.message, text&0xff)
			if text&0xff == getAIClock {
				a.storeWord(a.registers, scratchRes0, a.loadWord(a.csm, arcData))
			}
		}
	}
	const wrap = 2 * arcEntries
	end := a.loadWord(a.csm, arcQueue+requestsEnd)
	for at := a.loadWord(a.csm, arcQueue+requestsBegin); at%wrap != end%wrap; at++ {
		a.executeMessage(a.loadWord(a.csm, arcQueue+arcHeader+at%arcEntries*arcMessage))
		a.storeWord(a.csm, arcQueue+requestsBegin, (at+1)%wrap)
	}
}

// executeMessage executes a message, of which it needs only the first word, and answers it.
func (a *arc) executeMessage(header uint64) {
	if header&0xff == a.power {
		clock := a.idle
		if header>>16&maxAIClock != 0 {
			clock = a.busyClock
		}
		a.storeWord(a.csm, arcData, clock)
	}
	at := a.loadWord(a.csm, arcQueue+responsesEnd)
	slot := arcQueue + arcHeader + (arcEntries+at%arcEntries)*arcMessage
	for i := range uint64(arcMessage / 4) {
		a.storeWord(a.csm, slot+4*i, 0)
	}
	a.storeWord(a.csm, arcQueue+responsesEnd, (at+1)%(2*arcEntries))
}
