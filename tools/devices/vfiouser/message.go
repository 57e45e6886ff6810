package vfiouser

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Commands of the protocol that the server knows.
const (
	cmdVersion       = 1
	cmdDMAMap        = 2
	cmdDMAUnmap      = 3
	cmdDeviceInfo    = 4
	cmdRegionInfo    = 5
	cmdRegionFDs     = 6
	cmdIRQInfo       = 7
	cmdSetIRQs       = 8
	cmdRegionRead    = 9
	cmdRegionWrite   = 10
	cmdDeviceReset   = 13
	headerSize       = 16
	messageMax       = headerSize + 64<<10 // largest number of bytes of a message
	descriptorsMax   = 8                   // largest number of file descriptors of a message
	flagReply        = 0x1
	flagTypeMask     = 0xf
	flagNoReply      = 0x10
	flagError        = 0x20
	accessWidths     = 1 | 2 | 4 | 8
	regionAccessSize = 16 // bytes of offset, region and count, before the data
)

// message is a request with its file descriptors.
type message struct {
	id, command uint16
	flags       uint32
	body        []byte
	fds         []int
}

// text returns a description of the request for the log.
func (m *message) text() string {
	verb := map[uint16]string{cmdRegionRead: "load", cmdRegionWrite: "store"}[m.command]
	if verb == "" || len(m.body) < regionAccessSize {
		return fmt.Sprintf("command %d", m.command)
	}
	le := binary.LittleEndian
	place := fmt.Sprintf("BAR %d", le.Uint32(m.body[8:]))
	if le.Uint32(m.body[8:]) == configRegion {
		place = "configuration space"
	}
	return fmt.Sprintf("%s of %d bytes at %s + %#x", verb, le.Uint32(m.body[12:]), place,
		le.Uint64(m.body))
}

// errProtocol is part of every error about a message that violates the protocol.
var errProtocol error = &hal.Fault{Code: hal.IO, Reason: "invalid vfio-user request"}

// readMessage reads one request. After an error it has closed the file descriptors of the request.
func readMessage(c *net.UnixConn) (m message, err error) {
	defer func() {
		if err != nil {
			closeAll(m.fds)
		}
	}()
	var header [headerSize]byte
	control := make([]byte, unix.CmsgSpace(4*descriptorsMax))
	n, controlled, flags, _, err := c.ReadMsgUnix(header[:], control)
	if err != nil {
		return m, err
	}
	if n == 0 {
		return m, io.EOF
	}
	if m.fds, err = descriptors(control[:controlled]); err != nil {
		return m, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return m, fmt.Errorf("%w: the message has more than %d file descriptors", errProtocol,
			descriptorsMax)
	}
	if _, err = io.ReadFull(c, header[n:]); err != nil {
		return m, fmt.Errorf("%w: the message ends inside its header", errProtocol)
	}
	m.id, m.command = binary.LittleEndian.Uint16(header[0:]), binary.LittleEndian.Uint16(header[2:])
	m.flags = binary.LittleEndian.Uint32(header[8:])
	size := binary.LittleEndian.Uint32(header[4:])
	if size < headerSize || size > messageMax {
		return m, fmt.Errorf("%w: the message with command %d has %d bytes, "+
			"but must have %d to %d bytes", errProtocol, m.command,
			size, headerSize, messageMax)
	}
	if m.flags&flagTypeMask != 0 {
		return m, fmt.Errorf("%w: the message with command %d is a reply, "+
			"but the server sent no request", errProtocol,
			m.command)
	}
	m.body = make([]byte, size-headerSize)
	if _, err = io.ReadFull(c, m.body); err != nil {
		return m, fmt.Errorf("%w: the message with command %d ends "+
			"before all of its data", errProtocol, m.command)
	}
	return m, nil
}

// descriptors returns the file descriptors in the control data of a message.
func descriptors(control []byte) (fds []int, err error) {
	if len(control) == 0 {
		return nil, nil
	}
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errProtocol, err)
	}
	for i := range list {
		if rights, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, rights...)
		}
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// reply answers a request with body, or with an error if number is not 0. It sends nothing if the
// client does not want a reply.
func (m *message) reply(c *net.UnixConn, body []byte, number unix.Errno) error {
	if m.flags&flagNoReply != 0 {
		return nil
	}
	out := make([]byte, headerSize, headerSize+len(body))
	flags := uint32(flagReply)
	if number != 0 {
		flags |= flagError
		body = nil
	}
	binary.LittleEndian.PutUint16(out[0:], m.id)
	binary.LittleEndian.PutUint16(out[2:], m.command)
	binary.LittleEndian.PutUint32(out[4:], uint32(headerSize+len(body)))
	binary.LittleEndian.PutUint32(out[8:], flags)
	binary.LittleEndian.PutUint32(out[12:], uint32(number))
	_, err := c.Write(append(out, body...))
	return err
}
