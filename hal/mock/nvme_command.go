package mock

// This file executes the commands of QEMU's NVMe controller.

import "encoding/binary"

// nvmeCommand is a submission queue entry: NVM Express 1.4, section 4.2.
type nvmeCommand [submission]byte

func (c *nvmeCommand) opcode() byte    { return c[0] }
func (c *nvmeCommand) dw(i int) uint32 { return binary.LittleEndian.Uint32(c[4*i:]) }
func (c *nvmeCommand) prp1() uint64    { return binary.LittleEndian.Uint64(c[24:]) }
func (c *nvmeCommand) prp2() uint64    { return binary.LittleEndian.Uint64(c[32:]) }

// Opcodes: sections 5 and 6.
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

	featureQueues = 7

	// In dword 12 of a read or write, limited retry and force unit access may be ignored, as may
	// the hints in the lowest byte of dword 13.
	rwFlags = 0x3fff_0000
)

// execute executes a command of submission queue id.
func (n *Nvme) execute(id uint32, c *nvmeCommand) (result uint32, s nvmeStatus) {
	// Fused operations, scatter gather lists and metadata are not supported.
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

// setFeatures supports only the number of queues (section 5.21.1.7), which is fixed.
func (n *Nvme) setFeatures(c *nvmeCommand) (result uint32, s nvmeStatus) {
	if c.dw(10) != featureQueues || c.dw(11)&0xffff == 0xffff || c.dw(11)>>16 == 0xffff {
		return 0, nvmeInvalidField
	}
	for id := 1; id < nvmeQueues; id++ {
		if n.cq[id].entries != 0 {
			return 0, nvmeSequenceError
		}
	}
	const most = nvmeQueues - 2 // I/O queues, counted from 0
	return most | most<<16, nvmeOK
}

// newQueue checks the fields that both kinds of queues have, and returns the new queue:
// sections 5.3 and 5.4.
func (n *Nvme) newQueue(c *nvmeCommand, queues *[nvmeQueues]nvmeQueue) (
	q *nvmeQueue, s nvmeStatus) {
	id, last := c.dw(10)&0xffff, c.dw(10)>>16
	switch {
	case id == 0 || id >= nvmeQueues || queues[id].entries != 0:
		return nil, nvmeInvalidQueue
	case last == 0 || last >= nvmeEntriesMax:
		return nil, nvmeInvalidSize
	case c.dw(11)&1 == 0: // not physically contiguous, and CAP.CQR is 1
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
	case c.dw(11)>>16 != 0: // without MSI-X there is one interrupt
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

// Pages that identify returns: section 5.15.1, and TP 4056 for command sets.
const (
	cnsNamespace   = 0
	cnsController  = 1
	cnsList        = 2
	cnsDescriptors = 3
	cnsCommandSet  = 6 // of the controller; one that is named by dword 11
	commandSetNVM  = 0
	descriptorCSI  = 4 // of a namespace: its command set
	nvmeName       = "nqn.2019-08.org.qemu:mock"
)

// identify returns the requested page: section 5.15.
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
	case cns == cnsCommandSet && c.dw(11)>>24 == commandSetNVM: // no limits
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
	page[111] = 1                       // CNTRLTYPE: for I/O
	page[512], page[513] = 0x66, 0x44   // SQES, CQES
	storeLittleEndian(page[516:], 4, 1) // NN
	copy(page[768:], nvmeName)          // SUBNQN
}

// executeIO executes the NVM command set: section 6.
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

// transfer copies between the device and the pages of a command's PRP entries (section 4.3): the
// first page from an offset on, then either one more page or those of a list.
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

// listEntry returns the entry of a PRP list at a bus address, and the address of the next one. The
// last entry of a page is the address of the list's next page if more than one entry follows.
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
