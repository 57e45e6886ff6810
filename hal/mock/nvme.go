package mock

// Section numbers here and in nvme_command.go are those of the specification NVM Express 1.4.

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Offsets of an NVMe controller's registers (section 3.1).
const (
	nvmeCAP      = 0x00   // controller capabilities
	nvmeVS       = 0x08   // version
	nvmeINTMS    = 0x0c   // interrupt mask set
	nvmeINTMC    = 0x10   // interrupt mask clear
	nvmeCC       = 0x14   // controller configuration
	nvmeCSTS     = 0x1c   // controller status
	nvmeAQA      = 0x24   // admin queue attributes
	nvmeASQ      = 0x28   // bus address of the admin submission queue
	nvmeACQ      = 0x30   // bus address of the admin completion queue
	nvmeCMBLOC   = 0x38   // location of the controller memory buffer; 0: there is none
	nvmeCMBSZ    = 0x3c   // size of the controller memory buffer; 0: there is none
	nvmeDoorbell = 0x1000 // first doorbell; the others follow, 4 bytes apart (CAP.DSTRD is 0)
)

const (
	// nvmeCapabilities is the value of CAP, as in QEMU 7.2: up to 2048 entries in a queue,
	// contiguous queues only, up to 7.5 s until ready, NVM command set, pages of 4 to 64 KiB.
	nvmeCapabilities = 0x0040_1820_0f01_07ff
	nvmeVersion      = 0x0001_0400 // value of VS: 1.4
	nvmeEntriesMax   = 2048        // entries of a queue

	ccEN       = 1 << 0   // enable
	ccSHN      = 3 << 14  // shutdown notification
	ccSettings = 0xff3ff0 // mask of the fields CSS, MPS, AMS, IOSQES and IOCQES
	ccUsable   = 0x460000 // IOSQES is 64 bytes, IOCQES is 16 bytes, and the other fields are 0
	ccAllSets  = 6 << 4   // value of CSS: all I/O command sets (there is only NVM)
	cstsRDY    = 1 << 0   // ready
	cstsCFS    = 1 << 1   // fatal error
	cstsSHST   = 3 << 2   // mask of the shutdown status
	cstsDone   = 2 << 2   // shutdown status: complete

	nvmeQueues     = 4       // submission queues and completion queues, including the admin queues
	nvmeBlock      = 512     // bytes of a block
	nvmeBlocks     = 2048    // blocks of the namespace
	nvmePagesMax   = 128     // largest number of pages of one transfer: MDTS is 7
	nvmeVendor     = 0x1b36  // PCI vendor id
	nvmeWorkNs     = 1000    // nanoseconds from a store to a register until the controller reacts
	submissionSize = 64      // bytes of an entry of a submission queue
	completionSize = 16      // bytes of an entry of a completion queue
	prpEntry       = 8       // bytes of an entry of a PRP list
	phaseOfStatus  = 1 << 16 // phase bit in the status word of a completion queue entry
)

// nvmeStatus is a status code with its type in bits 8 to 10 (section 4.6.1.2).
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

// Nvme is a Model of QEMU's NVMe controller with one namespace of 1 MiB. All its vectors raise the
// same interrupt. As the specification requires, an invalid command completes with an error status,
// and invalid admin queues set CSTS.CFS. If the specification forbids an access without defining
// its effect, the model rejects the access.
type Nvme struct {
	cc, csts uint32                // values of CC and CSTS
	admin    map[uint64]uint64     // values of AQA, ASQ and ACQ, by offset
	masked   uint32                // interrupt mask
	vectors  uint32                // number of enabled vectors; 0: only vector 0
	raise    func()                // sends the interrupt message; may be nil
	due      int64                 // nanoseconds until the controller reacts; 0: no pending work
	sq, cq   [nvmeQueues]nvmeQueue // submission and completion queues; 0: admin queues
	disk     []byte                // data of the namespace
	scratch  [pageSize]byte        // data of an Identify command
	host     *Host                 // memory that the controller accesses
	reason   string                // reason for the last rejection
}

// nvmeQueue is a submission or completion queue: a ring of entries in host memory.
type nvmeQueue struct {
	bus        uint64 // bus address of entry 0
	entries    uint32 // number of entries; 0 if the queue does not exist
	head, tail uint32 // indices of the first used and of the first free entry
	phase      uint32 // phase bit of the next completion: phaseOfStatus or 0
	cq         uint32 // of a submission queue: number of its completion queue
	interrupts bool   // of a completion queue: each completion raises the interrupt
}

func (q *nvmeQueue) nextIndex(i uint32) uint32 { return (i + 1) % q.entries }

// NewNvme returns an Nvme that is disabled, with a namespace of zeros.
func NewNvme() *Nvme {
	return &Nvme{disk: make([]byte, nvmeBlocks*nvmeBlock), host: &Host{},
		admin: map[uint64]uint64{nvmeAQA: 0, nvmeASQ: 0, nvmeACQ: 0}}
}

// Disk returns the data of the namespace.
func (n *Nvme) Disk() []byte { return n.disk }

// Connect implements BusMaster.
func (n *Nvme) Connect(host *Host) { n.host = host }

// SetVectors implements VectorUser.
func (n *Nvme) SetVectors(count uint16) { n.vectors = uint32(count) }

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
		n.doPendingWork()
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

// registerAt returns the offset of the register at an address. `shift` is 32 for the upper half of
// a register of 8 bytes, else 0.
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
		return n.storeCC(uint32(value))
	case !ok:
		return n.refuse("there is no register to store to at %#x", at.Address)
	case n.cc&ccEN != 0:
		return n.refuse("the registers of the admin queues must not change while CC.EN is 1")
	default:
		n.admin[register] = admin&^(fbs.WidthMask(width)<<shift) | value<<shift
	}
	return hal.OK
}

func (n *Nvme) storeCC(value uint32) hal.Code {
	enabled, enable := n.cc&ccEN != 0, value&ccEN != 0
	switch {
	case value&^(ccEN|ccSHN|ccSettings) != 0:
		return n.refuse("CC is %#x, but its reserved bits %#x must be 0", value,
			^uint32(ccEN|ccSHN|ccSettings))
	case enable && !enabled && n.csts&cstsRDY != 0:
		return n.refuse("CC.EN is set before CSTS.RDY is 0")
	case enable && enabled && (n.cc^value)&ccSettings != 0:
		return n.refuse("the settings in CC must not change while CC.EN is 1, but change from "+
			"%#x to %#x", n.cc, value)
	}
	n.cc, n.due = value, nvmeWorkNs
	return hal.OK
}

// storeDoorbell takes the offset from the first doorbell (end of section 3.1).
func (n *Nvme) storeDoorbell(offset uint64, value uint32) hal.Code {
	id := offset / 8
	queues, kind := &n.sq, "submission"
	if offset&4 != 0 {
		queues, kind = &n.cq, "completion"
	}
	switch {
	case n.csts&cstsCFS != 0:
		return hal.OK // a load of CSTS shows the client that the controller has failed
	case n.csts&cstsRDY == 0 || id >= nvmeQueues || queues[id].entries == 0:
		return n.refuse("this doorbell is for %s queue %d, which does not exist", kind, id)
	case value >= queues[id].entries:
		return n.refuse("%s queue %d has %d entries, so there is no entry %d", kind, id,
			queues[id].entries,
			value)
	}
	q := &queues[id]
	// A completion doorbell sets the head of its queue, and may only consume used entries. A
	// submission doorbell sets the tail, and may only add entries.
	inside, moved := (q.tail+q.entries-q.head)%q.entries, (value+q.entries-q.head)%q.entries
	if kind == "completion" {
		if moved == 0 || moved > inside {
			return n.refuse("the new head of completion queue %d consumes %d entries, but must "+
				"consume at least 1, and at most the %d in the queue", id, moved, inside)
		}
		q.head = value
	} else {
		if moved <= inside {
			return n.refuse("the new tail of submission queue %d must add entries: the queue "+
				"has %d entries, and would have %d", id, inside, moved)
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

// doPendingWork makes the controller react to earlier stores: it resets or enables the controller
// as CC requires, or executes the commands in the submission queues.
func (n *Nvme) doPendingWork() {
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

// createAdminQueues creates the admin queues from AQA, ASQ and ACQ (sections 3.1.8 to 3.1.10), and
// sets CSTS.RDY. If the settings are invalid, it sets CSTS.CFS.
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

// executeQueue stops when the submission queue is empty or its completion queue is full.
func (n *Nvme) executeQueue(id uint32) {
	q := &n.sq[id]
	for q.head != q.tail && n.csts&cstsCFS == 0 {
		c := &n.cq[q.cq]
		if c.nextIndex(c.tail) == c.head {
			return
		}
		command := n.host.Bytes(q.bus+uint64(q.head)*submissionSize, submissionSize)
		if command == nil {
			n.csts = cstsCFS
			return
		}
		q.head = q.nextIndex(q.head)
		entry := nvmeCommand(command) // a copy, because a transfer may overwrite the queue
		result, status := n.execute(id, &entry)
		n.postCompletion(id, entry.dw(0)>>16, result, status)
	}
}

// postCompletion writes an entry to the completion queue of the submission queue `id` (section
// 4.6). `command` is the identifier of the completed command.
func (n *Nvme) postCompletion(id, command, result uint32, status nvmeStatus) {
	q := &n.sq[id]
	c := &n.cq[q.cq]
	entry := n.host.Bytes(c.bus+uint64(c.tail)*completionSize, completionSize)
	if entry == nil {
		n.csts = cstsCFS
		return
	}
	storeLittleEndian(entry, 8, uint64(result))
	storeLittleEndian(entry[8:], 4, uint64(q.head|id<<16))
	storeLittleEndian(entry[12:], 4, uint64(command|c.phase|uint32(status)<<17))
	if c.tail = c.nextIndex(c.tail); c.tail == 0 {
		c.phase ^= phaseOfStatus
	}
	if c.interrupts && n.masked&1 == 0 && n.raise != nil {
		n.raise()
	}
}
