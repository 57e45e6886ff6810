package vfiouser

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"

	"golang.org/x/sys/unix"
)

// client speaks the protocol's other side, written from its specification.
type client struct {
	t    *testing.T
	conn *net.UnixConn
	id   uint16
	end  chan error // of the server
	log  *lines
}

// lines collects what a server says.
type lines struct {
	sync.Mutex
	text []string
}

func (l *lines) add(format string, a ...any) {
	l.Lock()
	defer l.Unlock()
	l.text = append(l.text, fmt.Sprintf(format, a...))
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return strings.Join(l.text, "\n")
}

// opened is a mock as lm serve opens it.
func opened(b *boards.Board, faults ...mock.Fault) func() (hal.Device, error) {
	return func() (hal.Device, error) {
		d := mock.New(b)
		d.AsHardware()
		for _, f := range faults {
			d.Inject(f)
		}
		return d, nil
	}
}

// serving starts a server and connects a client to it. The test ends when both
// have: what they close is not another test's.
func serving(t *testing.T, open func() (hal.Device, error), trace io.Writer) (*client, *Function) {
	t.Helper()
	return servingWith(t, open, Options{Trace: trace})
}

// servingWith starts a server with options.
func servingWith(t *testing.T, open func() (hal.Device, error), options Options) (*client,
	*Function) {
	t.Helper()
	log := &lines{}
	options.Log = log.add
	f, err := New(open, options)
	if err != nil {
		t.Fatal(err)
	}
	path := socket(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), l, f)
		l.Close()
		end <- err
		close(end)
	}()
	c := &client{t: t, conn: connected(t, path), end: end, log: log}
	t.Cleanup(func() { _ = c.leave() })
	c.must(cmdVersion, append(words(0), "{}\x00"...))
	return c, f
}

// socket is a path of one in a new folder, in which the test goes on: that of
// temporary files may be longer than a socket's path can be.
func socket(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	return "s"
}

func connected(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// send makes a request, with files, and gives the answer.
func (c *client) send(command uint16, body []byte, fds ...int) ([]byte, unix.Errno) {
	c.t.Helper()
	c.id++
	request := binary.LittleEndian.AppendUint16(nil, c.id)
	request = binary.LittleEndian.AppendUint16(request, command)
	request = append(request, words(uint32(headerSize+len(body)), 0, 0)...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.conn.WriteMsgUnix(append(request, body...), rights, nil); err != nil {
		c.t.Fatal(err)
	}
	var header [headerSize]byte
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		c.t.Fatalf("request %d has no answer: %v; the server says: %s", command, err, c.log)
	}
	le := binary.LittleEndian
	answer := make([]byte, le.Uint32(header[4:])-headerSize)
	if _, err := io.ReadFull(c.conn, answer); err != nil {
		c.t.Fatal(err)
	}
	if le.Uint16(header[0:]) != c.id || le.Uint16(header[2:]) != command ||
		le.Uint32(header[8:])&flagTypeMask != flagReply {
		c.t.Fatalf("the answer to request %d is %x", command, header)
	}
	return answer, unix.Errno(le.Uint32(header[12:]))
}

func (c *client) must(command uint16, body []byte, fds ...int) []byte {
	c.t.Helper()
	answer, number := c.send(command, body, fds...)
	if number != 0 {
		c.t.Fatalf("request %d: %v; the server says: %s", command, number, c.log)
	}
	return answer
}

// at is the start of a read or write.
func at(region uint32, offset uint64, count int) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, offset), words(region, uint32(count))...)
}

func (c *client) load(region uint32, offset uint64, width int) uint64 {
	c.t.Helper()
	answer := c.must(cmdRegionRead, at(region, offset, width))
	var value [8]byte
	copy(value[:], answer[regionAccessSize:])
	return binary.LittleEndian.Uint64(value[:])
}

func (c *client) store(region uint32, offset uint64, width int, value uint64) {
	c.t.Helper()
	c.must(cmdRegionWrite, append(at(region, offset, width),
		binary.LittleEndian.AppendUint64(nil, value)[:width]...))
}

// leave ends the connection and gives the server's error.
func (c *client) leave() error {
	c.conn.Close()
	return <-c.end
}

// memfd is shared memory of a client's, as QEMU's guest has it.
func memfd(t *testing.T, size int) (fd int, data []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	data, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return fd, data
}

// dma is the body of DMA_MAP: argsz, flags, offset, address, size.
func dma(flags uint32, offset, address, size uint64) []byte {
	body := words(dmaMapSize, flags)
	for _, v := range []uint64{offset, address, size} {
		body = binary.LittleEndian.AppendUint64(body, v)
	}
	return body
}

func unmap(flags uint32, address, size uint64) []byte {
	body := words(dmaUnmapMin, flags)
	for _, v := range []uint64{address, size} {
		body = binary.LittleEndian.AppendUint64(body, v)
	}
	return body
}

// openOf counts this process's open descriptors of the file behind fd, and no
// others, which Go opens and closes when it will.
func openOf(t *testing.T, fd int) (count int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var want, got unix.Stat_t
	if err := unix.Fstat(fd, &want); err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		number, err := strconv.Atoi(entry.Name())
		if err == nil && unix.Fstat(number, &got) == nil && got.Dev == want.Dev &&
			got.Ino == want.Ino {
			count++
		}
	}
	return count
}
