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

// client is a client of the protocol vfio-user, written from its specification.
type client struct {
	t    *testing.T
	conn *net.UnixConn
	id   uint16
	end  chan error // receives the server's error when the server ends
	log  *serverLog
}

// serverLog collects the messages that a server logs.
type serverLog struct {
	sync.Mutex
	text []string
}

func (l *serverLog) add(format string, a ...any) {
	l.Lock()
	defer l.Unlock()
	l.text = append(l.text, fmt.Sprintf(format, a...))
}

func (l *serverLog) String() string {
	l.Lock()
	defer l.Unlock()
	return strings.Join(l.text, "\n")
}

// mockOpener returns a function that opens a mock like lm serve, with the given faults.
func mockOpener(b *boards.Board, faults ...mock.Fault) func() (hal.Device, error) {
	return func() (hal.Device, error) {
		d := mock.New(b)
		d.AsHardware()
		for _, f := range faults {
			d.Inject(f)
		}
		return d, nil
	}
}

// startServer starts a server and connects a client to it. The test ends only after both have
// ended, so that they do not close descriptors of another test.
func startServer(t *testing.T, open func() (hal.Device, error), trace io.Writer) (*client,
	*Function) {
	t.Helper()
	return startServerWithOptions(t, open, Options{Trace: trace})
}

// startServerWithOptions is startServer with other options than a trace.
func startServerWithOptions(t *testing.T, open func() (hal.Device, error),
	options Options) (*client, *Function) {
	t.Helper()
	log := &serverLog{}
	options.Log = log.add
	f, err := New(open, options)
	if err != nil {
		t.Fatal(err)
	}
	path := socketPath(t)
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
	c := &client{t: t, conn: dialServer(t, path), end: end, log: log}
	t.Cleanup(func() { _ = c.disconnect() })
	c.sendOK(cmdVersion, append(words(0), "{}\x00"...))
	return c, f
}

// socketPath returns the path of a socket in a new directory, to which it changes: the path of the
// directory of temporary files may be too long for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	return "s"
}

func dialServer(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// send sends a request with descriptors. It returns the body of the answer and its error number.
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
		c.t.Fatalf("no answer to command %d: %v; the server's log: %s", command, err, c.log)
	}
	le := binary.LittleEndian
	answer := make([]byte, le.Uint32(header[4:])-headerSize)
	if _, err := io.ReadFull(c.conn, answer); err != nil {
		c.t.Fatal(err)
	}
	if le.Uint16(header[0:]) != c.id || le.Uint16(header[2:]) != command ||
		le.Uint32(header[8:])&flagTypeMask != flagReply {
		c.t.Fatalf("the answer to command %d has the header %x", command, header)
	}
	return answer, unix.Errno(le.Uint32(header[12:]))
}

// sendOK sends a request that must succeed, and returns the body of the answer.
func (c *client) sendOK(command uint16, body []byte, fds ...int) []byte {
	c.t.Helper()
	answer, number := c.send(command, body, fds...)
	if number != 0 {
		c.t.Fatalf("command %d: error %v; the server's log: %s", command, number, c.log)
	}
	return answer
}

// regionAccessBody returns the start of the body of REGION_READ and REGION_WRITE.
func regionAccessBody(region uint32, offset uint64, count int) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, offset), words(region, uint32(count))...)
}

// load returns the value that REGION_READ returns.
func (c *client) load(region uint32, offset uint64, width int) uint64 {
	c.t.Helper()
	answer := c.sendOK(cmdRegionRead, regionAccessBody(region, offset, width))
	var value [8]byte
	copy(value[:], answer[regionAccessSize:])
	return binary.LittleEndian.Uint64(value[:])
}

// store stores a value with REGION_WRITE.
func (c *client) store(region uint32, offset uint64, width int, value uint64) {
	c.t.Helper()
	c.sendOK(cmdRegionWrite, append(regionAccessBody(region, offset, width),
		binary.LittleEndian.AppendUint64(nil, value)[:width]...))
}

// disconnect ends the connection and returns the server's error.
func (c *client) disconnect() error {
	c.conn.Close()
	return <-c.end
}

// createMemfd creates shared memory, like that of QEMU's guest.
func createMemfd(t *testing.T, size int) (fd int, data []byte) {
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

// dmaMapBody returns the body of DMA_MAP: argsz, flags, offset, address, size.
func dmaMapBody(flags uint32, offset, address, size uint64) []byte {
	body := words(dmaMapSize, flags)
	for _, v := range []uint64{offset, address, size} {
		body = binary.LittleEndian.AppendUint64(body, v)
	}
	return body
}

// dmaUnmapBody returns the body of DMA_UNMAP: argsz, flags, address, size.
func dmaUnmapBody(flags uint32, address, size uint64) []byte {
	body := words(dmaUnmapMin, flags)
	for _, v := range []uint64{address, size} {
		body = binary.LittleEndian.AppendUint64(body, v)
	}
	return body
}

// countDescriptors returns the number of open descriptors of this process for the file of fd. It
// ignores other files, because Go's runtime may open and close descriptors at any time.
func countDescriptors(t *testing.T, fd int) (count int) {
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
