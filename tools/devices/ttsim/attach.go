package ttsim

import (
	"fmt"
	"io"
	"runtime/debug"
)

// AttachHostMemory makes the device access memory of another process instead of Host windows.
// `bytes` must return size bytes of that memory at a bus address, or nil if the device must not
// access them; then a load returns all ones, and a store has no effect. `bytes` is called only
// during an access or a Sleep.
func (d *Device) AttachHostMemory(bytes func(address, size uint64) []byte) {
	d.process.memory, d.process.missing = bytes, absent
}

// host returns size bytes of a Host window at a bus address. It returns nil if no Host window
// contains them.
func (p *process) host(address, size uint64) []byte {
	for _, h := range p.hosts {
		if inside := address - h.bus; address >= h.bus && inside < uint64(len(h.data)) &&
			size <= uint64(len(h.data))-inside {
			return h.data[inside:][:size]
		}
	}
	return nil
}

// lend executes the child's requests for accesses to memory, until the child has exited.
func (p *process) lend() {
	var head [requestSize]byte
	buffer := make([]byte, 1+chunkMax)
	for {
		if _, err := io.ReadFull(p.dma, head[:]); err != nil {
			return // the child has exited
		}
		answer, err := transfer(p.dma, decodeRequest(&head), buffer, p.memory)
		if err != nil {
			return
		}
		if answer[0] == absent {
			answer[0] = p.missing
		}
		if _, err := p.dma.Write(answer); err != nil {
			return
		}
	}
}

// transfer executes one request, page by page: `bytes` need not return more than one page at once.
// The answer consists of one byte (absent or present) and, for a load, the data.
func transfer(child io.Reader, r request, buffer []byte,
	bytes func(address, size uint64) []byte) (answer []byte, err error) {
	if r.size > chunkMax || r.op != opLoad && r.op != opStore {
		return nil, fmt.Errorf("the simulator's process requests an unknown or too large "+
			"memory transfer: operation %d, size %d bytes", r.op, r.size)
	}
	data := buffer[1 : 1+r.size]
	if r.op == opStore {
		if _, err := io.ReadFull(child, data); err != nil {
			return nil, err
		}
	}
	buffer[0] = present
	for done := uint64(0); done < uint64(r.size); {
		n := transferPage(r.op, r.address+done, data[done:], bytes)
		if n == 0 {
			buffer[0] = absent
			break
		}
		done += uint64(n)
	}
	if r.op == opStore {
		return buffer[:1], nil
	}
	return buffer[:1+r.size], nil
}

// transferPage copies data up to the end of a page and returns the number of bytes. It returns 0 if
// the memory does not exist, or no longer exists: another process may truncate a mapped file during
// the copy.
func transferPage(op opcode, at uint64, data []byte,
	bytes func(address, size uint64) []byte) (n int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // applies to this goroutine only
	defer func() {
		if fault := recover(); fault != nil {
			if _, isFault := fault.(interface{ Addr() uintptr }); !isFault {
				panic(fault)
			}
			n = 0
		}
	}()
	page := bytes(at, min(uint64(len(data)), pageSize-at%pageSize))
	if op == opStore {
		return copy(page, data)
	}
	return copy(data, page)
}
