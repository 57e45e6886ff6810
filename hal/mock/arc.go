package mock

// This file models the ARC, the management processor of a chip. Kernel drivers send messages to
// it, for example to set the clock.

import "lightmetal/boards"

// Addresses and values that kernel drivers use when they start and for power management. The
// ARC's memory (CSM) contains a message queue and a table of telemetry values. Names and values
// are from tt-kmd 2.9.0, wormhole.c, blackhole.c, msgqueue.c and telemetry.h; tt-umd 0.9.9,
// types/telemetry.hpp; and ttsim v1.10.0 src/tile.cpp, a_tile_init.
const (
	arcCSM     = 0x1000_0000 // address of the CSM for the ARC itself
	arcControl = 0x100       // offset in the CSM of the queue's address and number of entries (QCB)
	arcQueue   = 0x200       // offset in the CSM of the message queue

	// arcTable is the offset in the CSM of the telemetry table. The table has a version, a number
	// of entries, and one word for each entry: tag | index << 16.
	arcTable = 0x1000
	arcData  = 0x1800 // offset in the CSM of the telemetry values, one word for each index

	arcEntries     = 4           // requests that the queue can hold, and responses
	arcHeader      = 32          // bytes of the queue before its first request
	arcMessage     = 32          // bytes of a request or response
	requestsEnd    = 0x00        // ARC_MSG_QUEUE_REQ_WPTR: offset of this index in the queue
	requestsBegin  = 0x10        // ARC_MSG_QUEUE_REQ_RPTR
	responsesEnd   = 0x14        // ARC_MSG_QUEUE_RES_WPTR
	maxAIClockFlag = 1           // TT_POWER_FLAG_MAX_AI_CLK: requests the full clock
	arcTelemetry   = 0x1_0000    // version of the telemetry table
	arcFirmware    = 0x1208_0000 // firmware version 18.8.0, which has the table on both chips
	getAIClock     = 0x34        // Wormhole: message that requests the clock in MHz
	triggerReset   = 0x56        // Wormhole: message that requests a reset of the chip
	getSMBus       = 0x2c        // GET_SMBUS_TELEMETRY_ADDR (tt-umd 44455fa1)
	// smbus is the answer to getSMBus: offset of the older telemetry table from 0x8_1000_0000.
	smbus         = 0x1007_8d60
	scratchRes0   = 0x6c    // ARC_RESET_SCRATCH_RES0: register with the result of a message
	niuTranslates = 1 << 14 // bit of NIU_CFG_0: coordinates of tiles are translated

	// Tags of telemetry values (tt-umd, TelemetryTag).
	tagAIClock, tagASICTemperature, tagBoardIDHigh, tagBoardIDLow          = 14, 11, 1, 2
	tagFlashBundleVersion, tagAIClockLimitMax, tagPCIeUsage, tagEnabledEth = 28, 63, 38, 35
)

// arcLayout describes the registers of the ARC of one kind of chip, and the values in them.
type arcLayout struct {
	board        *boards.Board
	registers    Place            // first register of the ARC's reset unit
	csm          Place            // first byte of the ARC's memory
	interrupt    Place            // a store to this register makes the ARC read its messages
	interruptBit uint64           // bit that the store must set; 0: any store
	ready        map[Place]uint64 // values of registers while the ARC runs
	control      uint64           // offset in registers of ARC_MSG_QCB_PTR
	table, data  uint64           // offsets in registers of ARC_TELEMETRY_PTR and _DATA
	queueAt      uint64           // address to which the queue's address in the QCB is relative
	power        uint64           // message that changes the clock: ARC_MSG_TYPE_POWER_SETTING
	message      uint64           // offset in registers of the message register; 0 if none
	card         uint64           // card type (tt-kmd telemetry.c, tt_sysfs_show_card_type)
	idle         uint64           // clock in MHz while idle (tt-umd)
	busyClock    uint64           // full clock in MHz (tt-umd)
}

// arcLayouts lists the chips with an ARC. The card types are those of the cards n150 and p150a.
var arcLayouts = [...]arcLayout{{
	board: &boards.Wormhole, registers: Place{Tile: true, Y: 10, Address: 0x8_8003_0000},
	csm: Place{Tile: true, Y: 10, Address: 0x8_1000_0000},
	// The interrupt bit is ARC_MISC_CNTL_IRQ0_MASK.
	interrupt: Place{Tile: true, Y: 10, Address: 0x8_8003_0100}, interruptBit: 1 << 16,
	// The registers are POST_CODE_REG, FW_BUNDLE_VERSION in the older telemetry table, and
	// NIU_CFG_0.
	ready: map[Place]uint64{{Tile: true, Y: 10, Address: 0x8_8003_0060}: 0xc0de0001,
		{Tile: true, Y: 10, Address: 0x8_2007_8d60 + 49*4}:    arcFirmware,
		{Tile: true, Y: 10, Address: 0x8_8005_0000 + niuCfg0}: niuTranslates},
	control: 0x1d8, table: 0x1d0, data: 0x1d4, queueAt: arcCSM, power: 0xc0, message: 0x74,
	card: 0x18, idle: 500, busyClock: 1000,
}, {
	board: &boards.Blackhole, registers: Place{Tile: true, X: 8, Y: 0, Address: 0x80030000},
	csm:       Place{Tile: true, X: 8, Y: 0, Address: arcCSM},
	interrupt: Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, // ARC_MSI_FIFO
	// The registers are ARC_BOOT_STATUS (the ARC runs and accepts messages) and NIU_CFG_0 of the
	// PCIe tile.
	ready: map[Place]uint64{{Tile: true, X: 8, Address: 0x8003_0408}: 5,
		{Tile: true, X: 2, Address: pcieNIU + niuCfg0}: niuTranslates},
	control: 0x42c, table: 0x434, data: 0x430, power: 0x21, card: 0x40, idle: 800, busyClock: 1350,
}}

// arc is the ARC of a device that a kernel driver uses.
type arc struct {
	*arcLayout
	device  *Device
	onReset func() // called when a message requests a reset of the chip; nil: ignored
}

// SetResetHandler makes the device call reset when a driver requests a reset of the chip by a
// message. It has no effect if the device has no ARC.
func (d *Device) SetResetHandler(reset func()) {
	if d.arc != nil {
		d.arc.onReset = reset
	}
}

// newArc returns an ARC whose firmware has started. It returns nil if the board has no ARC, or if
// the model of the device is not Tiles (a playback, for example).
func newArc(d *Device) *arc {
	if _, ok := d.model.(*Tiles); !ok {
		return nil
	}
	for i := range arcLayouts {
		if a := (&arc{arcLayout: &arcLayouts[i], device: d}); a.board == d.board {
			a.boot()
			return a
		}
	}
	return nil
}

func (a *arc) loadWord(at Place, offset uint64) uint64 {
	at.Address += offset
	value, _ := a.device.modelAt(at).Load(at, 4) // no model rejects an access to these places
	return value
}

func (a *arc) storeWord(at Place, offset, value uint64) {
	at.Address += offset
	a.device.modelAt(at).Store(at, 4, value)
}

// boot sets the registers and the memory of the ARC to the state after the firmware has started.
func (a *arc) boot() {
	for place, value := range a.ready {
		a.storeWord(place, 0, value)
	}
	a.storeWord(a.registers, a.control, arcCSM+arcControl)
	a.storeWord(a.csm, arcControl, arcCSM+arcQueue-a.queueAt)
	a.storeWord(a.csm, arcControl+4, arcEntries)
	a.storeWord(a.registers, a.table, arcCSM+arcTable)
	a.storeWord(a.registers, a.data, arcCSM+arcData)
	// Clocks are in MHz. The temperature is in degrees Celsius with 16 fractional bits.
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

// handleStore reads and answers all pending messages if a store of value to a place interrupts
// the ARC. Other stores have no effect here.
func (a *arc) handleStore(at Place, value uint64) {
	if a == nil || at != a.interrupt || value&a.interruptBit != a.interruptBit {
		return
	}
	a.storeWord(at, 0, value&^a.interruptBit)
	// Answer a single message in the message register of Wormhole. A request is
	// WH_FW_MESSAGE_PRESENT | id. The answer is the id with zeros above it.
	if a.message != 0 {
		if text := a.loadWord(a.registers, a.message); text>>8 == 0xaa {
			a.storeWord(a.registers, a.message, text&0xff)
			switch text & 0xff {
			case getAIClock:
				a.storeWord(a.registers, scratchRes0, a.loadWord(a.csm, arcData))
			case getSMBus:
				a.storeWord(a.registers, scratchRes0, smbus)
			case triggerReset:
				if a.onReset != nil {
					a.onReset()
				}
			}
		}
	}
	// Execute the requests in the queue. Indices wrap at twice the number of entries, so that a
	// full queue differs from an empty one.
	const wrap = 2 * arcEntries
	end := a.loadWord(a.csm, arcQueue+requestsEnd)
	for at := a.loadWord(a.csm, arcQueue+requestsBegin); at%wrap != end%wrap; at++ {
		a.executeMessage(a.loadWord(a.csm, arcQueue+arcHeader+at%arcEntries*arcMessage))
		a.storeWord(a.csm, arcQueue+requestsBegin, (at+1)%wrap)
	}
}

// executeMessage executes a request and writes the response. `header` is the first word of the
// request; the other words have no effect in the model.
func (a *arc) executeMessage(header uint64) {
	if header&0xff == a.power {
		clock := a.idle
		if header>>16&maxAIClockFlag != 0 {
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
