package ttsim

import (
	"fmt"
	"io"
	"runtime/debug"
)

// AttachHostMemory lets the device reach memory that lies outside of this process, by bus
// address and as long as bytes gives it, instead of Host windows. Where it does
// not, a load gives all ones and a store is lost. bytes is called while an access
// or a Sleep lasts, and not otherwise.
func (d *Device) AttachHostMemory(bytes func(address, size uint64) []byte) {
	d.process.memory, d.process.missing = bytes, absent
}

// host gives memory of Host windows by bus address, nil where none is.
func (p *process) host(address, size uint64) []byte {
	for _, h := range p.hosts {
		if inside := address - h.bus; address >= h.bus && inside < uint64(len(h.data)) &&
			size <= uint64(len(h.data))-inside {
			return h.data[inside:][:size]
		}
	}
	return nil
}

// lend carries out what the child asks of memory, until it has ended.
func (p *process) lend() {
	var head [requestSize]byte
	buffer := make([]byte, 1+chunkMax)
	for {
		if _, err := io.ReadFull(p.dma, head[:]); err != nil {
			return // the child has ended
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

// transfer carries out one request, page by page, as memory may lie in pieces.
// The answer has one byte that says whether all was there, and what was read.
func transfer(child io.Reader, r request, buffer []byte,
	bytes func(address, size uint64) []byte) (answer []byte, err error) {
	if r.size > chunkMax || r.op != opLoad && r.op != opStore {
		return nil, fmt.Errorf("the simulator's process requests transfer %d of %d bytes, which "+
			"is unknown or too large", r.op, r.size)
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

// transferPage copies up to the end of a page and gives the bytes. None: they are
// not there, or not any more, as those of a file that its owner cuts meanwhile.
func transferPage(op opcode, at uint64, data []byte,
	bytes func(address, size uint64) []byte) (n int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // which holds for one goroutine
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
