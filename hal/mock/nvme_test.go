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

// nvmeBench is an Nvme with host memory, driven by hand.
type nvmeBench struct {
	*testing.T
	d      *Device
	n      *Nvme
	regs   hal.Aperture
	memory []byte // all host memory
	bus    uint64 // of it
	tails  [nvmeQueues]uint32
}

// Where things lie in a bench's host memory.
const (
	atASQ  = 0x0000
	atACQ  = 0x1000
	atSQ   = 0x2000
	atCQ   = 0x3000
	atList = 0x4000
	atData = 0x10000

	benchEntries = 4 // of every queue
)

func newNvmeBench(t *testing.T) *nvmeBench {
	t.Helper()
	b := &nvmeBench{T: t, n: NewNvme()}
	b.d = NewWith(&boards.Nvme, b.n)
	b.regs = bar(t, b.d, 0)
	host := mapped(t, b.d, fbs.Window{Kind: gen.WindowKindHost, Size: 1 << 20})
	b.bus, b.memory = host.BusAddress, b.d.host.Bytes(host.BusAddress, 1<<20)
	return b
}

func (b *nvmeBench) store(offset uint64, width uint8, value uint64) {
	b.Helper()
	store(b.T, b.d, &b.regs, offset, width, value)
}

// enable enables the controller, waits for CSTS.RDY or CFS, and returns CSTS.
func (b *nvmeBench) enable(cc uint64) uint64 {
	b.Helper()
	b.tails = [nvmeQueues]uint32{}
	clear(b.memory[atACQ:atSQ])
	clear(b.memory[atCQ:atList])
	b.store(nvmeAQA, 4, (benchEntries-1)<<16|benchEntries-1)
	b.store(nvmeASQ, 8, b.bus+atASQ)
	b.store(nvmeACQ, 8, b.bus+atACQ)
	b.store(nvmeCC, 4, cc)
	return b.status()
}

func (b *nvmeBench) status() uint64 {
	b.Helper()
	b.d.Sleep(nvmeWorkNs)
	return load(b.T, b.d, &b.regs, nvmeCSTS, 4)
}

// queues enables the controller and makes I/O queues 1.
func (b *nvmeBench) queues() *nvmeBench {
	b.Helper()
	if got := b.enable(ccUsable | ccEN); got != cstsRDY {
		b.Fatalf("CSTS is %#x after enabling", got)
	}
	b.wants(nvmeOK, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + atCQ), 10: (benchEntries-1)<<16 | 1,
		11: 1})
	b.wants(nvmeOK, 0, sqe{0: adminCreateSQ, 6: uint32(b.bus + atSQ), 10: (benchEntries-1)<<16 | 1,
		11: 1<<16 | 1})
	return b
}

// sqe is a command by its dwords. Bus addresses here have 32 bits.
type sqe [16]uint32

// run submits a command, consumes its completion and returns dword 0 and the status.
func (b *nvmeBench) run(queue uint32, c sqe) (result uint32, s nvmeStatus) {
	b.Helper()
	sq, cq := uint32(atASQ), uint32(atACQ)
	if queue != 0 {
		sq, cq = atSQ, atCQ
	}
	n := b.tails[queue]
	slot, lap := n%benchEntries, n/benchEntries
	b.tails[queue]++
	c[0] |= (n & 0xffff) << 16
	for i, dw := range c {
		binary.LittleEndian.PutUint32(b.memory[sq+slot*submission+uint32(i)*4:], dw)
	}
	b.store(uint64(nvmeDoorbell+8*queue), 4, uint64(n+1)%benchEntries)
	b.d.Sleep(nvmeWorkNs)
	entry := b.memory[cq+slot*completion:][:completion]
	dw := func(i int) uint32 { return binary.LittleEndian.Uint32(entry[4*i:]) }
	if dw(3)&0xffff != n&0xffff || dw(3)>>16&1 != (lap+1)&1 ||
		dw(2) != (n+1)%benchEntries|queue<<16 {
		b.Fatalf("completion %d of queue %d is %x", n, queue, entry)
	}
	b.store(uint64(nvmeDoorbell+8*queue+4), 4, uint64(n+1)%benchEntries)
	return dw(0), nvmeStatus(dw(3) >> 17)
}

func (b *nvmeBench) wants(want nvmeStatus, queue uint32, c sqe) {
	b.Helper()
	if _, got := b.run(queue, c); got != want {
		b.Errorf("queue %d, %x: status %#x, want %#x", queue, c, got, want)
	}
}

func TestNvmeIdentity(t *testing.T) {
	b := newNvmeBench(t)
	expect(t, b.d, &b.regs, nvmeCAP, 8, 0x004018200f0107ff)
	expect(t, b.d, &b.regs, nvmeCAP, 4, 0x0f0107ff)
	expect(t, b.d, &b.regs, nvmeCAP+4, 4, 0x00401820)
	expect(t, b.d, &b.regs, nvmeVS, 4, 0x10400)
	b.store(nvmeASQ+4, 4, 0x12)
	b.store(nvmeASQ, 4, 0x3000)
	expect(t, b.d, &b.regs, nvmeASQ, 8, 0x12_0000_3000)
	expect(t, b.d, &b.regs, nvmeASQ+4, 4, 0x12)
	b.queues()
	data := b.memory[atData:]
	b.wants(nvmeOK, 0, sqe{0: adminIdentify, 6: uint32(b.bus + atData), 10: 1})
	if binary.LittleEndian.Uint16(data) != 0x1b36 || data[77] != 7 || data[512] != 0x66 ||
		data[513] != 0x44 {
		t.Errorf("identify controller: %x", data[:64])
	}
	b.wants(nvmeOK, 0, sqe{0: adminIdentify, 1: 1, 6: uint32(b.bus + atData)})
	if binary.LittleEndian.Uint64(data) != nvmeBlocks || data[26] != 0 || data[130] != 9 {
		t.Errorf("identify namespace: %x", data[:132])
	}
}

// Every way to name pages: one, two, a list, a list that goes on in another
// page, each from an offset on.
func TestNvmeTransfersPagesOfPRPLists(t *testing.T) {
	for _, blocks := range []uint32{1, 7, 8, 9, 16, 17, 64, 1024} {
		for _, offset := range []uint32{0, 4, 512, 4092} {
			b := newNvmeBench(t).queues()
			size := blocks * nvmeBlock
			for i := range size {
				b.memory[atData+offset+i] = byte(i*7 + i>>8)
			}
			want := string(b.memory[atData+offset:][:size])
			c := sqe{0: ioWrite, 1: 1, 6: uint32(b.bus) + atData + offset, 8: b.list(offset, size),
				10: 5, 12: blocks - 1}
			b.wants(nvmeOK, 1, c)
			if string(b.n.Disk()[5*nvmeBlock:][:size]) != want {
				t.Fatalf("%d blocks from offset %d: the disk has other data", blocks, offset)
			}
			clear(b.memory[atData:])
			c[0] = ioRead
			b.wants(nvmeOK, 1, c)
			if string(b.memory[atData+offset:][:size]) != want {
				t.Errorf("%d blocks from offset %d: other data were read", blocks, offset)
			}
		}
	}
}

// list returns PRP2 for a transfer at atData + offset. A list begins at the end
// of its page, so that it has to go on.
func (b *nvmeBench) list(offset, size uint32) uint32 {
	page := uint32(b.bus) + atData + pageSize
	if rest := int(size) - int(pageSize-offset); rest <= pageSize {
		return page
	}
	at, end := uint32(atList+pageSize-2*prpEntry), uint32(atData+offset+size)
	list := at
	for ; page < uint32(b.bus)+end; page += pageSize {
		if last := page+pageSize >= uint32(b.bus)+end; at%pageSize == pageSize-prpEntry && !last {
			storeLittleEndian(b.memory[at:], 8, b.bus+atList+2*pageSize)
			at = atList + 2*pageSize
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
		{"beyond the end", nvmeOutOfRange, 1, sqe{0: ioRead, 1: 1, 6: 1, 10: nvmeBlocks}},
		{"over the end", nvmeOutOfRange, 1, sqe{0: ioRead, 1: 1, 6: 1, 10: nvmeBlocks - 1, 12: 1}},
		{"far beyond the end", nvmeOutOfRange, 1,
			sqe{0: ioRead, 1: 1, 6: 1, 10: 0xffffffff, 11: 0xffffffff, 12: 1}},
		{"more than MDTS", nvmeInvalidField, 1, sqe{0: ioRead, 1: 1, 6: 1, 12: 1024}},
		{"protection information", nvmeInvalidField, 1, sqe{0: ioRead, 1: 1, 6: 1, 12: 1 << 26}},
		{"misaligned page", nvmeInvalidPRP, 1, sqe{0: ioRead, 1: 1, 6: 2}},
		{"no memory", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 0x1000}},
		{"no second page", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1000, 12: 15}},
		{"second page from its middle", nvmeInvalidPRP, 1,
			sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1200, 12: 15}},
		{"no list", nvmeTransferError, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1000, 12: 16}},
		{"misaligned list", nvmeInvalidPRP, 1, sqe{0: ioRead, 1: 1, 6: 1, 8: 0x1004, 12: 16}},
		{"queue 0", nvmeInvalidQueue, 0, sqe{0: adminCreateCQ, 6: 1, 10: 3 << 16, 11: 1}},
		{"a queue twice", nvmeInvalidQueue, 0, sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 1, 11: 1}},
		{"a queue too far", nvmeInvalidQueue, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | nvmeQueues, 11: 1<<16 | 1}},
		{"a queue of one", nvmeInvalidSize, 0, sqe{0: adminCreateCQ, 6: 1, 10: 2, 11: 1}},
		{"a queue too large", nvmeInvalidSize, 0,
			sqe{0: adminCreateCQ, 6: 1, 10: nvmeEntriesMax<<16 | 2, 11: 1}},
		{"a queue in pieces", nvmeInvalidField, 0, sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 2}},
		{"a queue across pages", nvmeInvalidPRP, 0,
			sqe{0: adminCreateCQ, 6: 0x1010, 10: 3<<16 | 2, 11: 1}},
		{"a queue nowhere", nvmeInvalidPRP, 0, sqe{0: adminCreateSQ, 10: 3<<16 | 2, 11: 1<<16 | 1}},
		{"another interrupt", nvmeInvalidVector, 0,
			sqe{0: adminCreateCQ, 6: 1, 10: 3<<16 | 2, 11: 1<<16 | 3}},
		{"submissions that complete nowhere", nvmeInvalidCQ, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | 2, 11: 2<<16 | 1}},
		{"submissions that complete with the admin's", nvmeInvalidQueue, 0,
			sqe{0: adminCreateSQ, 6: 1, 10: 3<<16 | 2, 11: 1}},
		{"deleting no queue", nvmeInvalidQueue, 0, sqe{0: adminDeleteSQ, 10: 2}},
		{"deleting the admin queue", nvmeInvalidQueue, 0, sqe{0: adminDeleteCQ}},
		{"deleting completions before submissions", nvmeInvalidDeletion, 0,
			sqe{0: adminDeleteCQ, 10: 1}},
		{"number of queues too late", nvmeSequenceError, 0,
			sqe{0: adminSetFeatures, 10: featureQueues}},
		{"another feature", nvmeInvalidField, 0, sqe{0: adminSetFeatures, 10: 1}},
	} {
		t.Run(m.name, func(t *testing.T) {
			b := newNvmeBench(t).queues()
			if m.c[6] == 1 { // good memory
				m.c[6] = uint32(b.bus + atData)
			}
			if _, got := b.run(m.queue, m.c); got != m.want {
				t.Errorf("%s: status %#x, want %#x", m.name, got, m.want)
			}
		})
	}
}

func TestNvmeQueuesKeepTheirOrder(t *testing.T) {
	b := newNvmeBench(t)
	b.enable(ccUsable | ccEN)
	if result, s := b.run(0, sqe{0: adminSetFeatures, 10: featureQueues}); s != nvmeOK ||
		result != 0x20002 {
		t.Errorf("number of queues: %#x, status %#x", result, s)
	}
	b = newNvmeBench(t).queues()
	for range 5 * benchEntries {
		b.wants(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	}
	b.wants(nvmeOK, 0, sqe{0: adminDeleteSQ, 10: 1})
	b.wants(nvmeOK, 0, sqe{0: adminDeleteCQ, 10: 1})
	refuse(t, b.d, &b.regs, nvmeDoorbell+8, 1,
		"this doorbell is for submission queue 1, which does not exist")
}

// refuse wants a 4-byte store refused for a reason.
func refuse(t *testing.T, d *Device, a *hal.Aperture, offset, value uint64, reason string) {
	t.Helper()
	if c := a.Store(uint32(offset), 4, value); c != hal.Refused ||
		!strings.Contains(d.Refusal(), reason) {
		t.Errorf("store of %#x at %#x: %v, %q, want %q", value, offset, c, d.Refusal(), reason)
	}
}

// Completions that are not consumed delay the next ones.
func TestNvmeWaitsForRoomInTheCompletionQueue(t *testing.T) {
	b := newNvmeBench(t).queues()
	for slot := range uint32(benchEntries - 1) {
		storeLittleEndian(b.memory[atSQ+slot*submission:], 8, 1<<32|uint64(slot)<<16|ioFlush)
		b.store(nvmeDoorbell+8, 4, uint64(slot+1))
		b.d.Sleep(nvmeWorkNs)
	}
	last := b.memory[atCQ+(benchEntries-1)*completion:][:completion]
	storeLittleEndian(b.memory[atSQ+(benchEntries-1)*submission:], 8, 1<<32|77<<16|ioFlush)
	b.store(nvmeDoorbell+8, 4, 0)
	b.d.Sleep(nvmeWorkNs)
	if loadLittleEndian(last[12:], 4) != 0 {
		t.Errorf("a fourth completion in a queue with room for three: %x", last)
	}
	b.store(nvmeDoorbell+12, 4, 1)
	b.d.Sleep(nvmeWorkNs)
	if loadLittleEndian(last[12:], 4) != phaseOfStatus|77 {
		t.Errorf("no completion although there is room: %x", last)
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
		{nvmeCC, ccUsable | 0x2 | ccEN, "reserved bits of CC"},
		{nvmeDoorbell + 8, benchEntries, "has 4 entries, so there is no entry 4"},
		{nvmeDoorbell + 8, 0, "the queue has 0 entries, and would have 0"},
		{nvmeDoorbell + 12, 1, "must consume at least 1, and at most the 0 in the queue"},
		{nvmeDoorbell + 16, 1, "queue 2, which does not exist"},
		{nvmeDoorbell + 8*nvmeQueues, 1, "queue 4, which does not exist"},
	} {
		t.Run(m.reason, func(t *testing.T) {
			b := newNvmeBench(t).queues()
			refuse(t, b.d, &b.regs, m.offset, m.value, m.reason)
		})
	}
	b := newNvmeBench(t)
	if _, c := b.regs.Load(nvmeDoorbell, 4); c != hal.Refused {
		t.Errorf("load of a doorbell: %v", c)
	}
	b = newNvmeBench(t)
	refuse(t, b.d, &b.regs, nvmeDoorbell, 1, "submission queue 0, which does not exist")
	b = newNvmeBench(t).queues()
	b.store(nvmeCC, 4, 0)
	refuse(t, b.d, &b.regs, nvmeCC, ccUsable|ccEN, "before CSTS.RDY is 0")
}

func TestNvmeFailsPermanentlyIfItsQueuesAreUnreachable(t *testing.T) {
	for name, spoil := range map[string]func(b *nvmeBench){
		"bus master off": func(b *nvmeBench) {
			b.d.config.Store(Place{Bar: ConfigSpace, Address: 4}, 2, 2)
			b.store(nvmeDoorbell, 4, 3)
		},
		"submissions nowhere": func(b *nvmeBench) {
			b.n.sq[0].bus = 0x1000
			b.store(nvmeDoorbell, 4,
				3)
		},
		"completions nowhere": func(b *nvmeBench) {
			b.n.cq[0].bus = 0x1000
			b.store(nvmeDoorbell, 4,
				3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNvmeBench(t).queues()
			spoil(b)
			if got := b.status(); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x", name, got)
			}
			b.store(nvmeDoorbell, 4, 0) // of no effect
			b.store(nvmeCC, 4, 0)
			if got := b.status(); got != 0 {
				t.Errorf("%s: CSTS is %#x after the reset", name, got)
			}
		})
	}
	for name, cc := range map[string]uint64{"entries of other sizes": 0x450000 | ccEN,
		"pages of 8 KiB": ccUsable | 1<<7 | ccEN, "another command set": ccUsable | 1<<4 | ccEN} {
		t.Run(name, func(t *testing.T) {
			if got := newNvmeBench(t).enable(cc); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x", name, got)
			}
		})
	}
	for name, set := range map[string]struct {
		aqa      uint64
		asq, acq uint64 // offsets in host memory
	}{
		"submissions of one entry":     {0x1_0000, atASQ, atACQ},
		"completions of one entry":     {0x1, atASQ, atACQ},
		"submissions across two pages": {0x1_0001, atASQ + 64, atACQ},
		"completions across two pages": {0x1_0001, atASQ, atACQ + 16},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNvmeBench(t)
			b.store(nvmeAQA, 4, set.aqa)
			b.store(nvmeASQ, 8, b.bus+set.asq)
			b.store(nvmeACQ, 8, b.bus+set.acq)
			b.store(nvmeCC, 4, ccUsable|ccEN)
			if got := b.status(); got != cstsCFS {
				t.Errorf("%s: CSTS is %#x", name, got)
			}
		})
	}
}

func TestNvmeShutsDown(t *testing.T) {
	b := newNvmeBench(t).queues()
	b.store(nvmeCC, 4, ccUsable|ccEN|1<<14)
	if got := b.status(); got != cstsRDY|cstsDone {
		t.Errorf("CSTS is %#x after the shutdown", got)
	}
	b.store(nvmeCC, 4, 0)
	if got := b.status(); got != 0 {
		t.Errorf("CSTS is %#x after the reset", got)
	}
	b.queues()
}

func TestConnectedDevicesReachEachOthersMemory(t *testing.T) {
	a, m, small := New(&boards.Nvme), New(&boards.Ivshmem), New(&boards.Ivshmem)
	small.ResizeBAR(2, 256)
	Connect(a, m, small)
	end := mapped(t, small, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 256}).BusAddress + 256
	memory := mapped(t, m, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Offset: 0x3000,
		Size: 0x2000})
	store(t, m, &memory, 8, 4, 0x12345678)
	got := a.host.Bytes(memory.BusAddress+8, 4)
	if len(got) != 4 || loadLittleEndian(got, 4) != 0x12345678 {
		t.Errorf("another device has %x there", got)
	}
	size := m.Identity().BarSizes[2]
	for _, c := range []struct{ bus, size uint64 }{
		{memory.BusAddress + 0xffc, 8}, {memory.BusAddress - 0x3000 - 1, 1},
		{memory.BusAddress - 0x3000 + size, 1},
		{bar(t, m, 0).BusAddress, 4}, {bar(t, a, 0).BusAddress, 4}, {end, 1}, {end - 4, 8},
	} {
		t.Run(fmt.Sprint(c.bus, " ", c.size), func(t *testing.T) {
			if a.host.Bytes(c.bus, c.size) != nil {
				t.Errorf("%d bytes at %#x are reached", c.size, c.bus)
			}
		})
	}
	if a.host.Bytes(end-4, 4) == nil {
		t.Error("the end of a small BAR is not reached")
	}
	a.Sleep(1000)
	if m.Now() != a.Now() {
		t.Errorf("one clock says %d, the other %d", a.Now(), m.Now())
	}
	m.Inject(Fault{Kind: AllOnes, Operation: m.Operations() + 1})
	load(t, m, &memory, 0, 4)
	if a.host.Bytes(memory.BusAddress, 4) != nil {
		t.Error("memory of a device that is gone is reached")
	}
}

// TestNvmeInterruptsForCompletions of queues that want it, unless it is masked.
func TestNvmeInterruptsForCompletions(t *testing.T) {
	b, count := newNvmeBench(t), 0
	b.d.SetInterruptHandler(func() { count++ })
	told := func(name string, want int) {
		t.Helper()
		if count != want {
			t.Errorf("%s: %d interrupts, want %d", name, count, want)
		}
		count = 0
	}
	b.queues()
	told("two commands of the admin queue", 2)
	b.wants(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	told("a queue without", 0)
	b.wants(nvmeOK, 0, sqe{0: adminDeleteSQ, 10: 1})
	b.wants(nvmeOK, 0, sqe{0: adminDeleteCQ, 10: 1})
	b.wants(nvmeInvalidField, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + atCQ),
		10: (benchEntries-1)<<16 | 1, 11: 5})
	clear(b.memory[atCQ:atList])
	b.tails[1] = 0
	b.wants(nvmeOK, 0, sqe{0: adminCreateCQ, 6: uint32(b.bus + atCQ), 10: (benchEntries-1)<<16 | 1,
		11: 3})
	b.wants(nvmeOK, 0, sqe{0: adminCreateSQ, 6: uint32(b.bus + atSQ), 10: (benchEntries-1)<<16 | 1,
		11: 1<<16 | 1})
	count = 0
	b.wants(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	told("a queue with", 1)
	b.store(nvmeINTMS, 4, 1)
	expect(t, b.d, &b.regs, nvmeINTMC, 4, 1)
	b.wants(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	told("masked", 0)
	b.store(nvmeINTMC, 4, 1)
	expect(t, b.d, &b.regs, nvmeINTMS, 4, 0)
	b.wants(nvmeOK, 1, sqe{0: ioFlush, 1: 1})
	told("not masked", 1)
}

// TestNvmeAcceptsAllCommandSets, of which NVM is the only one: what Linux asks
// where CAP.CSS has it.
func TestNvmeAcceptsAllCommandSets(t *testing.T) {
	b := newNvmeBench(t)
	if got := b.enable(ccUsable | ccAllSets | ccEN); got != cstsRDY {
		t.Fatalf("CSTS is %#x after enabling", got)
	}
	data, page := b.memory[atData:], uint32(b.bus+atData)
	b.wants(nvmeOK, 0, sqe{0: adminIdentify, 1: 1, 6: page, 10: cnsDescriptors})
	if data[0] != descriptorCSI || data[1] != 1 || data[4] != commandSetNVM {
		t.Errorf("descriptors: % x", data[:8])
	}
	b.wants(nvmeInvalidNamespace, 0, sqe{0: adminIdentify, 1: 2, 6: page, 10: cnsDescriptors})
	for after, want := range []byte{1, 0} {
		b.wants(nvmeOK, 0, sqe{0: adminIdentify, 1: uint32(after), 6: page, 10: cnsList})
		if data[0] != want {
			t.Errorf("the namespace after %d is %d", after, data[0])
		}
	}
	b.wants(nvmeOK, 0, sqe{0: adminIdentify, 6: page, 10: cnsCommandSet})
	b.wants(nvmeInvalidField, 0, sqe{0: adminIdentify, 6: page, 10: cnsCommandSet, 11: 2 << 24})
}
