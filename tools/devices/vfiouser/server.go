package vfiouser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// tick is how often the device lives on while the client is silent: one that
// masters the bus works without being accessed.
const tick = time.Millisecond

// socketPathMax is the length of a path that struct sockaddr_un holds.
const socketPathMax = 107

// Listen makes the socket. A socket that nobody listens on any more is taken
// over; every other file is left alone.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > socketPathMax {
		return nil, &hal.Fault{Code: hal.Usage,
			Reason: fmt.Sprintf("%s: the path of a socket may have at most %d bytes; use a "+
				"shorter directory, such as /tmp", path,
				socketPathMax)}
	}
	address := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", address)
	if folder := filepath.Dir(path); errors.Is(err, syscall.ENOENT) {
		return nil, &hal.Fault{Code: hal.NoFile,
			Reason: "there is no directory " + folder + " for a socket; mkdir -p " + folder +
				" makes it"}
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if info, e := os.Lstat(path); e != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, &hal.Fault{Code: hal.IO, Reason: path + ": the file is not a socket"}
	}
	if c, e := net.DialUnix("unix", nil, address); e == nil {
		c.Close()
		return nil, &hal.Fault{Code: hal.IO, Reason: path + ": another server uses this " +
			"socket"}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", address)
}

// Serve waits for one client and serves it until it leaves or ctx ends. While
// it does, others are turned away. The error is nil where the client left in
// order. A device that hangs until a new client comes is served to the next
// client, too, if that comes in time.
func Serve(ctx context.Context, l *net.UnixListener, f *Function) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	isServedAgain := f.wedge.Until == newClient
	client, err := l.AcceptUnix()
	if err == nil && !isServedAgain {
		go turnAway(l, f.options.Log)
	}
	for err == nil {
		if err = f.serveClient(ctx, client); err != nil || !isServedAgain {
			return err
		}
		if err = f.forgetClient(); err != nil {
			return err
		}
		if err = l.SetDeadline(time.Now().Add(f.wedge.Reconnect)); err == nil {
			client, err = l.AcceptUnix()
		}
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// serveClient serves a client until it leaves or ctx ends.
func (f *Function) serveClient(ctx context.Context, c *net.UnixConn) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	err := f.serve(c)
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// forgetClient makes the function what it was before its first client came.
func (f *Function) forgetClient() error {
	f.memory.clear()
	f.irq.close()
	f.wedge.accesses = 0
	return f.reset()
}

// turnAway closes what connects, until the listener is closed.
func turnAway(l *net.UnixListener, log func(string, ...any)) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		log("a second client was rejected: the server has one client at a time")
		c.Close()
	}
}

// serve answers requests until reading one fails.
func (f *Function) serve(c *net.UnixConn) error {
	for {
		if err := f.await(c); err != nil {
			return err
		}
		m, err := readMessage(c)
		if err != nil {
			return err
		}
		body, number := f.handle(&m)
		if err := m.reply(c, body, number); err != nil {
			return err
		}
	}
}

// await returns when a request is there, or the client has left. Meanwhile the
// device's time goes by.
func (f *Function) await(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	for ready := false; !ready; {
		if err := raw.Read(func(fd uintptr) bool {
			n, e := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
				int(tick/time.Millisecond))
			ready = n > 0 || e != nil && e != unix.EINTR
			return true
		}); err != nil {
			return err
		}
		if !ready && f.config.master() && !f.wedge.isHanging() {
			if _, code := f.access(func() (uint64, hal.Code) { return 0, hal.OK }); code != hal.OK {
				f.refused.Add(1)
				f.options.Log("the device failed between accesses: %v", code)
			}
		}
	}
	return nil
}

// handle carries out a request, and closes those of its descriptors that nothing
// has taken. What it does not know or cannot do is answered with an error number.
func (f *Function) handle(m *message) ([]byte, unix.Errno) {
	defer func() { closeAll(m.fds) }()
	do := handlers[m.command]
	if do.run == nil {
		f.options.Log("request %d is not known", m.command)
		return nil, unix.ENOTSUP
	}
	if len(m.body) < do.least {
		f.options.Log("request %d has %d bytes, not %d", m.command, len(m.body), do.least)
		return nil, unix.EINVAL
	}
	body, err := do.run(f, m)
	if err != nil {
		f.options.Log("request %d: %v", m.command, err)
		number := unix.EIO
		errors.As(err, &number)
		return nil, number
	}
	return body, 0
}

// handlers by command, with the bytes that a request has at least.
var handlers = map[uint16]struct {
	least int
	run   func(f *Function, m *message) ([]byte, error)
}{
	cmdVersion:     {4, (*Function).version},
	cmdDMAMap:      {dmaMapSize, (*Function).dmaMap},
	cmdDMAUnmap:    {dmaUnmapMin, (*Function).dmaUnmap},
	cmdDeviceInfo:  {16, (*Function).deviceInfo},
	cmdRegionInfo:  {32, (*Function).regionInfo},
	cmdIRQInfo:     {16, (*Function).irqInfo},
	cmdSetIRQs:     {irqSetSize, (*Function).setIRQs},
	cmdRegionRead:  {regionAccessSize, (*Function).regionRead},
	cmdRegionWrite: {regionAccessSize, (*Function).regionWrite},
	cmdDeviceReset: {0, (*Function).deviceReset},
}

// version answers 0.0, the one that QEMU's client takes.
func (f *Function) version(m *message) ([]byte, error) {
	if major := binary.LittleEndian.Uint16(m.body); major != 0 {
		return nil, fmt.Errorf("%w: the client has protocol version %d; this server has version "+
			"0", unix.EINVAL, major)
	}
	text := fmt.Sprintf(`{"capabilities":{"max_msg_fds":%d,"max_data_xfer_size":%d}}`,
		descriptorsMax, messageMax-headerSize-regionAccessSize)
	return append([]byte{0, 0, 0, 0}, text+"\x00"...), nil
}

func (f *Function) deviceReset(*message) ([]byte, error) {
	return nil, f.reset(functionReset, busReset)
}

func (f *Function) dmaMap(m *message) ([]byte, error) {
	le := binary.LittleEndian
	return nil, f.memory.add(le.Uint64(m.body[16:]), le.Uint64(m.body[24:]), le.Uint64(m.body[8:]),
		le.Uint32(m.body[4:]), m.fds)
}

func (f *Function) dmaUnmap(m *message) ([]byte, error) {
	le := binary.LittleEndian
	if le.Uint32(m.body[4:])&unmapAll != 0 {
		f.memory.clear()
	} else {
		f.memory.remove(le.Uint64(m.body[8:]), le.Uint64(m.body[16:]))
	}
	return m.body[:dmaUnmapMin], nil
}

func (f *Function) deviceInfo(*message) ([]byte, error) {
	const flagReset, flagPCI, interrupts = 1, 2, 5
	return words(16, flagReset|flagPCI, regionCount, interrupts), nil
}

func (f *Function) regionInfo(m *message) ([]byte, error) {
	const flagRead, flagWrite = 1, 2
	region := binary.LittleEndian.Uint32(m.body[8:])
	if region >= regionCount {
		return nil, fmt.Errorf("%w: there is no region %d", unix.EINVAL, region)
	}
	size, flags := f.regionSize(region), uint32(0)
	if size != 0 {
		flags = flagRead | flagWrite
	}
	return words(32, flags, region, 0, uint32(size), uint32(size>>32), 0, 0), nil
}

// words are 32-bit values, lowest byte first.
func words(values ...uint32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

func (f *Function) regionRead(m *message) ([]byte, error) {
	offset, region, count, err := f.place(m)
	if err != nil {
		return nil, err
	}
	out := make([]byte, regionAccessSize+count)
	copy(out, m.body[:regionAccessSize])
	f.load(region, offset, out[regionAccessSize:])
	return out, nil
}

func (f *Function) regionWrite(m *message) ([]byte, error) {
	offset, region, count, err := f.place(m)
	if err != nil {
		return nil, err
	}
	data := m.body[regionAccessSize:]
	if len(data) != int(count) {
		return nil, fmt.Errorf("%w: the request announces %d bytes of data, but has "+
			"%d", unix.EINVAL,
			count, len(data))
	}
	return m.body[:regionAccessSize], f.store(region, offset, data)
}

// place is where a request reads or writes, inside a region: one access of a
// width that exists, or of configuration space any number of bytes.
func (f *Function) place(m *message) (offset uint64, region, count uint32, err error) {
	le := binary.LittleEndian
	offset, region, count = le.Uint64(m.body), le.Uint32(m.body[8:]), le.Uint32(m.body[12:])
	size := f.regionSize(region)
	switch {
	case count == 0 || region != configRegion && (count&^accessWidths != 0 || count&(count-1) != 0):
		err = fmt.Errorf("%w: an access has %d bytes, but must have 1, 2, 4 or "+
			"8", unix.EINVAL, count)
	case offset > size || uint64(count) > size-offset:
		err = fmt.Errorf("%w: %d bytes at %#x are outside region %d, which has %#x "+
			"bytes", unix.EINVAL, count,
			offset, region, size)
	}
	return offset, region, count, err
}
