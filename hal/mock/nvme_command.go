package mock

import "encoding/binary"

// nvmeCommand is an entry of a submission queue (section 4.2).
type nvmeCommand [submissionSize]byte

func (c *nvmeCommand) opcode() byte { return c[0] }

// dw returns dword i of the specification: 32 bits.
func (c *nvmeCommand) dw(i int) uint32 { return binary.LittleEndian.Uint32(c[4*i:]) }

// prp1 returns the first PRP entry: the bus address at which the data begin.
func (c *nvmeCommand) prp1() uint64 { return binary.LittleEndian.Uint64(c[24:]) }

// prp2 returns the second PRP entry: the bus address of the second page or of a PRP list.
func (c *nvmeCommand) prp2() uint64 { return binary.LittleEndian.Uint64(c[32:]) }

// Opcodes of admin commands (section 5) and I/O commands (section 6).
const (
	adminDeleteSQ    = 0x00
	adminCreateSQ    = 0x01
	adminDeleteCQ    = 0x04
	adminCreateCQ    = 0x05
	adminIdentify    = 0x06
	adminSetFeatures = 0x09

	ioFlush = 0x00
	ioWrite = 0x01
	ioRead  = 0x02

	featureQueues = 7 // feature identifier: number of queues

	// rwFlags is the mask of the bits in dword 12 of a read or write that must be 0. It does not
	// have the flags limited retry and force unit access, because a controller may ignore them. A
	// controller may also ignore the hints in the lowest byte of dword 13.
	rwFlags = 0x3fff_0000
)

// execute executes a command of the submission queue `id`. `result` depends on the command.
func (n *Nvme) execute(id uint32, c *nvmeCommand) (result uint32, s nvmeStatus) {
	// This controller does not support fused operations, scatter-gather lists and metadata.
	if c[1] != 0 || c.dw(2)|c.dw(3)|c.dw(4)|c.dw(5) != 0 {
		return 0, nvmeInvalidField
	}
	if id != 0 {
		return 0, n.executeIO(c)
	}
	switch c.opcode() {
	case adminCreateCQ:
		return 0, n.createCQ(c)
	case adminCreateSQ:
		return 0, n.createSQ(c)
	case adminDeleteCQ:
		return 0, n.deleteCQ(c.dw(10) & 0xffff)
	case adminDeleteSQ:
		return 0, n.deleteSQ(c.dw(10) & 0xffff)
	case adminIdentify:
		return 0, n.identify(c)
	case adminSetFeatures:
		return n.setFeatures(c)
	}
	return 0, nvmeInvalidOpcode
}

// setFeatures supports only the feature Number of Queues (section 5.21.1.7), whose result is the
// fixed number of queues.
func (n *Nvme) setFeatures(c *nvmeCommand) (result uint32, s nvmeStatus) {
	if c.dw(10) != featureQueues || c.dw(11)&0xffff == 0xffff || c.dw(11)>>16 == 0xffff {
		return 0, nvmeInvalidField
	}
	for id := 1; id < nvmeQueues; id++ {
		if n.cq[id].entries != 0 {
			return 0, nvmeSequenceError
		}
	}
	const most = nvmeQueues - 2 // the result has the number of I/O queues minus one
	return most | most<<16, nvmeOK
}

// newQueue checks the fields that Create I/O Submission Queue and Create I/O Completion Queue have
// in common (sections 5.3 and 5.4). It returns the element of `queues` for the new queue.
func (n *Nvme) newQueue(c *nvmeCommand, queues *[nvmeQueues]nvmeQueue) (
	q *nvmeQueue, s nvmeStatus) {
	id, last := c.dw(10)&0xffff, c.dw(10)>>16
	switch {
	case id == 0 || id >= nvmeQueues || queues[id].entries != 0:
		return nil, nvmeInvalidQueue
	case last == 0 || last >= nvmeEntriesMax:
		return nil, nvmeInvalidSize
	case c.dw(11)&1 == 0: // not physically contiguous, which CAP.CQR = 1 requires
		return nil, nvmeInvalidField
	case c.prp1() == 0 || c.prp1()%pageSize != 0:
		return nil, nvmeInvalidPRP
	}
	return &queues[id], nvmeOK
}

func (n *Nvme) createCQ(c *nvmeCommand) nvmeStatus {
	q, s := n.newQueue(c, &n.cq)
	switch {
	case s != nvmeOK:
		return s
	case c.dw(11)>>16 >= max(1, n.vectors):
		return nvmeInvalidVector
	case c.dw(11)&0xfffc != 0:
		return nvmeInvalidField
	}
	*q = nvmeQueue{bus: c.prp1(), entries: c.dw(10)>>16 + 1, phase: phaseOfStatus,
		interrupts: c.dw(11)&2 != 0}
	return nvmeOK
}

func (n *Nvme) createSQ(c *nvmeCommand) nvmeStatus {
	q, s := n.newQueue(c, &n.sq)
	cq := c.dw(11) >> 16
	switch {
	case s != nvmeOK:
		return s
	case c.dw(11)&0xfff8 != 0:
		return nvmeInvalidField
	case cq == 0 || cq >= nvmeQueues:
		return nvmeInvalidQueue
	case n.cq[cq].entries == 0:
		return nvmeInvalidCQ
	}
	*q = nvmeQueue{bus: c.prp1(), entries: c.dw(10)>>16 + 1, cq: cq}
	return nvmeOK
}

func (n *Nvme) deleteSQ(id uint32) nvmeStatus {
	if id == 0 || id >= nvmeQueues || n.sq[id].entries == 0 {
		return nvmeInvalidQueue
	}
	n.sq[id] = nvmeQueue{}
	return nvmeOK
}

// deleteCQ fails while a submission queue uses the completion queue.
func (n *Nvme) deleteCQ(id uint32) nvmeStatus {
	if id == 0 || id >= nvmeQueues || n.cq[id].entries == 0 {
		return nvmeInvalidQueue
	}
	for i := range n.sq {
		if n.sq[i].entries != 0 && n.sq[i].cq == id {
			return nvmeInvalidDeletion
		}
	}
	n.cq[id] = nvmeQueue{}
	return nvmeOK
}

// Data structures that an Identify command can request (section 5.15.1; for command sets,
// technical proposal TP 4056).
const (
	cnsNamespace   = 0 // properties of a namespace
	cnsController  = 1 // properties of the controller
	cnsList        = 2 // list of namespaces
	cnsDescriptors = 3 // list of identifiers of a namespace
	cnsCommandSet  = 6 // limits of the controller for the command set that dword 11 names
	commandSetNVM  = 0
	descriptorCSI  = 4 // type of an identifier: command set of the namespace
	nvmeName       = "nqn.2019-08.org.qemu:mock"
)

// identify copies the requested data structure to host memory (section 5.15).
func (n *Nvme) identify(c *nvmeCommand) nvmeStatus {
	page := n.scratch[:]
	clear(page)
	cns, namespace := c.dw(10), c.dw(1)
	switch {
	case (cns == cnsNamespace || cns == cnsDescriptors) && namespace != 1:
		return nvmeInvalidNamespace
	case cns == cnsNamespace:
		for _, offset := range [...]int{0, 8, 16} { // NSZE, NCAP, NUSE
			storeLittleEndian(page[offset:], 8, nvmeBlocks)
		}
		page[130] = 9 // LBAF0.LBADS: 512 bytes
	case cns == cnsController:
		identifyController(page)
	case cns == cnsList:
		if namespace == 0 {
			storeLittleEndian(page, 4, 1)
		}
	case cns == cnsDescriptors:
		page[0], page[1], page[4] = descriptorCSI, 1, commandSetNVM
	case cns == cnsCommandSet && c.dw(11)>>24 == commandSetNVM: // all zero: no limits
	default:
		return nvmeInvalidField
	}
	return n.transfer(c, page, true)
}

func identifyController(page []byte) {
	storeLittleEndian(page[0:], 2, nvmeVendor)
	storeLittleEndian(page[2:], 2, 0x1af4)
	copy(page[4:24], "lightmetal          ")
	copy(page[24:64], "mock NVMe Ctrl                          ")
	copy(page[64:72], "1       ")
	page[77] = 7 // MDTS: 128 pages
	storeLittleEndian(page[80:], 4, nvmeVersion)
	page[111] = 1                       // CNTRLTYPE: I/O controller
	page[512], page[513] = 0x66, 0x44   // SQES, CQES
	storeLittleEndian(page[516:], 4, 1) // NN
	copy(page[768:], nvmeName)          // SUBNQN
}

// executeIO executes a command of the NVM command set (section 6): Flush, Write or Read.
func (n *Nvme) executeIO(c *nvmeCommand) nvmeStatus {
	opcode := c.opcode()
	switch {
	case opcode > ioRead:
		return nvmeInvalidOpcode
	case c.dw(1) != 1:
		return nvmeInvalidNamespace
	case opcode == ioFlush:
		return nvmeOK
	}
	first, count := uint64(c.dw(10))|uint64(c.dw(11))<<32, uint64(c.dw(12)&0xffff)+1
	switch {
	case c.dw(12)&rwFlags>>16 != 0 || c.dw(13)&^0xff|c.dw(14)|c.dw(15) != 0 ||
		count*nvmeBlock > nvmePagesMax*pageSize:
		return nvmeInvalidField
	case first >= nvmeBlocks || count > nvmeBlocks-first:
		return nvmeOutOfRange
	}
	return n.transfer(c, n.disk[first*nvmeBlock:][:count*nvmeBlock], opcode == ioRead)
}

// transfer copies `data` to host memory, or from host memory if toHost is false. The PRP entries of
// the command have the bus addresses of the pages of host memory (section 4.3). The first entry may
// point into a page. The second entry is the address of the second page or, if there are more than
// two pages, of a PRP list with the addresses of all further pages.
func (n *Nvme) transfer(c *nvmeCommand, data []byte, toHost bool) nvmeStatus {
	page, next := c.prp1(), c.prp2()
	if page%4 != 0 {
		return nvmeInvalidPRP
	}
	size := min(pageSize-page%pageSize, uint64(len(data)))
	list := uint64(len(data))-size > pageSize
	for {
		memory := n.host.Bytes(page, size)
		if memory == nil {
			return nvmeTransferError
		}
		if toHost {
			copy(memory, data)
		} else {
			copy(data, memory)
		}
		if data = data[size:]; len(data) == 0 {
			return nvmeOK
		}
		page, size = next, min(pageSize, uint64(len(data)))
		if list {
			s := nvmeOK
			if page, next, s = n.listEntry(next, uint64(len(data)) > pageSize); s != nvmeOK {
				return s
			}
		}
		if page%pageSize != 0 {
			return nvmeInvalidPRP
		}
	}
}

// listEntry reads the entry of a PRP list at a bus address: the address of a page. `next` is the
// bus address of the entry after it. If the list has `more` entries, the last entry in a page of
// the list is the address of the next page of the list instead.
func (n *Nvme) listEntry(at uint64, more bool) (page, next uint64, s nvmeStatus) {
	if at%prpEntry != 0 {
		return 0, 0, nvmeInvalidPRP
	}
	memory := n.host.Bytes(at, prpEntry)
	if memory == nil {
		return 0, 0, nvmeTransferError
	}
	page = loadLittleEndian(memory, prpEntry)
	if more && at%pageSize == pageSize-prpEntry {
		if page%pageSize != 0 {
			return 0, 0, nvmeInvalidPRP
		}
		return n.listEntry(page, false)
	}
	return page, at + prpEntry, nvmeOK
}
