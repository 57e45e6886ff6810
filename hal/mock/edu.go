package mock

// This file models QEMU's edu device.

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Registers of edu: docs/specs/edu.rst and hw/misc/edu.c of QEMU 7.2.
const (
	eduIdentification = 0x00 // load
	eduLiveness       = 0x04 // a load returns the inverse of the last store
	eduFactorial      = 0x08 // a store starts the computation of n!, a load returns the result
	eduStatus         = 0x20
	eduIRQStatus      = 0x24 // load
	eduIRQRaise       = 0x60 // store
	eduIRQAcknowledge = 0x64 // store
	eduDMASource      = 0x80
	eduDMATarget      = 0x88
	eduDMACount       = 0x90
	eduDMACommand     = 0x98
)

const (
	eduID = 0x010000ed

	eduStatusComputing = 0x01 // load
	eduStatusIRQ       = 0x80 // raise eduIRQFactorial at the end of a computation

	eduDMARun    = 0x1
	eduDMAToHost = 0x2
	eduDMAIRQ    = 0x4 // raise eduIRQDMA at the end of a transfer

	eduIRQFactorial = 0x001
	eduIRQDMA       = 0x100

	eduBufferStart = 0x40000 // of the device's own memory, as DMA sees it
	eduBufferSize  = 4096

	// Duration of a computation or transfer: three loads return that it is in progress. In QEMU
	// a transfer takes 100 ms.
	eduWorkNs = 3*accessNs + accessNs/2
)

// Edu is a Model of QEMU's edu device. Unlike QEMU's, it rejects registers that do not
// exist, transfers that would stop the virtual machine, and transfers from or to memory
// that is not mapped. All bytes of a transfer are copied at its end.
type Edu struct {
	liveness, factorial, irq uint32
	irqWanted                bool   // eduStatusIRQ
	raise                    func() // sends an interrupt message; may be nil
	computing, transferring  int64  // nanoseconds that are left, 0 if not in progress

	dma    map[uint64]uint64 // registers
	buffer [eduBufferSize]byte
	host   *Host
	reason string
}

// NewEdu returns an Edu in the state after a reset.
func NewEdu() *Edu { return &Edu{host: &Host{}, dma: map[uint64]uint64{}} }

// Connect implements Master.
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

// countDown subtracts nanoseconds from the time that is left. It reports whether the time
// became 0.
func countDown(left *int64, nanoseconds int64) bool {
	if *left == 0 {
		return false
	}
	*left = max(*left-nanoseconds, 0)
	return *left == 0
}

// Reason implements Explainer.
func (e *Edu) Reason() string { return e.reason }

// Load implements Model. Loads return a whole register or, from eduDMASource on, also its
// lower half.
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

// Store implements Model. A 4-byte store to a DMA register replaces all of it.
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

// interrupt sets bits of the interrupt status and sends a message.
func (e *Edu) interrupt(bits uint32) {
	e.irq |= bits
	if e.irq != 0 && e.raise != nil {
		e.raise()
	}
}

// startFactorial starts a computation unless one is in progress.
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

// storeDMA stores to a DMA register. Like the device, it ignores stores while a transfer is
// in progress.
func (e *Edu) storeDMA(register, value uint64) hal.Code {
	if e.transferring != 0 {
		return hal.OK
	}
	e.dma[register] = value
	if register != eduDMACommand || value&eduDMARun == 0 {
		return hal.OK
	}
	if _, _, c := e.transferRanges(); c != hal.OK {
		e.dma[eduDMACommand] &^= eduDMARun // as in QEMU, where the transfer ends without any effect
		return c
	}
	e.transferring = eduWorkNs
	return hal.OK
}

// finishTransfer copies the bytes and clears the run bit.
func (e *Edu) finishTransfer() {
	if to, from, c := e.transferRanges(); c == hal.OK {
		copy(to, from)
	}
	e.dma[eduDMACommand] &^= eduDMARun
	if e.dma[eduDMACommand]&eduDMAIRQ != 0 {
		e.interrupt(eduIRQDMA)
	}
}

// transferRanges returns the destination and source of a transfer. QEMU 7.2 treats a range
// that ends exactly at the end of the buffer as out of bounds, and stops the machine.
func (e *Edu) transferRanges() (to, from []byte, c hal.Code) {
	device, bus, count, out := e.dma[eduDMATarget], e.dma[eduDMASource], e.dma[eduDMACount],
		e.dma[eduDMACommand]&eduDMAToHost != 0
	if out {
		device, bus = bus, device
	}
	inside := device - eduBufferStart
	if count == 0 || inside >= eduBufferSize || count >= eduBufferSize-inside {
		return nil, nil, e.refuse("a transfer of %d bytes at %#x of the device is out of bounds",
			count, device)
	}
	own, host := e.buffer[inside:][:count], e.host.Bytes(bus, count)
	if host == nil {
		return nil, nil,
			e.refuse("a transfer of %d bytes reaches host memory at %#x that is not mapped", count,
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
