package mock

// This file models QEMU's NVMe controller: its registers and queues.

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Registers of an NVMe controller: NVM Express 1.4, section 3.1.
const (
	nvmeCAP      = 0x00
	nvmeVS       = 0x08
	nvmeINTMS    = 0x0c
	nvmeINTMC    = 0x10
	nvmeCC       = 0x14
	nvmeCSTS     = 0x1c
	nvmeAQA      = 0x24
	nvmeASQ      = 0x28
	nvmeACQ      = 0x30
	nvmeCMBLOC   = 0x38 // there is no controller memory
	nvmeCMBSZ    = 0x3c
	nvmeDoorbell = 0x1000 // of the admin submission queue; CAP.DSTRD is 0
)

const (
	// As in QEMU 7.2: up to 2048 entries in a queue, contiguous queues only, up to
	// 7.5 s until ready, NVM command set, pages of 4 to 64 KiB.
	nvmeCapabilities = 0x0040_1820_0f01_07ff
	nvmeVersion      = 0x0001_0400
	nvmeEntriesMax   = 2048

	ccEN       = 1 << 0
	ccSHN      = 3 << 14
	ccSettings = 0xff3ff0 // CSS, MPS, AMS, IOSQES, IOCQES
	ccUsable   = 0x460000 // all of them 0, 64-byte submissions and 16-byte completions
	// another valid value of CSS: all I/O command sets, of which NVM is the only one
	ccAllSets = 6 << 4
	cstsRDY   = 1 << 0
	cstsCFS   = 1 << 1
	cstsSHST  = 3 << 2
	cstsDone  = 2 << 2 // CSTS.SHST: shutdown complete

	nvmeQueues    = 4 // with the admin queues
	nvmeBlock     = 512
	nvmeBlocks    = 2048
	nvmePagesMax  = 128 // of one transfer: MDTS is 7
	nvmeVendor    = 0x1b36
	nvmeWorkNs    = 1000
	submission    = 64 // bytes
	completion    = 16
	prpEntry      = 8
	phaseOfStatus = 1 << 16
)

// Status codes, the type in bits 8 to 10: NVM Express 1.4, section 4.6.1.2.
type nvmeStatus uint32

const (
	nvmeOK               nvmeStatus = 0x000
	nvmeInvalidOpcode    nvmeStatus = 0x001
	nvmeInvalidField     nvmeStatus = 0x002
	nvmeTransferError    nvmeStatus = 0x004
	nvmeInvalidNamespace nvmeStatus = 0x00b
	nvmeSequenceError    nvmeStatus = 0x00c
	nvmeInvalidPRP       nvmeStatus = 0x013
	nvmeOutOfRange       nvmeStatus = 0x080
	nvmeInvalidCQ        nvmeStatus = 0x100
	nvmeInvalidQueue     nvmeStatus = 0x101
	nvmeInvalidSize      nvmeStatus = 0x102
	nvmeInvalidVector    nvmeStatus = 0x108
	nvmeInvalidDeletion  nvmeStatus = 0x10c
)

// Nvme is a Model of QEMU's NVMe controller with one namespace of 1 MiB and one interrupt. As
// specified, an invalid command completes with a status, and invalid queues set CSTS.CFS. If
// the specification forbids something without defining the effect, the model rejects it.
type Nvme struct {
	cc, csts uint32
	admin    map[uint64]uint64 // registers of the admin queues
	masked   uint32            // INTMS
	raise    func()            // sends the interrupt message; may be nil
	due      int64             // nanoseconds until pending work is done, 0 if there is none
	sq, cq   [nvmeQueues]nvmeQueue
	disk     []byte
	scratch  [pageSize]byte
	host     *Host
	reason   string
}

// nvmeQueue is a ring in memory. Entries 0 of sq and cq are the admin queues.
type nvmeQueue struct {
	bus        uint64
	entries    uint32 // 0 if the queue does not exist
	head, tail uint32
	phase      uint32 // of a completion queue: phaseOfStatus or 0
	cq         uint32 // of a submission queue: its completion queue
	interrupts bool   // of a completion queue
}

func (q *nvmeQueue) following(i uint32) uint32 { return (i + 1) % q.entries }

// NewNvme returns an Nvme that is disabled and whose namespace is all zero.
func NewNvme() *Nvme {
	return &Nvme{disk: make([]byte, nvmeBlocks*nvmeBlock), host: &Host{},
		admin: map[uint64]uint64{nvmeAQA: 0, nvmeASQ: 0, nvmeACQ: 0}}
}

// Disk returns the content of the namespace.
func (n *Nvme) Disk() []byte { return n.disk }

// Connect implements Master.
func (n *Nvme) Connect(host *Host) { n.host = host }

// Interrupt implements Interrupter.
func (n *Nvme) Interrupt(raise func()) { n.raise = raise }

// Reason implements Explainer.
func (n *Nvme) Reason() string { return n.reason }

// Advance implements Clocked.
func (n *Nvme) Advance(nanoseconds int64) {
	if n.due == 0 {
		return
	}
	if n.due -= nanoseconds; n.due <= 0 {
		n.due = 0
		n.process()
	}
}

// Load implements Model.
func (n *Nvme) Load(at Place, width uint8) (uint64, hal.Code) {
	var value uint64
	register, shift := n.registerAt(at.Address)
	switch register {
	case nvmeCAP:
		value = nvmeCapabilities
	case nvmeVS:
		value = nvmeVersion
	case nvmeINTMS, nvmeINTMC:
		value = uint64(n.masked)
	case nvmeCC:
		value = uint64(n.cc)
	case nvmeCSTS:
		value = uint64(n.csts)
	case nvmeCMBLOC, nvmeCMBSZ:
	default:
		var ok bool
		if value, ok = n.admin[register]; !ok {
			return 0, n.refuse("there is no register to load at %#x", at.Address)
		}
	}
	return value >> shift & fbs.WidthMask(width), hal.OK
}

// registerAt returns the address of the register that an address lies in, and the number of bits
// before that address.
func (n *Nvme) registerAt(address uint64) (first uint64, shift int) {
	switch address {
	case nvmeCAP + 4, nvmeASQ + 4, nvmeACQ + 4:
		return address - 4, 32
	}
	return address, 0
}

// Store implements Model.
func (n *Nvme) Store(at Place, width uint8, value uint64) hal.Code {
	if at.Address >= nvmeDoorbell {
		return n.storeDoorbell(at.Address-nvmeDoorbell, uint32(value))
	}
	register, shift := n.registerAt(at.Address)
	admin, ok := n.admin[register]
	switch {
	case register == nvmeINTMS:
		n.masked |= uint32(value)
	case register == nvmeINTMC:
		n.masked &^= uint32(value)
	case register == nvmeCC:
		return n.configure(uint32(value))
	case !ok:
		return n.refuse("there is no register to store to at %#x", at.Address)
	case n.cc&ccEN != 0:
		return n.refuse("the admin queues are moved while CC.EN is 1")
	default:
		n.admin[register] = admin&^(fbs.WidthMask(width)<<shift) | value<<shift
	}
	return hal.OK
}

// configure sets CC: section 3.1.5.
func (n *Nvme) configure(value uint32) hal.Code {
	enabled, enable := n.cc&ccEN != 0, value&ccEN != 0
	switch {
	case value&^(ccEN|ccSHN|ccSettings) != 0:
		return n.refuse("reserved bits of CC are set: %#x", value)
	case enable && !enabled && n.csts&cstsRDY != 0:
		return n.refuse("CC.EN is set before CSTS.RDY is 0")
	case enable && enabled && (n.cc^value)&ccSettings != 0:
		return n.refuse("settings of CC change while CC.EN is 1: %#x to %#x", n.cc, value)
	}
	n.cc, n.due = value, nvmeWorkNs
	return hal.OK
}

// storeDoorbell executes a store to a doorbell: the last two parts of section 3.1.
func (n *Nvme) storeDoorbell(offset uint64, value uint32) hal.Code {
	id := offset / 8
	queues, kind := &n.sq, "submission"
	if offset&4 != 0 {
		queues, kind = &n.cq, "completion"
	}
	switch {
	case n.csts&cstsCFS != 0:
		return hal.OK // a later load of CSTS shows the fault
	case n.csts&cstsRDY == 0 || id >= nvmeQueues || queues[id].entries == 0:
		return n.refuse("the doorbell of %s queue %d, which does not exist, is rung", kind, id)
	case value >= queues[id].entries:
		return n.refuse("%s queue %d has %d entries and no entry %d", kind, id, queues[id].entries,
			value)
	}
	q := &queues[id]
	// A store to a submission doorbell moves the tail, one to a completion doorbell the head.
	inside, moved := (q.tail+q.entries-q.head)%q.entries, (value+q.entries-q.head)%q.entries
	if kind == "completion" {
		if moved == 0 || moved > inside {
			return n.refuse("completion queue %d holds %d entries, and %d are taken", id, inside,
				moved)
		}
		q.head = value
	} else {
		if moved <= inside {
			return n.refuse("submission queue %d holds %d entries, and is to hold %d", id, inside,
				moved)
		}
		q.tail = value
	}
	n.due = nvmeWorkNs
	return hal.OK
}

func (n *Nvme) refuse(format string, args ...any) hal.Code {
	n.reason = fmt.Sprintf(format, args...)
	return hal.Refused
}

// process does the pending work: it applies CC, then executes the commands in the queues.
func (n *Nvme) process() {
	switch {
	case n.cc&ccEN == 0:
		n.csts, n.sq, n.cq = 0, [nvmeQueues]nvmeQueue{}, [nvmeQueues]nvmeQueue{}
	case n.csts&cstsCFS != 0:
	case n.csts&cstsRDY == 0:
		n.createAdminQueues()
	default:
		for id := range n.sq {
			n.executeQueue(uint32(id))
		}
	}
	if n.cc&ccSHN != 0 {
		n.csts = n.csts&^cstsSHST | cstsDone
	} else {
		n.csts &^= cstsSHST
	}
}

// createAdminQueues creates the admin queues: sections 3.1.8 to 3.1.10.
func (n *Nvme) createAdminQueues() {
	aqa, asq, acq := uint32(n.admin[nvmeAQA]), n.admin[nvmeASQ], n.admin[nvmeACQ]
	n.sq[0] = nvmeQueue{bus: asq, entries: aqa&0xfff + 1}
	n.cq[0] = nvmeQueue{bus: acq, entries: aqa>>16&0xfff + 1, phase: phaseOfStatus,
		interrupts: true}
	if s := n.cc & ccSettings; s != ccUsable && s != ccUsable|ccAllSets || asq%pageSize != 0 ||
		acq%pageSize != 0 || n.sq[0].entries < 2 ||
		n.cq[0].entries < 2 {
		n.csts = cstsCFS
		return
	}
	n.csts |= cstsRDY
}

// executeQueue executes the commands of a submission queue until its completion queue is full.
func (n *Nvme) executeQueue(id uint32) {
	q := &n.sq[id]
	for q.head != q.tail && n.csts&cstsCFS == 0 {
		c := &n.cq[q.cq]
		if c.following(c.tail) == c.head {
			return
		}
		command := n.host.Bytes(q.bus+uint64(q.head)*submission, submission)
		if command == nil {
			n.csts = cstsCFS
			return
		}
		q.head = q.following(q.head)
		entry := nvmeCommand(command) // a copy, because its transfer may overwrite it
		result, status := n.execute(id, &entry)
		n.postCompletion(id, entry.dw(0)>>16, result, status)
	}
}

// postCompletion writes an entry to the completion queue: section 4.6.
func (n *Nvme) postCompletion(id, command, result uint32, status nvmeStatus) {
	q := &n.sq[id]
	c := &n.cq[q.cq]
	entry := n.host.Bytes(c.bus+uint64(c.tail)*completion, completion)
	if entry == nil {
		n.csts = cstsCFS
		return
	}
	storeLittleEndian(entry, 8, uint64(result))
	storeLittleEndian(entry[8:], 4, uint64(q.head|id<<16))
	storeLittleEndian(entry[12:], 4, uint64(command|c.phase|uint32(status)<<17))
	if c.tail = c.following(c.tail); c.tail == 0 {
		c.phase ^= phaseOfStatus
	}
	if c.interrupts && n.masked&1 == 0 && n.raise != nil {
		n.raise()
	}
}
