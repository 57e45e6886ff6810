package mock

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Offsets of edu's registers: docs/specs/edu.rst and hw/misc/edu.c of QEMU 7.2.
const (
	eduIdentification = 0x00 // load only: eduID
	eduLiveness       = 0x04 // a load returns the bitwise inverse of the last store
	eduFactorial      = 0x08 // a store starts the computation of n!, a load returns the result
	eduStatus         = 0x20 // eduStatusComputing, eduStatusIRQ
	eduIRQStatus      = 0x24 // load only: pending interrupts
	eduIRQRaise       = 0x60 // store only: sets bits of eduIRQStatus
	eduIRQAcknowledge = 0x64 // store only: clears bits of eduIRQStatus
	eduDMASource      = 0x80 // address from which a transfer copies
	eduDMATarget      = 0x88 // address to which a transfer copies
	eduDMACount       = 0x90 // bytes of a transfer
	eduDMACommand     = 0x98 // eduDMARun, eduDMAToHost, eduDMAIRQ
)

const (
	eduID = 0x010000ed // value of eduIdentification

	eduStatusComputing = 0x01 // load only: a computation is in progress
	eduStatusIRQ       = 0x80 // raise eduIRQFactorial at the end of a computation

	eduDMARun    = 0x1 // starts a transfer; cleared at its end
	eduDMAToHost = 0x2 // copy from the device to host memory, not from host memory to the device
	eduDMAIRQ    = 0x4 // raise eduIRQDMA at the end of a transfer

	eduIRQFactorial = 0x001
	eduIRQDMA       = 0x100

	eduBufferStart = 0x40000 // address of the device's own memory in eduDMASource and eduDMATarget
	eduBufferSize  = 4096    // bytes

	// eduWorkNs is the duration of a computation or transfer: three loads report that it is in
	// progress. In QEMU a transfer takes 100 ms.
	eduWorkNs = 3*accessNs + accessNs/2
)

// Edu is a Model of QEMU's edu device. Unlike QEMU, it rejects accesses to registers that do not
// exist, transfers that would stop QEMU's virtual machine, and transfers from or to host memory
// that is not mapped. It copies all bytes of a transfer at the end of the transfer.
type Edu struct {
	liveness, factorial, irq uint32 // last store to eduLiveness; eduFactorial; eduIRQStatus
	irqWanted                bool   // eduStatusIRQ is set
	raise                    func() // sends an interrupt message; may be nil
	computing, transferring  int64  // remaining nanoseconds; 0 if not in progress

	dma    map[uint64]uint64   // values of the DMA registers, by offset
	buffer [eduBufferSize]byte // the device's own memory
	host   *Host               // memory that transfers access
	reason string              // reason for the last rejection
}

// NewEdu returns an Edu in the state after a reset.
func NewEdu() *Edu { return &Edu{host: &Host{}, dma: map[uint64]uint64{}} }

// Connect implements BusMaster.
func (e *Edu) Connect(host *Host) { e.host = host }

// Advance implements Clocked.
func (e *Edu) Advance(nanoseconds int64) {
	if countDown(&e.computing, nanoseconds) {
		e.finishFactorial()
	}
	if countDown(&e.transferring, nanoseconds) {
		e.finishTransfer()
	}
}

// countDown subtracts the time from *left, down to 0. It reports whether *left has just become 0.
func countDown(left *int64, nanoseconds int64) bool {
	if *left == 0 {
		return false
	}
	*left = max(*left-nanoseconds, 0)
	return *left == 0
}

// Reason implements Explainer.
func (e *Edu) Reason() string { return e.reason }

// Load implements Model. A load from a DMA register may have 4 or 8 bytes; 4 bytes return the
// lower half of the register.
func (e *Edu) Load(at Place, width uint8) (value uint64, c hal.Code) {
	switch at.Address {
	case eduIdentification:
		value = eduID
	case eduLiveness:
		value = uint64(^e.liveness)
	case eduFactorial:
		value = uint64(e.factorial)
	case eduStatus:
		value = e.status()
	case eduIRQStatus:
		value = uint64(e.irq)
	case eduDMASource, eduDMATarget, eduDMACount, eduDMACommand:
		value = e.dma[at.Address]
	default:
		return 0, e.refuse("there is no register to load at %#x", at.Address)
	}
	return value & fbs.WidthMask(width), hal.OK
}

// Store implements Model. A store of 4 bytes to a DMA register sets the upper half of the
// register to 0.
func (e *Edu) Store(at Place, width uint8, value uint64) hal.Code {
	switch at.Address {
	case eduLiveness:
		e.liveness = uint32(value)
	case eduFactorial:
		e.startFactorial(uint32(value))
	case eduStatus:
		e.irqWanted = value&eduStatusIRQ != 0
	case eduIRQRaise:
		e.interrupt(uint32(value))
	case eduIRQAcknowledge:
		e.irq &^= uint32(value)
	case eduDMASource, eduDMATarget, eduDMACount, eduDMACommand:
		return e.storeDMA(at.Address, value)
	default:
		return e.refuse("there is no register to store to at %#x", at.Address)
	}
	return hal.OK
}

// Interrupt implements Interrupter.
func (e *Edu) Interrupt(raise func()) { e.raise = raise }

// interrupt sends an interrupt message if any bit of eduIRQStatus is then set, also an older bit.
func (e *Edu) interrupt(bits uint32) {
	e.irq |= bits
	if e.irq != 0 && e.raise != nil {
		e.raise()
	}
}

// startFactorial ignores n during a computation, like QEMU's edu.
func (e *Edu) startFactorial(n uint32) {
	if e.computing == 0 {
		e.factorial, e.computing = n, eduWorkNs
	}
}

// finishFactorial computes n! modulo 2^32, which is 0 from 34! on.
func (e *Edu) finishFactorial() {
	result := uint32(1)
	for n := e.factorial; n > 0 && result != 0; n-- {
		result *= n
	}
	e.factorial = result
	if e.irqWanted {
		e.interrupt(eduIRQFactorial)
	}
}

func (e *Edu) status() uint64 {
	value := uint64(0)
	if e.irqWanted {
		value = eduStatusIRQ
	}
	if e.computing != 0 {
		value |= eduStatusComputing
	}
	return value
}

// storeDMA stores to a DMA register, and starts a transfer if the store sets eduDMARun. Like
// QEMU's edu, it ignores stores while a transfer is in progress.
func (e *Edu) storeDMA(register, value uint64) hal.Code {
	if e.transferring != 0 {
		return hal.OK
	}
	e.dma[register] = value
	if register != eduDMACommand || value&eduDMARun == 0 {
		return hal.OK
	}
	if _, _, c := e.transferRanges(); c != hal.OK {
		e.dma[eduDMACommand] &^= eduDMARun // the transfer does not start
		return c
	}
	e.transferring = eduWorkNs
	return hal.OK
}

func (e *Edu) finishTransfer() {
	if to, from, c := e.transferRanges(); c == hal.OK {
		copy(to, from)
	}
	e.dma[eduDMACommand] &^= eduDMARun
	if e.dma[eduDMACommand]&eduDMAIRQ != 0 {
		e.interrupt(eduIRQDMA)
	}
}

// transferRanges also rejects a range that ends exactly at the end of the device's memory: QEMU 7.2
// treats such a range as out of bounds and stops the virtual machine.
func (e *Edu) transferRanges() (to, from []byte, c hal.Code) {
	device, bus, count, out := e.dma[eduDMATarget], e.dma[eduDMASource], e.dma[eduDMACount],
		e.dma[eduDMACommand]&eduDMAToHost != 0
	if out {
		device, bus = bus, device
	}
	inside := device - eduBufferStart
	if count == 0 {
		return nil, nil, e.refuse("a DMA transfer must not have 0 bytes")
	}
	if inside >= eduBufferSize || count >= eduBufferSize-inside {
		return nil, nil, e.refuse("a DMA transfer of %d bytes at %#x must lie in the device's "+
			"memory and must not include the memory's last byte", count, device)
	}
	own, host := e.buffer[inside:][:count], e.host.Bytes(bus, count)
	if host == nil {
		return nil, nil,
			e.refuse("a DMA transfer of %d bytes reaches host memory at bus address %#x that is "+
				"not mapped", count,
				bus)
	}
	if out {
		return host, own, hal.OK
	}
	return own, host, hal.OK
}

func (e *Edu) refuse(format string, args ...any) hal.Code {
	e.reason = fmt.Sprintf(format, args...)
	return hal.Refused
}
