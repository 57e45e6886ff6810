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
	"lightmetal/tools/image/english"

	"golang.org/x/sys/unix"
)

// tick is the interval at which the time of the device advances while the client sends no requests.
// A device that is bus master works even if it is not accessed.
const tick = time.Millisecond

// socketPathMax is the largest length of a path in struct sockaddr_un, in bytes.
const socketPathMax = 107

// Listen creates the socket and listens on it. It replaces a socket on which no process listens any
// more. If path is another file, Listen returns an error.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > socketPathMax {
		return nil, &hal.Fault{Code: hal.Usage,
			Reason: fmt.Sprintf("%s: the path of a socket may have at most %d bytes; "+
				"use a shorter directory, such as /tmp", path,
				socketPathMax)}
	}
	address := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", address)
	if folder := filepath.Dir(path); errors.Is(err, syscall.ENOENT) {
		return nil, &hal.Fault{Code: hal.NoFile,
			Reason: "the directory " + folder + " for the socket does not exist; " +
				"create the directory with mkdir -p " + folder}
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if info, e := os.Lstat(path); e != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, &hal.Fault{Code: hal.IO, Reason: path + ": a file that is not a socket " +
			"exists; use another path"}
	}
	if c, e := net.DialUnix("unix", nil, address); e == nil {
		c.Close()
		return nil, &hal.Fault{Code: hal.IO,
			Reason: path + ": another server uses this socket; use another path"}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", address)
}

// Serve waits for one client and serves it until the client disconnects or ctx ends. Meanwhile it
// disconnects all other clients. The error is nil if the client disconnected between two requests,
// or before it received an answer. If the device hangs until a new client connects, Serve also
// serves the next client, if that connects in time (Wedge.Reconnect).
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

// serveClient serves a client until it disconnects or ctx ends. It logs how a client disconnected.
func (f *Function) serveClient(ctx context.Context, c *net.UnixConn) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	f.accesses = 0
	last, err := f.serve(c)
	accesses := english.Count(f.accesses, "access")
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		f.options.Log("the client disconnected after %s to BARs", accesses)
		return nil
	// EPIPE: sending the answer failed. ECONNRESET: the client did not receive the answer.
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		f.options.Log("the client disconnected after %s to BARs, before it received the answer "+
			"to its last request (%s), which took %.1f s", accesses,
			last.text(), last.took.Seconds())
		return nil
	}
	return err
}

// forgetClient resets the function to the state before its first client connected.
func (f *Function) forgetClient() error {
	f.memory.clear()
	f.irq.close()
	f.wedge.accesses = 0
	return f.reset()
}

// turnAway closes all new connections, until the listener is closed.
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

// handled is a request, and the time that it took to handle the request.
type handled struct {
	message
	took time.Duration
}

// serve answers requests until reading or answering one fails. It returns the request that was
// handled last.
func (f *Function) serve(c *net.UnixConn) (last handled, err error) {
	for {
		if err := f.await(c); err != nil {
			return last, err
		}
		m, err := readMessage(c)
		if err != nil {
			return last, err
		}
		received := f.now()
		body, number := f.handle(&m)
		last = handled{m, f.now().Sub(received)}
		if err := m.reply(c, body, number); err != nil {
			return last, err
		}
	}
}

// await waits until a request arrives or the client disconnects. Meanwhile the time of the device
// advances.
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

// handle executes a request and returns the body of the answer, or an error number. It closes the
// file descriptors of the request, except those that the function keeps.
func (f *Function) handle(m *message) ([]byte, unix.Errno) {
	defer func() { closeAll(m.fds) }()
	do := handlers[m.command]
	if do.run == nil {
		f.options.Log("the client sent the unknown request %d", m.command)
		return nil, unix.ENOTSUP
	}
	if len(m.body) < do.least {
		f.options.Log("request %d has %d bytes, but must have at least %d", m.command, len(m.body),
			do.least)
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

// handlers contains the function that executes each command, and the smallest size of its request
// in bytes.
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

// version answers with version 0.0, which QEMU's client accepts.
func (f *Function) version(m *message) ([]byte, error) {
	if major := binary.LittleEndian.Uint16(m.body); major != 0 {
		return nil, fmt.Errorf("%w: the client has protocol version %d; "+
			"this server supports only version 0", unix.EINVAL, major)
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

// dmaUnmap unmaps a range of client memory, or everything.
func (f *Function) dmaUnmap(m *message) ([]byte, error) {
	le := binary.LittleEndian
	if le.Uint32(m.body[4:])&unmapAll != 0 {
		f.memory.clear()
	} else {
		f.memory.remove(le.Uint64(m.body[8:]), le.Uint64(m.body[16:]))
	}
	return m.body[:dmaUnmapMin], nil
}

// deviceInfo answers how many regions and kinds of interrupts the function has.
func (f *Function) deviceInfo(*message) ([]byte, error) {
	const flagReset, flagPCI, interrupts = 1, 2, 5
	return words(16, flagReset|flagPCI, regionCount, interrupts), nil
}

// regionInfo answers the size of a region, and whether it may be read and written.
func (f *Function) regionInfo(m *message) ([]byte, error) {
	const flagRead, flagWrite = 1, 2
	region := binary.LittleEndian.Uint32(m.body[8:])
	if region >= regionCount {
		return nil, fmt.Errorf("%w: region %d does not exist; regions are 0 to %d", unix.EINVAL,
			region,
			regionCount-1)
	}
	size, flags := f.regionSize(region), uint32(0)
	if size != 0 {
		flags = flagRead | flagWrite
	}
	return words(32, flags, region, 0, uint32(size), uint32(size>>32), 0, 0), nil
}

// words returns the little-endian bytes of 32-bit values.
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
		return nil, fmt.Errorf("%w: "+
			"the request announces %d bytes of data, but contains %d bytes", unix.EINVAL,
			count, len(data))
	}
	return m.body[:regionAccessSize], f.store(region, offset, data)
}

// place returns the offset, the region and the size of the access that a request makes. It returns
// an error if the access is not completely inside the region, or if its size is not the width of
// one access. An access to configuration space may have any size.
func (f *Function) place(m *message) (offset uint64, region, count uint32, err error) {
	le := binary.LittleEndian
	offset, region, count = le.Uint64(m.body), le.Uint32(m.body[8:]), le.Uint32(m.body[12:])
	size := f.regionSize(region)
	switch {
	case count == 0 || region != configRegion && (count&^accessWidths != 0 || count&(count-1) != 0):
		err = fmt.Errorf("%w: an access has %d bytes, "+
			"but must have 1, 2, 4 or 8", unix.EINVAL, count)
	case offset > size || uint64(count) > size-offset:
		err = fmt.Errorf("%w: %d bytes at %#x are outside region %d, "+
			"which has %#x bytes", unix.EINVAL, count,
			offset, region, size)
	}
	return offset, region, count, err
}
