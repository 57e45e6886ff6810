package mock

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// nvmeSetup is an Nvme with host memory. A test accesses its registers and queues as a driver does.
type nvmeSetup struct {
	*testing.T
	device *Device
	nvme   *Nvme
	regs   hal.Aperture
	memory []byte             // all host memory
	bus    uint64             // bus address of memory
	tails  [nvmeQueues]uint32 // number of commands that were submitted to each queue
}

// Offsets of the queues, of lists of pages and of data in the host memory of an nvmeSetup.
const (
	asqOffset  = 0x0000
	acqOffset  = 0x1000
	sqOffset   = 0x2000
	cqOffset   = 0x3000
	listOffset = 0x4000
	dataOffset = 0x10000

	queueEntries = 4 // number of entries of every queue
)

// newNvmeSetup returns a disabled controller, and maps its registers and 1 MiB of host memory.
func newNvmeSetup(t *testing.T) *nvmeSetup {
	t.Helper()
	b := &nvmeSetup{T: t, nvme: NewNvme()}
	b.device = NewWith(&boards.Nvme, b.nvme)
	b.regs = mapBAR(t, b.device, 0)
	host := mustMap(t, b.device, fbs.Window{Kind: gen.WindowKindHost, Size: 1 << 20})
	b.bus, b.memory = host.BusAddress, b.device.host.Bytes(host.BusAddress, 1<<20)
	return b
}

func (b *nvmeSetup) store(offset uint64, width uint8, value uint64) {
	b.Helper()
	store(b.T, b.device, &b.regs, offset, width, value)
}

// enable enables the controller, waits for CSTS.RDY or CFS, and returns CSTS.
func (b *nvmeSetup) enable(cc uint64) uint64 {
	b.Helper()
	b.tails = [nvmeQueues]uint32{}
	clear(b.memory[acqOffset:sqOffset])
	clear(b.memory[cqOffset:listOffset])
	b.store(nvmeAQA, 4, (queueEntries-1)<<16|queueEntries-1)
	b.store(nvmeASQ, 8, b.bus+asqOffset)
	b.store(nvmeACQ, 8, b.bus+acqOffset)
	b.store(nvmeCC, 4, cc)
	return b.statusAfterWork()
}

// statusAfterWork waits until the controller has done its work, and returns CSTS.
func (b *nvmeSetup) statusAfterWork() uint64 {
	b.Helper()
	b.device.Sleep(nvmeWorkNs)
	return load(b.T, b.device, &b.regs, nvmeCSTS, 4)
}

// createQueues enables the controller and creates submission and completion queue 1.
func (b *nvmeSetup) createQueues() *nvmeSetup {
	b.Helper()
	if got := b.enable(ccUsable | ccEN); got != cstsRDY {
		b.Fatalf("CSTS is %#x after enabling, want %#x", got, cstsRDY)
	}
	b.expectStatus(nvmeOK, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + cqOffset),
		10: (queueEntries-1)<<16 | 1, 11: 1})
	b.expectStatus(nvmeOK, 0, sqe{0: adminCreateSQ, 6: uint32(b.bus + sqOffset),
		10: (queueEntries-1)<<16 | 1, 11: 1<<16 | 1})
	return b
}

// sqe is a submission queue entry: a command, as dwords. Bus addresses in these tests have 32 bits.
type sqe [16]uint32

// run submits a command, consumes its completion and returns dword 0 and the status.
func (b *nvmeSetup) run(queue uint32, c sqe) (result uint32, s nvmeStatus) {
	b.Helper()
	sq, cq := uint32(asqOffset), uint32(acqOffset)
	if queue != 0 {
		sq, cq = sqOffset, cqOffset
	}
	n := b.tails[queue]
	slot, lap := n%queueEntries, n/queueEntries
	b.tails[queue]++
	c[0] |= (n & 0xffff) << 16
	for i, dw := range c {
		binary.LittleEndian.PutUint32(b.memory[sq+slot*submissionSize+uint32(i)*4:], dw)
	}
	b.store(uint64(nvmeDoorbell+8*queue), 4, uint64(n+1)%queueEntries)
	b.device.Sleep(nvmeWorkNs)
	entry := b.memory[cq+slot*completionSize:][:completionSize]
	dw := func(i int) uint32 { return binary.LittleEndian.Uint32(entry[4*i:]) }
	if dw(3)&0xffff != n&0xffff || dw(3)>>16&1 != (lap+1)&1 ||
		dw(2) != (n+1)%queueEntries|queue<<16 {
		b.Fatalf("completion %d of queue %d is %x: wrong identifier, phase or head", n, queue,
			entry)
	}
	b.store(uint64(nvmeDoorbell+8*queue+4), 4, uint64(n+1)%queueEntries)
	return dw(0), nvmeStatus(dw(3) >> 17)
}

func (b *nvmeSetup) expectStatus(want nvmeStatus, queue uint32, c sqe) {
	b.Helper()
	if _, got := b.run(queue, c); got != want {
		b.Errorf("queue %d, command %x: status %#x, want %#x", queue, c, got, want)
	}
}

func TestNvmeIdentifiesItself(t *testing.T) {
	b := newNvmeSetup(t)
	expect(t, b.device, &b.regs, nvmeCAP, 8, 0x004018200f0107ff)
	expect(t, b.device, &b.regs, nvmeCAP, 4, 0x0f0107ff)
	expect(t, b.device, &b.regs, nvmeCAP+4, 4, 0x00401820)
	expect(t, b.device, &b.regs, nvmeVS, 4, 0x10400)
	b.store(nvmeASQ+4, 4, 0x12)
	b.store(nvmeASQ, 4, 0x3000)
	expect(t, b.device, &b.regs, nvmeASQ, 8, 0x12_0000_3000)
	expect(t, b.device, &b.regs, nvmeASQ+4, 4, 0x12)
	b.createQueues()
	data := b.memory[dataOffset:]
	b.expectStatus(nvmeOK, 0, sqe{0: adminIdentify, 6: uint32(b.bus + dataOffset), 10: 1})
	if binary.LittleEndian.Uint16(data) != 0x1b36 || data[77] != 7 || data[512] != 0x66 ||
		data[513] != 0x44 {
		t.Errorf("identify controller returned unexpected data: %x", data[:64])
	}
	b.expectStatus(nvmeOK, 0, sqe{0: adminIdentify, 1: 1, 6: uint32(b.bus + dataOffset)})
	if binary.LittleEndian.Uint64(data) != nvmeBlocks || data[26] != 0 || data[130] != 9 {
		t.Errorf("identify namespace returned unexpected data: %x", data[:132])
	}
}

// TestNvmeTransfersPagesOfPRPLists transfers blocks from and to one page, two pages, the pages of a
// list, and the pages of a list that continues in another page. Each transfer begins at an offset
// of its first page.
func TestNvmeTransfersPagesOfPRPLists(t *testing.T) {
	for _, blocks := range []uint32{1, 7, 8, 9, 16, 17, 64, 1024} {
		for _, offset := range []uint32{0, 4, 512, 4092} {
			b := newNvmeSetup(t).createQueues()
			size := blocks * nvmeBlock
			for i := range size {
				b.memory[dataOffset+offset+i] = byte(i*7 + i>>8)
			}
			want := string(b.memory[dataOffset+offset:][:size])
			c := sqe{0: ioWrite, 1: 1, 6: uint32(b.bus) + dataOffset + offset,
				8: b.writePRPList(offset, size), 10: 5, 12: blocks - 1}
			b.expectStatus(nvmeOK, 1, c)
			if string(b.nvme.Disk()[5*nvmeBlock:][:size]) != want {
				t.Fatalf("write of %d blocks from offset %d: the disk has other data", blocks,
					offset)
			}
			clear(b.memory[dataOffset:])
			c[0] = ioRead
			b.expectStatus(nvmeOK, 1, c)
			if string(b.memory[dataOffset+offset:][:size]) != want {
				t.Errorf("read of %d blocks to offset %d: host memory has other data", blocks,
					offset)
			}
		}
	}
}

// writePRPList returns PRP2 for a transfer at dataOffset + `offset`: the address of the second
// page, or of a list of pages, which writePRPList writes. The list begins near the end of its page,
// so that a long list must continue in another page.
func (b *nvmeSetup) writePRPList(offset, size uint32) uint32 {
	page := uint32(b.bus) + dataOffset + pageSize
	if rest := int(size) - int(pageSize-offset); rest <= pageSize {
		return page
	}
	at, end := uint32(listOffset+pageSize-2*prpEntry), uint32(dataOffset+offset+size)
	list := at
	for ; page < uint32(b.bus)+end; page += pageSize {
		if last := page+pageSize >= uint32(b.bus)+end; at%pageSize == pageSize-prpEntry && !last {
			storeLittleEndian(b.memory[at:], 8, b.bus+listOffset+2*pageSize)
			at = listOffset + 2*pageSize
		}
		storeLittleEndian(b.memory[at:], 8, uint64(page))
		at += prpEntry
	}
	return uint32(b.bus) + list
}

func TestNvmeReturnsTheStatusOfEachError(t *testing.T) {
	for _, m := range []struct {
		name  string
		want  nvmeStatus
		queue uint32
		c     sqe
	}{
		{"unknown admin command", nvmeInvalidOpcode, 0, sqe{0: 0x7f}},
		{"unknown command", nvmeInvalidOpcode, 1, sqe{0: 0x05, 1: 1}},
		{"fused", nvmeInvalidField, 1, sqe{0: ioFlush | 1<<8, 1: 1}},
		{"metadata", nvmeInvalidField, 1, sqe{0: ioFlush, 1: 1, 4: 8}},
		{"flush", nvmeOK, 1, sqe{0: ioFlush, 1: 1}},
		{"forced to the medium", nvmeOK, 1, sqe{0: ioRead, 1: 1, 6: 1, 12: 1 << 30}},
		{"no such namespace", nvmeInvalidNamespace, 1, sqe{0: ioRead, 1: 2, 6: 1}},
		{"identify no such namespace", nvmeInvalidNamespace, 0, sqe{0: adminIdentify, 1: 2, 6: 1}},
		{"identify something else", nvmeInvalidField, 0, sqe{0: adminIdentify, 6: 1, 10: 4}},
		{"after the last block", nvmeOutOfRange, 1, sqe{0: ioRead, 1: 1, 6: 1, 10: nvmeBlocks}},
		{"last block and one more", nvmeOutOfRange, 1,
			sqe{0: ioRead, 1: 1, 6: 1, 10: nvmeBlocks - 1, 12: 1}},
		{"far after the last block", nvmeOutOfRange, 1,
			sqe{0: ioRead, 1: 1, 6: 1, 10: 0xffffffff, 11: 0xffffffff, 12: 1}},
		{"more than MDTS", nvmeInvalidField, 1, sqe{0: ioRead, 1: 1, 6: 1, 12: 1024}},
		{"protection information", nvmeInvalidField, 1, sqe{0: ioRead, 1: 1, 6: 1, 12: 1 << 26}},
		{"misaligned page", nvmeInvalidPRP, 1, sqe{0: ioRead, 1: 1, 6: 2}},
		{"no memory", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 0x1000}},
		{"no second page", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1000, 12: 15}},
		{"second page with an offset", nvmeInvalidPRP, 1,
			sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1200, 12: 15}},
		{"no list", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1000, 12: 16}},
		{"misaligned list", nvmeInvalidPRP, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1004, 12: 16}},
		{"queue 0", nvmeInvalidQueue, 0, sqe{0: adminCreateCQ, 6: 1, 10: 3 << 16, 11: 1}},
		{"a queue twice", nvmeInvalidQueue, 0, sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 1, 11: 1}},
		{"queue number too large", nvmeInvalidQueue, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | nvmeQueues, 11: 1<<16 | 1}},
		{"a queue of one", nvmeInvalidSize, 0, sqe{0: adminCreateCQ, 6: 1, 10: 2, 11: 1}},
		{"a queue too large", nvmeInvalidSize, 0,
			sqe{0: adminCreateCQ, 6: 1, 10: nvmeEntriesMax<<16 | 2, 11: 1}},
		{"a queue that is not contiguous", nvmeInvalidField, 0,
			sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 2}},
		{"a queue across pages", nvmeInvalidPRP, 0,
			sqe{0: adminCreateCQ, 6: 0x1010, 10: 3<<16 | 2, 11: 1}},
		{"a queue at address 0", nvmeInvalidPRP, 0,
			sqe{0: adminCreateSQ, 10: 3<<16 | 2, 11: 1<<16 | 1}},
		{"another interrupt", nvmeInvalidVector, 0,
			sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 2, 11: 1<<16 | 3}},
		{"no such completion queue", nvmeInvalidCQ, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | 2, 11: 2<<16 | 1}},
		{"the admin completion queue for I/O", nvmeInvalidQueue, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | 2, 11: 1}},
		{"deleting no queue", nvmeInvalidQueue, 0, sqe{0: adminDeleteSQ, 10: 2}},
		{"deleting the admin queue", nvmeInvalidQueue, 0, sqe{0: adminDeleteCQ}},
		{"deleting completions before submissions", nvmeInvalidDeletion, 0,
			sqe{0: adminDeleteCQ, 10: 1}},
		{"number of queues after they exist", nvmeSequenceError, 0,
			sqe{0: adminSetFeatures, 10: featureQueues}},
		{"another feature", nvmeInvalidField, 0, sqe{0: adminSetFeatures, 10: 1}},
	} {
		t.Run(m.name, func(t *testing.T) {
			b := newNvmeSetup(t).createQueues()
			if m.c[6] == 1 { // 1 means an address in host memory
				m.c[6] = uint32(b.bus + dataOffset)
			}
			if _, got := b.run(m.queue, m.c); got != m.want {
				t.Errorf("%s: status %#x, want %#x", m.name, got, m.want)
			}
		})
	}
}

func TestNvmeQueuesKeepTheirOrder(t *testing.T) {
	b := newNvmeSetup(t)
	b.enable(ccUsable | ccEN)
	if result, s := b.run(0, sqe{0: adminSetFeatures, 10: featureQueues}); s != nvmeOK ||
		result != 0x20002 {
		t.Errorf("number of queues: result %#x, status %#x; want 0x20002, %#x", result, s, nvmeOK)
	}
	b = newNvmeSetup(t).createQueues()
	for range 5 * queueEntries {
		b.expectStatus(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	}
	b.expectStatus(nvmeOK, 0, sqe{0: adminDeleteSQ, 10: 1})
	b.expectStatus(nvmeOK, 0, sqe{0: adminDeleteCQ, 10: 1})
	expectRejectedStore(t, b.device, &b.regs, nvmeDoorbell+8, 1,
		"this doorbell is for submission queue 1, which does not exist")
}

// expectRejectedStore checks that the device rejects a store of 4 bytes for the reason.
func expectRejectedStore(t *testing.T, d *Device, a *hal.Aperture, offset, value uint64,
	reason string) {
	t.Helper()
	if c := StoreAt(a, uint32(offset), 4, value); c != hal.Refused ||
		!strings.Contains(d.Refusal(), reason) {
		t.Errorf("store of %#x at %#x: %v, %q, want %q", value, offset, c, d.Refusal(), reason)
	}
}

// The controller must not overwrite completions that the driver has not consumed.
func TestNvmeWaitsForRoomInTheCompletionQueue(t *testing.T) {
	b := newNvmeSetup(t).createQueues()
	for slot := range uint32(queueEntries - 1) {
		storeLittleEndian(b.memory[sqOffset+slot*submissionSize:], 8,
			1<<32|uint64(slot)<<16|ioFlush)
		b.store(nvmeDoorbell+8, 4, uint64(slot+1))
		b.device.Sleep(nvmeWorkNs)
	}
	last := b.memory[cqOffset+(queueEntries-1)*completionSize:][:completionSize]
	storeLittleEndian(b.memory[sqOffset+(queueEntries-1)*submissionSize:], 8, 1<<32|77<<16|ioFlush)
	b.store(nvmeDoorbell+8, 4, 0)
	b.device.Sleep(nvmeWorkNs)
	if loadLittleEndian(last[12:], 4) != 0 {
		t.Errorf("a fourth completion in a queue that accepts three: %x", last)
	}
	b.store(nvmeDoorbell+12, 4, 1)
	b.device.Sleep(nvmeWorkNs)
	if loadLittleEndian(last[12:], 4) != phaseOfStatus|77 {
		t.Errorf("no completion after one was consumed, the entry is %x", last)
	}
}

func TestNvmeRejectsWhatTheSpecificationForbids(t *testing.T) {
	for _, m := range []struct {
		offset, value uint64
		reason        string
	}{
		{nvmeCAP, 1, "no register to store to at 0x0"},
		{nvmeCSTS, 0, "no register to store to at 0x1c"},
		{nvmeAQA, 0x30003, "admin queues must not change while CC.EN is 1"},
		{nvmeASQ, 0, "admin queues must not change while CC.EN is 1"},
		{nvmeACQ + 4, 0, "admin queues must not change while CC.EN is 1"},
		{nvmeCC, ccUsable | 0x80 | ccEN, "the settings in CC must not change"},
		{nvmeCC, ccUsable | 0x2 | ccEN, "but its reserved bits"},
		{nvmeDoorbell + 8, queueEntries, "has 4 entries, so there is no entry 4"},
		{nvmeDoorbell + 8, 0, "the queue has 0 entries, and would have 0"},
		{nvmeDoorbell + 12, 1, "must consume at least 1, and at most the 0 in the queue"},
		{nvmeDoorbell + 16, 1, "queue 2, which does not exist"},
		{nvmeDoorbell + 8*nvmeQueues, 1, "queue 4, which does not exist"},
	} {
		t.Run(m.reason, func(t *testing.T) {
			b := newNvmeSetup(t).createQueues()
			expectRejectedStore(t, b.device, &b.regs, m.offset, m.value, m.reason)
		})
	}
	b := newNvmeSetup(t)
	if _, c := LoadAt(&b.regs, nvmeDoorbell, 4); c != hal.Refused {
		t.Errorf("load of a doorbell: %v, want %v", c, hal.Refused)
	}
	b = newNvmeSetup(t)
	expectRejectedStore(t, b.device, &b.regs, nvmeDoorbell, 1,
		"submission queue 0, which does not exist")
	b = newNvmeSetup(t).createQueues()
	b.store(nvmeCC, 4, 0)
	expectRejectedStore(t, b.device, &b.regs, nvmeCC, ccUsable|ccEN, "before CSTS.RDY is 0")
}

func TestNvmeFailsPermanentlyIfItsQueuesAreUnreachable(t *testing.T) {
	for name, disconnect := range map[string]func(b *nvmeSetup){
		"bus master off": func(b *nvmeSetup) {
			b.device.config.Store(Place{Bar: ConfigSpace, Address: 4}, 2, 2)
			b.store(nvmeDoorbell, 4, 3)
		},
		"submissions outside host memory": func(b *nvmeSetup) {
			b.nvme.sq[0].bus = 0x1000
			b.store(nvmeDoorbell, 4, 3)
		},
		"completions outside host memory": func(b *nvmeSetup) {
			b.nvme.cq[0].bus = 0x1000
			b.store(nvmeDoorbell, 4, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNvmeSetup(t).createQueues()
			disconnect(b)
			if got := b.statusAfterWork(); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x, want %#x", name, got, cstsCFS)
			}
			b.store(nvmeDoorbell, 4, 0) // has no effect
			b.store(nvmeCC, 4, 0)
			if got := b.statusAfterWork(); got != 0 {
				t.Errorf("%s: CSTS is %#x after the reset, want 0", name, got)
			}
		})
	}
	for name, cc := range map[string]uint64{"entries of other sizes": 0x450000 | ccEN,
		"pages of 8 KiB": ccUsable | 1<<7 | ccEN, "another command set": ccUsable | 1<<4 | ccEN} {
		t.Run(name, func(t *testing.T) {
			if got := newNvmeSetup(t).enable(cc); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x, want %#x", name, got, cstsCFS)
			}
		})
	}
	for name, set := range map[string]struct {
		aqa      uint64
		asq, acq uint64 // offsets in host memory
	}{
		"submissions of one entry":     {0x1_0000, asqOffset, acqOffset},
		"completions of one entry":     {0x1, asqOffset, acqOffset},
		"submissions across two pages": {0x1_0001, asqOffset + 64, acqOffset},
		"completions across two pages": {0x1_0001, asqOffset, acqOffset + 16},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNvmeSetup(t)
			b.store(nvmeAQA, 4, set.aqa)
			b.store(nvmeASQ, 8, b.bus+set.asq)
			b.store(nvmeACQ, 8, b.bus+set.acq)
			b.store(nvmeCC, 4, ccUsable|ccEN)
			if got := b.statusAfterWork(); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x, want %#x", name, got, cstsCFS)
			}
		})
	}
}

func TestNvmeShutsDown(t *testing.T) {
	b := newNvmeSetup(t).createQueues()
	b.store(nvmeCC, 4, ccUsable|ccEN|1<<14)
	if got := b.statusAfterWork(); got != cstsRDY|cstsDone {
		t.Errorf("CSTS is %#x after the shutdown, want %#x", got, cstsRDY|cstsDone)
	}
	b.store(nvmeCC, 4, 0)
	if got := b.statusAfterWork(); got != 0 {
		t.Errorf("CSTS is %#x after the reset, want 0", got)
	}
	b.createQueues()
}

func TestConnectedDevicesReachEachOthersMemory(t *testing.T) {
	a, m, small := New(&boards.Nvme), New(&boards.Ivshmem), New(&boards.Ivshmem)
	small.ResizeBAR(2, 256)
	Connect(a, m, small)
	end := mustMap(t, small,
		fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 256}).BusAddress + 256
	memory := mustMap(t, m, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Offset: 0x3000,
		Size: 0x2000})
	store(t, m, &memory, 8, 4, 0x12345678)
	got := a.host.Bytes(memory.BusAddress+8, 4)
	if len(got) != 4 || loadLittleEndian(got, 4) != 0x12345678 {
		t.Errorf("another device reads %x, want the stored 0x12345678", got)
	}
	size := m.Identity().BarSizes[2]
	for _, c := range []struct{ bus, size uint64 }{
		{memory.BusAddress + 0xffc, 8}, {memory.BusAddress - 0x3000 - 1, 1},
		{memory.BusAddress - 0x3000 + size, 1},
		{mapBAR(t, m, 0).BusAddress, 4}, {mapBAR(t, a, 0).BusAddress, 4}, {end, 1}, {end - 4, 8},
	} {
		t.Run(fmt.Sprint(c.bus, " ", c.size), func(t *testing.T) {
			if a.host.Bytes(c.bus, c.size) != nil {
				t.Errorf("another device reaches %d bytes at %#x", c.size, c.bus)
			}
		})
	}
	if a.host.Bytes(end-4, 4) == nil {
		t.Error("another device does not reach the end of a small BAR")
	}
	a.Sleep(1000)
	if m.Now() != a.Now() {
		t.Errorf("clocks of connected devices: %d and %d, want them equal", a.Now(), m.Now())
	}
	m.Inject(Fault{Kind: AllOnes, Operation: m.Operations() + 1})
	load(t, m, &memory, 0, 4)
	if a.host.Bytes(memory.BusAddress, 4) != nil {
		t.Error("another device reaches memory of a device that is gone")
	}
}

// TestNvmeInterruptsForCompletions checks that only completions of queues with interrupts cause an
// interrupt, and only if it is not masked.
func TestNvmeInterruptsForCompletions(t *testing.T) {
	b, count := newNvmeSetup(t), 0
	b.device.SetInterruptHandler(func() { count++ })
	expectInterrupts := func(name string, want int) {
		t.Helper()
		if count != want {
			t.Errorf("%s: %d interrupts, want %d", name, count, want)
		}
		count = 0
	}
	b.createQueues()
	expectInterrupts("two commands of the admin queue", 2)
	b.expectStatus(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	expectInterrupts("a queue without interrupts", 0)
	b.expectStatus(nvmeOK, 0, sqe{0: adminDeleteSQ, 10: 1})
	b.expectStatus(nvmeOK, 0, sqe{0: adminDeleteCQ, 10: 1})
	b.expectStatus(nvmeInvalidField, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + cqOffset),
		10: (queueEntries-1)<<16 | 1, 11: 5})
	clear(b.memory[cqOffset:listOffset])
	b.tails[1] = 0
	b.expectStatus(nvmeOK, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + cqOffset),
		10: (queueEntries-1)<<16 | 1, 11: 3})
	b.expectStatus(nvmeOK, 0, sqe{0: adminCreateSQ, 6: uint32(b.bus + sqOffset),
		10: (queueEntries-1)<<16 | 1, 11: 1<<16 | 1})
	count = 0
	b.expectStatus(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	expectInterrupts("a queue with interrupts", 1)
	b.store(nvmeINTMS, 4, 1)
	expect(t, b.device, &b.regs, nvmeINTMC, 4, 1)
	b.expectStatus(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	expectInterrupts("masked", 0)
	b.store(nvmeINTMC, 4, 1)
	expect(t, b.device, &b.regs, nvmeINTMS, 4, 0)
	b.expectStatus(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	expectInterrupts("not masked", 1)
}

// TestNvmeAcceptsAllCommandSets enables all supported command sets (only NVM), and sends the
// commands that Linux then sends.
func TestNvmeAcceptsAllCommandSets(t *testing.T) {
	b := newNvmeSetup(t)
	if got := b.enable(ccUsable | ccAllSets | ccEN); got != cstsRDY {
		t.Fatalf("CSTS is %#x after enabling, want %#x", got, cstsRDY)
	}
	data, page := b.memory[dataOffset:], uint32(b.bus+dataOffset)
	b.expectStatus(nvmeOK, 0, sqe{0: adminIdentify, 1: 1, 6: page, 10: cnsDescriptors})
	if data[0] != descriptorCSI || data[1] != 1 || data[4] != commandSetNVM {
		t.Errorf("descriptors of the namespace: % x, want one of the command set NVM", data[:8])
	}
	b.expectStatus(nvmeInvalidNamespace, 0,
		sqe{0: adminIdentify, 1: 2, 6: page, 10: cnsDescriptors})
	for after, want := range []byte{1, 0} {
		b.expectStatus(nvmeOK, 0, sqe{0: adminIdentify, 1: uint32(after), 6: page, 10: cnsList})
		if data[0] != want {
			t.Errorf("the list of namespaces after %d begins with %d, want %d", after, data[0],
				want)
		}
	}
	b.expectStatus(nvmeOK, 0, sqe{0: adminIdentify, 6: page, 10: cnsCommandSet})
	b.expectStatus(nvmeInvalidField, 0,
		sqe{0: adminIdentify, 6: page, 10: cnsCommandSet, 11: 2 << 24})
}
