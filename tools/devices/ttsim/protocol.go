package ttsim

import "encoding/binary"

// The parent sends a request of requestSize bytes and, for opCopyIn, request.size bytes of data.
// The child answers with replySize bytes and, for opCopyOut, request.size bytes of data. An answer
// contains no status: after an error the child exits, and the parent reads the end of the stream.
const (
	requestSize = 24
	replySize   = 8

	// chunkMax is the largest number of data bytes of one request.
	chunkMax = 64 << 10

	// hello is a reply that the child sends without a request, after the library has started.
	hello = 0x316d69737474 // "ttsim1"

	// childSocket is the child's descriptor for the stream of requests: the first one after the
	// standard three. The next descriptor (DMA in child_cgo.go) is for a second stream, on which
	// the child requests accesses to memory. It sends a request, with data for a store. The parent
	// answers with one byte (absent, present or refused), with data for a load.
	childSocket = 3

	// hostBus is the bus address of the first Host window. hostSize is the largest number of bytes
	// of all Host windows.
	hostBus  = 0x1000_0000
	hostSize = 4 << 30

	// childVariable is the environment variable that contains the path of the library in a child. A
	// process without it is not a child.
	childVariable = "LM_TTSIM_CHILD"
)

// First byte of the answer to a request for an access to memory.
const (
	absent  = iota // a part of the memory does not exist
	present        // all of the memory exists
	refused        // the memory is in no Host window: the child exits
)

// opcode is the operation of a request.
type opcode uint32

const (
	// load size bytes (1, 2, 4 or 8) from address, then execute value clock cycles
	opLoad        opcode = 1 + iota
	opStore              // store the lowest size bytes (1, 2, 4 or 8) of value to address
	opCopyIn             // copy size bytes of data to address
	opCopyOut            // copy size bytes of data from address
	opConfigLoad         // load the dword at address of PCI configuration space
	opConfigStore        // store value to the dword at address of PCI configuration space
	opClock              // execute value clock cycles
	opExit               // shut the library down and end the process
)

// request is a request of the parent on the first stream, or of the child on the second one.
type request struct {
	op      opcode
	size    uint32
	address uint64 // physical address in the simulator, or bus address of memory
	value   uint64
}

func (r request) encode(b *[requestSize]byte) {
	binary.LittleEndian.PutUint32(b[0:], uint32(r.op))
	binary.LittleEndian.PutUint32(b[4:], r.size)
	binary.LittleEndian.PutUint64(b[8:], r.address)
	binary.LittleEndian.PutUint64(b[16:], r.value)
}

func decodeRequest(b *[requestSize]byte) request {
	return request{
		op:      opcode(binary.LittleEndian.Uint32(b[0:])),
		size:    binary.LittleEndian.Uint32(b[4:]),
		address: binary.LittleEndian.Uint64(b[8:]),
		value:   binary.LittleEndian.Uint64(b[16:]),
	}
}
