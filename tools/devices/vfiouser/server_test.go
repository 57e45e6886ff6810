package vfiouser

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// A device that lacked one of these methods, or had it by another name, would be served without
// DMA or interrupts.
var (
	_ BusMaster   = (*mock.Device)(nil)
	_ Interrupter = (*mock.Device)(nil)
)

func TestConfigurationSpaceDescribesTheDevice(t *testing.T) {
	for _, b := range boards.All {
		t.Run(b.Name, func(t *testing.T) {
			c, _ := startServer(t, mockOpener(b), nil)
			if got := c.load(configRegion, 0, 4); got != uint64(b.Device)<<16|uint64(b.Vendor) {
				t.Errorf("PCI ids %#x, want %04x:%04x", got, b.Vendor, b.Device)
			}
			// tt-umd accepts only revision 1 (B0) of Wormhole (pci_device.cpp).
			if got, want := c.load(configRegion, regClass, 1),
				map[string]uint64{"wormhole": 1, "nvme": 2, "edu": 0x10}[b.Name]; got != want {
				t.Errorf("revision %#x, want %#x", got, want)
			}
			for bar, size := range b.BarSizes {
				info := c.sendOK(cmdRegionInfo, words(32, 0, uint32(bar), 0, 0, 0, 0, 0))
				if got := binary.LittleEndian.Uint64(info[16:]); got != size {
					t.Errorf("BAR %d has %#x bytes, want %#x", bar, got, size)
				}
				if size == 0 {
					continue
				}
				c.store(configRegion, uint64(regBar+4*bar), 4, 0xffffffff)
				low := c.load(configRegion, uint64(regBar+4*bar), 4)
				want := -size & 0xfffffff0
				if got := low &^ 0xf; got != want&0xffffffff {
					t.Errorf("BAR %d reads back %#x after a store of all ones, want %#x", bar, got,
						want)
				}
				if size > 1<<31 && low&barMemory64 == 0 {
					t.Errorf("BAR %d of %#x bytes is a 32-bit BAR", bar, size)
				}
			}
			capability := c.load(configRegion, regCapability, 1)
			for n := 0; capability != 0; n++ {
				if n == 48 || capability < 0x40 {
					t.Fatalf("the list of capabilities does not end, or has the offset %#x",
						capability)
				}
				capability = c.load(configRegion, capability+1, 1)
			}
		})
	}
}

// suspendedDevice is a device whose first Sleep takes a minute of the clock, as if the process was
// suspended.
type suspendedDevice struct {
	hal.Device
	now        time.Time
	deviceTime time.Duration
}

func (s *suspendedDevice) Sleep(nanoseconds int64) {
	if s.deviceTime == 0 {
		s.now = s.now.Add(time.Minute)
	}
	s.deviceTime += time.Duration(nanoseconds)
}

// TestDeviceTimePassesAfterTheProcessWasSuspended requires that time passes for the device again
// after a minute in which the process was suspended.
func TestDeviceTimePassesAfterTheProcessWasSuspended(t *testing.T) {
	start := time.Unix(0, 0)
	s := &suspendedDevice{now: start}
	f := &Function{device: s, last: start, ended: start, now: func() time.Time { return s.now }}
	for range 2 {
		s.now = s.now.Add(creditMax)
		f.pass()
	}
	before := s.deviceTime
	s.now = s.now.Add(creditMax)
	f.pass()
	if s.deviceTime == before || before == 0 {
		t.Errorf("the device's time advanced by %v and then by %v, want more than 0", before,
			s.deviceTime-before)
	}
}

func TestAccessesKeepTheirOrderWidthsAndValues(t *testing.T) {
	var trace bytes.Buffer
	c, f := startServer(t, mockOpener(&boards.Ivshmem), &trace)
	c.store(2, 0x100, 8, 0x1122334455667788)
	c.store(2, 0x100, 1, 0xaa)
	c.store(2, 0x106, 2, 0xbbcc)
	if got := c.load(2, 0x100, 4); got != 0x556677aa {
		t.Errorf("load of 4 bytes: %#x, want 0x556677aa", got)
	}
	if got := c.load(2, 0x100, 8); got != 0xbbcc3344556677aa {
		t.Errorf("load of 8 bytes: %#x, want 0xbbcc3344556677aa", got)
	}
	capture := finishRecording(t, c, f, &trace)
	want := []struct {
		kind   record.Kind
		offset uint64
		data   string
	}{
		{record.BarWrite, 0x100, "\x88\x77\x66\x55\x44\x33\x22\x11"},
		{record.BarWrite, 0x100, "\xaa"}, {record.BarWrite, 0x106, "\xcc\xbb"},
		{record.BarRead, 0x100, "\xaa\x77\x66\x55"},
		{record.BarRead, 0x100, "\xaa\x77\x66\x55\x44\x33\xcc\xbb"},
	}
	capture.Records = slices.DeleteFunc(capture.Records,
		func(r record.Record) bool { return r.Kind == record.Clock })
	for i, w := range want {
		if r := capture.Records[i]; r.Kind != w.kind || r.Bar != 2 || r.Offset != w.offset ||
			string(r.Data) != w.data {
			t.Errorf("record %d: %+v, want %+v", i, r, w)
		}
	}
	if len(capture.Records) != len(want) {
		t.Errorf("%d records, want %d", len(capture.Records), len(want))
	}
}

func TestRefusedAccessReadsAllOnesAndIsCounted(t *testing.T) {
	c, f := startServer(t, mockOpener(&boards.Edu), nil)
	if got := c.load(0, 0x4, 4); got != 0xffffffff { // the inverse of the register's value, 0
		t.Fatalf("liveness register %#x, want 0xffffffff", got)
	}
	if f.Refused() != 0 {
		t.Fatalf("%d valid accesses were refused", f.Refused())
	}
	if got := c.load(0, 0x8, 2); got != 0xffff {
		t.Errorf("a refused load of 2 bytes returns %#x, want 0xffff", got)
	}
	c.store(0, 0x9, 4, 1)
	if f.Refused() != 2 || !strings.Contains(c.log.String(), "store of 4 bytes at BAR 0 + 0x9") {
		t.Errorf("%d accesses refused, want 2; the server's log: %s", f.Refused(), c.log)
	}
}

// eduDMA makes edu copy count bytes of client memory into its buffer, and from there to another
// address of client memory.
func eduDMA(c *client, from, to, count uint64) {
	for _, r := range [][2]uint64{{from, 0x40000}, {0x40000, to}} {
		c.store(0, 0x80, 8, r[0])
		c.store(0, 0x88, 8, r[1])
		c.store(0, 0x90, 8, count)
		command := uint64(1)
		if r[0] == 0x40000 {
			command = 3
		}
		c.store(0, 0x98, 8, command)
		for i := 0; c.load(0, 0x98, 8)&1 != 0; i++ {
			if i == 1000 {
				c.t.Fatal("the transfer does not end")
			}
		}
	}
}

func TestDeviceAccessesClientMemoryOnlyWhileItIsAllowed(t *testing.T) {
	c, f := startServer(t, mockOpener(&boards.Edu), nil)
	fd, data := createMemfd(t, 3*4096)
	copy(data[4096:], "from client to device to client")
	c.sendOK(cmdDMAMap, dmaMapBody(dmaRead|dmaWrite, 4096, 0x100000, 8192), fd)
	eduDMA(c, 0x100000, 0x101000, 31)
	if f.Refused() == 0 || data[8192] != 0 {
		t.Fatal("the device accessed memory without being bus master, or this was not counted")
	}
	c.store(configRegion, regCommand, 2, 6)
	eduDMA(c, 0x100000, 0x101000, 31)
	if got := string(data[8192:][:31]); got != "from client to device to client" {
		t.Fatalf("memory has %q after the transfers; the server's log: %s", got, c.log)
	}
	before := f.Refused()
	c.sendOK(cmdDMAUnmap, dmaUnmapBody(0, 0x100000, 8192))
	data[8192] = 'x'
	eduDMA(c, 0x100000, 0x101000, 31)
	if data[8192] != 'x' || f.Refused() == before {
		t.Error("the device accessed memory after it was unmapped, or the access was not counted")
	}
}

// TestAccessSpansAdjacentMappings maps client memory a page at a time, in another order than it
// has in its file, as a virtual IOMMU does. The device must read and write across the ends of
// mappings. If one page of a transfer is not mapped, it must move no bytes of the other pages
// either.
func TestAccessSpansAdjacentMappings(t *testing.T) {
	const page, base = 4096, 0x100000
	const count = 4080 // edu moves less than a page at once
	c, f := startServer(t, mockOpener(&boards.Edu), nil)
	c.store(configRegion, regCommand, 2, 6)
	fd, data := createMemfd(t, 8*page)
	// The numbers of pages in the file, by I/O address. The fourth I/O page is not mapped.
	filePages := []uint64{5, 2, 7, 0}
	at := func(address uint64) *byte {
		n := (address - base) / page
		if n > 3 {
			n--
		}
		return &data[filePages[n]*page+address%page]
	}
	for _, i := range []int{2, 0, 1} { // not in order of address
		c.sendOK(cmdDMAMap, dmaMapBody(dmaRead|dmaWrite, filePages[i]*page, base+uint64(i)*page,
			page), fd)
	}
	c.sendOK(cmdDMAMap, dmaMapBody(dmaRead|dmaWrite, filePages[3]*page, base+4*page, page), fd)
	for i := range uint64(count) {
		*at(base + 100 + i) = byte(i%251 + 1)
	}
	eduDMA(c, base+100, base+page+1000, count)
	for i := range uint64(count) {
		if got := *at(base + page + 1000 + i); got != byte(i%251+1) || f.Refused() != 0 {
			t.Fatalf("byte %d is %d, want %d; %d accesses refused, want 0; the server's log: %s",
				i, got, i%251+1, f.Refused(), c.log)
		}
	}

	before := bytes.Clone(data)
	for _, to := range []uint64{base + 2*page + 100, base + 3*page + 1, base - 1,
		base + 4*page + 100} {
		refused := f.Refused()
		eduDMA(c, base, to, count)
		if !bytes.Equal(data, before) || f.Refused() == refused {
			t.Errorf("to %#x: bytes were moved, or nothing was refused", to)
		}
	}

	c.sendOK(cmdDMAUnmap, dmaUnmapBody(0, base+page, page))
	refused := f.Refused()
	eduDMA(c, base, base+page-8, 16)
	if !bytes.Equal(data, before) || f.Refused() == refused {
		t.Error("a transfer to an unmapped page moved bytes, or was not refused")
	}
	c.sendOK(cmdDMAMap, dmaMapBody(dmaRead|dmaWrite, 6*page, base+page, page), fd)
	data[5*page] = 'x'
	eduDMA(c, base, base+page-1, 2)
	if data[6*page-1] != 'x' || data[6*page] != data[5*page+1] {
		t.Errorf("the device does not write across the end of a mapping to a new page; "+
			"the server's log: %s", c.log)
	}
}

func TestInvalidDMAMappingIsRejected(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	fd, _ := createMemfd(t, 8192)
	for _, bad := range []struct {
		name string
		body []byte
		fds  []int
		want unix.Errno
	}{
		{"no bytes", dmaMapBody(3, 0, 0, 0), []int{fd}, unix.EINVAL},
		{"around the end", dmaMapBody(3, 0, ^uint64(0)-100, 4096), []int{fd}, unix.EINVAL},
		{"beyond the file", dmaMapBody(3, 4096, 0, 8192), []int{fd}, unix.EINVAL},
		{"far beyond the file", dmaMapBody(3, 1<<62, 0, 4096), []int{fd}, unix.EINVAL},
		{"two descriptors", dmaMapBody(3, 0, 0, 4096), []int{fd, fd}, unix.EINVAL},
		{"truncated body", dmaMapBody(3, 0, 0, 4096)[:31], []int{fd}, unix.EINVAL},
	} {
		before := countDescriptors(t, fd)
		if _, number := c.send(cmdDMAMap, bad.body, bad.fds...); number != bad.want {
			t.Errorf("%s: error %v, want %v", bad.name, number, bad.want)
		}
		if now := countDescriptors(t, fd); now != before {
			t.Errorf("%s: %d descriptors open, %d before", bad.name, now, before)
		}
	}
	c.sendOK(cmdDMAMap, dmaMapBody(3, 0, 0x1000, 4096), fd)
	if _, number := c.send(cmdDMAMap, dmaMapBody(3, 0, 0x1fff, 4096), fd); number != unix.EEXIST {
		t.Errorf("overlapping memory: error %v, want %v", number, unix.EEXIST)
	}
	c.sendOK(cmdDMAUnmap, dmaUnmapBody(unmapAll, 0, 0))
	c.sendOK(cmdDMAMap, dmaMapBody(3, 0, 0x1fff, 4096), fd)
}

func TestShrunkMemoryFailsOnlyTheTransfer(t *testing.T) {
	c, f := startServer(t, mockOpener(&boards.Edu), nil)
	fd, _ := createMemfd(t, 8192)
	c.sendOK(cmdDMAMap, dmaMapBody(3, 0, 0x100000, 8192), fd)
	c.store(configRegion, regCommand, 2, 6)
	if err := unix.Ftruncate(fd, 0); err != nil {
		t.Fatal(err)
	}
	c.store(0, 0x80, 8, 0x100000)
	c.store(0, 0x88, 8, 0x40000)
	c.store(0, 0x90, 8, 31)
	c.store(0, 0x98, 8, 1)
	for range 8 { // the transfer takes place during one of the loads, or between two
		c.load(0, 0x98, 8)
	}
	if f.Refused() == 0 || !strings.Contains(c.log.String(), hal.BusFault.Error()) {
		t.Errorf("%d accesses refused, want at least 1; the server's log: %s", f.Refused(), c.log)
	}
}

func TestResetRestoresInitialState(t *testing.T) {
	for name, reset := range map[string]func(*client){
		"by request": func(c *client) { c.sendOK(cmdDeviceReset, nil) },
		"at the function's level": func(c *client) {
			c.store(configRegion, expressControl, 2, controlReset)
		},
	} {
		c, _ := startServer(t, mockOpener(&boards.Edu), nil)
		c.store(configRegion, regCommand, 2, 6)
		c.store(0, 4, 4, 0x12345678)
		reset(c)
		if got := c.load(0, 4, 4); got != 0xffffffff {
			t.Errorf("%s: liveness register %#x, want 0xffffffff", name, got)
		}
		if got := c.load(configRegion, regCommand, 2); got != 0 {
			t.Errorf("%s: command register %#x, want 0", name, got)
		}
	}
}

// TestDeviceIsGoneIfItDoesNotOpenAfterAReset makes two resets fail. A third reset must make the
// device present again.
func TestDeviceIsGoneIfItDoesNotOpenAfterAReset(t *testing.T) {
	opens := 0
	c, f := startServer(t, func() (hal.Device, error) {
		if opens++; opens == 2 || opens == 3 {
			return nil, unix.ENOENT
		}
		return mockOpener(&boards.Edu)()
	}, nil)
	for range 2 {
		if _, number := c.send(cmdDeviceReset, nil); number == 0 {
			t.Error("a failed reset is answered without an error")
		}
		c.store(0, 4, 4, 1)
		if bar, config := c.load(0, 0, 4), c.load(configRegion, 0, 4); bar != 0xffffffff ||
			config != 0xffffffff {
			t.Errorf("BAR 0 reads %#x, configuration space %#x, want 0xffffffff", bar, config)
		}
	}
	if f.Refused() != 4 || !strings.Contains(c.log.String(), "did not start again after its "+
		"reset") {
		t.Errorf("%d accesses refused, want 4; the server's log: %s", f.Refused(), c.log)
	}
	c.sendOK(cmdDeviceReset, nil)
	if got := c.load(0, 0, 4); got != 0x010000ed {
		t.Errorf("after a successful reset, BAR 0 reads %#x, want 0x010000ed", got)
	}
	if err := errors.Join(c.disconnect(), f.Close()); err != nil {
		t.Error(err)
	}
}

func TestInjectedFaultReadsAllOnes(t *testing.T) {
	fault := mock.Fault{Kind: mock.AllOnes, Operation: 3}
	c, _ := startServer(t, mockOpener(&boards.Edu, fault), nil)
	for i, want := range []uint64{0x010000ed, 0x010000ed, 0xffffffff} {
		if got := c.load(0, 0, 4); got != want {
			t.Errorf("access %d returns %#x, want %#x: the fault starts at the third access", i+1,
				got, want)
		}
	}
	if got := c.load(configRegion, 0, 4); got != 0xffffffff {
		t.Errorf("the ids of a device that is gone: %#x, want 0xffffffff", got)
	}
}

// TestInvalidRequestIsAnsweredWithAnError sends requests that must fail with an error number and
// must not end the connection.
func TestInvalidRequestIsAnsweredWithAnError(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	for _, bad := range []struct {
		name    string
		command uint16
		body    []byte
		want    unix.Errno
	}{
		{"unknown", 99, nil, unix.ENOTSUP},
		{"zero", 0, nil, unix.ENOTSUP},
		{"region descriptors", cmdRegionFDs, make([]byte, 32), unix.ENOTSUP},
		{"other version", cmdVersion, words(7), unix.EINVAL},
		{"truncated body", cmdRegionRead, regionAccessBody(0, 0, 4)[:15], unix.EINVAL},
		{"no such region", cmdRegionRead, regionAccessBody(9, 0, 4), unix.EINVAL},
		{"a BAR that is not there", cmdRegionRead, regionAccessBody(1, 0, 4), unix.EINVAL},
		{"the ROM", cmdRegionRead, regionAccessBody(6, 0, 4), unix.EINVAL},
		{"across the end", cmdRegionRead, regionAccessBody(0, 1<<20-2, 4), unix.EINVAL},
		{"far after the end", cmdRegionRead, regionAccessBody(0, ^uint64(0), 4), unix.EINVAL},
		{"no bytes", cmdRegionRead, regionAccessBody(0, 0, 0), unix.EINVAL},
		{"three bytes", cmdRegionRead, regionAccessBody(0, 0, 3), unix.EINVAL},
		{"sixteen bytes", cmdRegionRead, regionAccessBody(0, 0, 16), unix.EINVAL},
		{"too many bytes of configuration space", cmdRegionRead,
			regionAccessBody(configRegion, 4000, 97), unix.EINVAL},
		{"less data than announced", cmdRegionWrite,
			append(regionAccessBody(0, 0, 8), 1, 2, 3, 4),
			unix.EINVAL},
		{"information on an unknown region", cmdRegionInfo, words(32, 0, 9, 0, 0, 0, 0, 0),
			unix.EINVAL},
		{"interrupts", cmdSetIRQs, words(20, 0, 1, 0, 1), unix.EINVAL},
	} {
		if _, number := c.send(bad.command, bad.body); number != bad.want {
			t.Errorf("%s: error %v, want %v", bad.name, number, bad.want)
		}
	}
	if got := c.load(0, 0, 4); got != 0x010000ed {
		t.Errorf("BAR 0 reads %#x after the invalid requests, want 0x010000ed", got)
	}
}

// TestMalformedMessageEndsTheConnection sends bytes after which the server must end with
// errProtocol.
func TestMalformedMessageEndsTheConnection(t *testing.T) {
	header := func(size, flags uint32) []byte {
		return append([]byte{1, 0, cmdRegionRead, 0}, words(size, flags, 0)...)
	}
	for name, bytes := range map[string][]byte{
		"shorter than its header": header(15, 0),
		"larger than the limit":   header(messageMax+1, 0),
		"largest size of all":     header(^uint32(0), 0),
		"reply":                   header(16, flagReply),
		"ends inside its header":  {1, 0, 9},
		"ends after its header":   header(100, 0),
		"ends inside its body":    append(header(100, 0), 1, 2, 3),
	} {
		c, _ := startServer(t, mockOpener(&boards.Edu), nil)
		if _, err := c.conn.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if err := c.disconnect(); !errors.Is(err, errProtocol) {
			t.Errorf("%s: the server's error %v, want %v", name, err, errProtocol)
		}
	}
}

func TestUnneededDescriptorsAreClosed(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	fd, _ := createMemfd(t, 4096)
	before := countDescriptors(t, fd)
	c.sendOK(cmdRegionRead, regionAccessBody(0, 0, 4), fd, fd, fd)
	if now := countDescriptors(t, fd); now != before {
		t.Errorf("%d descriptors open, want %d as before", now, before)
	}
	many := make([]int, descriptorsMax+1)
	for i := range many {
		many[i] = fd
	}
	request := append([]byte{1, 0, cmdVersion, 0}, words(16, 0, 0)...)
	if _, _, err := c.conn.WriteMsgUnix(request, unix.UnixRights(many...), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-c.end; !errors.Is(err, errProtocol) {
		t.Errorf("too many descriptors: the server's error %v, want %v", err, errProtocol)
	}
	c.conn.Close()
	if now := countDescriptors(t, fd); now != before {
		t.Errorf("%d descriptors open, want %d as before", now, before)
	}
}

func TestSecondClientIsRejected(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	second := dialServer(t, c.conn.RemoteAddr().String())
	if n, err := second.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the second client read %d bytes, error %v; want a closed connection", n, err)
	}
	if c.load(0, 0, 4) != 0x010000ed {
		t.Error("the first client gets no answers any more")
	}
	if err := c.disconnect(); err != nil {
		t.Error(err)
	}
}

func TestStoppedServerEndsWithoutAnError(t *testing.T) {
	f, err := New(mockOpener(&boards.Edu), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, connect := range []bool{false, true} {
		l, err := Listen(socketPath(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		end := make(chan error)
		go func() { end <- Serve(ctx, l, f) }()
		if connect {
			c := &client{t: t, conn: dialServer(t, l.Addr().String()), log: &serverLog{}}
			c.sendOK(cmdVersion, append(words(0), "{}\x00"...))
		}
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}

// TestServerLogsHowItsClientDisconnected requires that the message has the number of accesses to
// BARs, and the request whose answer the client did not wait for.
func TestServerLogsHowItsClientDisconnected(t *testing.T) {
	for want, unanswered := range map[string]struct {
		command uint16
		body    []byte
	}{
		"the client disconnected after 2 accesses to BARs": {},
		"the client disconnected after 3 accesses to BARs, before it received the answer " +
			"to its last request (load of 4 bytes at BAR 0 + 0x8), which took ": {
			cmdRegionRead, regionAccessBody(0, 8, 4)},
		"the client disconnected after 3 accesses to BARs, before it received the answer " +
			"to its last request (store of 4 bytes at BAR 0 + 0x20), which took ": {
			cmdRegionWrite, append(regionAccessBody(0, 0x20, 4), 0, 0, 0, 0)},
		"the client disconnected after 2 accesses to BARs, before it received the answer " +
			"to its last request (load of 1 bytes at configuration space + 0x34), which took ": {
			cmdRegionRead, regionAccessBody(configRegion, regCapability, 1)},
		"the client disconnected after 2 accesses to BARs, before it received the answer " +
			"to its last request (command 13), which took ": {cmdDeviceReset, nil},
	} {
		t.Run(want, func(t *testing.T) {
			c, _ := startServer(t, mockOpener(&boards.Edu), nil)
			c.store(0, 4, 4, 1)
			c.load(0, 4, 4)
			c.load(configRegion, 0, 4)
			if unanswered.command != 0 {
				request := binary.LittleEndian.AppendUint16([]byte{9, 0}, unanswered.command)
				request = append(request, words(uint32(headerSize+len(unanswered.body)), 0, 0)...)
				if _, err := c.conn.Write(append(request, unanswered.body...)); err != nil {
					t.Fatal(err)
				}
			}
			err := c.disconnect()
			log := c.log.String()
			if err != nil || !strings.HasPrefix(log, want) ||
				unanswered.command == 0 && log != want {
				t.Errorf("error %v; the server's log is %q, want %q", err, log, want)
			}
		})
	}
}

func TestListenReplacesOnlyASocketWithoutAServer(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("socket of a server that listens: error %v, want \"another server\"", err)
	}
	first.SetUnlinkOnClose(false)
	first.Close()
	second, err := Listen(path)
	if err != nil {
		t.Fatalf("socket of a server that ended: %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("path of a file: error %v, want \"not a socket\"", err)
	}
	var code hal.Code
	if _, err := Listen("/" + strings.Repeat("x", socketPathMax)); !errors.As(err, &code) ||
		code != hal.Usage {
		t.Errorf("path too long: error %v, want code %v", err, hal.Usage)
	}
	if _, err := Listen("/no/such/folder/s"); !errors.As(err, &code) || code != hal.NoFile ||
		!strings.Contains(err.Error(), "mkdir -p /no/such/folder") {
		t.Errorf("missing directory: error %v, want code %v with a command that makes it", err,
			hal.NoFile)
	}
}

// FuzzServer sends bytes to a server. The server must end with an error.
func FuzzServer(f *testing.F) {
	version := append([]byte{1, 0, cmdVersion, 0},
		append(words(16+7, 0, 0), "\x00\x00\x00\x00{}\x00"...)...)
	f.Add(version)
	f.Add(append(version, append([]byte{2, 0, cmdRegionRead, 0},
		append(words(32, 0, 0), regionAccessBody(0, 0, 4)...)...)...))
	f.Add(append(version, append([]byte{2, 0, cmdRegionWrite, 0},
		append(words(36, flagNoReply, 0), append(regionAccessBody(0, 4, 4), 1, 2, 3, 4)...)...)...))
	f.Add(append([]byte{2, 0, cmdDMAMap, 0},
		append(words(48, 0, 0), dmaMapBody(3, 0, 0, 4096)...)...))
	f.Add(append([]byte{2, 0, cmdDMAUnmap, 0},
		append(words(40, 0, 0), dmaUnmapBody(unmapAll, 0, 0)...)...))
	f.Add(append([]byte{2, 0, cmdDeviceReset, 0}, words(16, 0, 0)...))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		function, err := New(mockOpener(&boards.Edu), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer function.Close()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := unixConn(t, pair[0]), unixConn(t, pair[1])
		defer theirs.Close()
		go func() { // in parallel to the reader of answers, so that the two sides cannot deadlock
			_, _ = ours.Write(bytes)
			_ = ours.CloseWrite()
		}()
		go func() {
			defer ours.Close()
			_, _ = io.Copy(io.Discard, ours)
		}()
		if _, err := function.serve(theirs); err == nil {
			t.Error("the server ended without an error")
		}
	})
}

// unixConn returns the connection of a socket's descriptor.
func unixConn(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// finishRecording disconnects the client, closes the device, and returns the recording.
func finishRecording(t *testing.T, c *client, f *Function, trace *bytes.Buffer) *record.Capture {
	t.Helper()
	if err := errors.Join(c.disconnect(), f.Close()); err != nil {
		t.Fatal(err)
	}
	capture, err := record.Read(trace)
	if err != nil {
		t.Fatal(err)
	}
	return capture
}
