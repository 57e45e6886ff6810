package ttsim

import "encoding/binary"

// The parent sends a request of requestSize bytes, then size bytes of data if
// it is a copyIn. The child answers with replySize bytes, then size bytes of
// data if it was a copyOut. There is no status: a child that meets an error
// ends, and the parent reads the end of the stream.
const (
	requestSize = 24
	replySize   = 8

	// chunkMax bounds the data of one copy, in bytes.
	chunkMax = 64 << 10

	// hello is the reply the child sends unasked, once the library runs.
	hello = 0x316d69737474 // "ttsim1"

	// childSocket is the child's end of the stream: the first file after the
	// standard three. The next is its end of another (DMA in child_cgo.go), on which
	// it asks for what the device reaches of memory: a request, with data if it
	// stores; then one byte, absent, present or refused, and data if it loads.
	childSocket = 3

	// hostBus is the bus address at which Host windows begin, hostSize how much of
	// them there can be.
	hostBus  = 0x1000_0000
	hostSize = 4 << 30

	// childVariable holds the path of the library in the child's environment,
	// and is what tells a child from the program itself.
	childVariable = "LM_TTSIM_CHILD"
)

// What is answered of memory that the device reaches.
const (
	absent  = iota // not all of it is there
	present        // all is
	refused        // it is in no Host window: the child ends
)

type opcode uint32

const (
	// reply: size bytes (1, 2, 4 or 8) at address; then value clocks pass
	opLoad        opcode = 1 + iota
	opStore              // size bytes (1, 2, 4 or 8) of value to address
	opCopyIn             // size bytes of data to address
	opCopyOut            // size bytes of data from address
	opConfigLoad         // reply: the dword at address of PCI configuration space
	opConfigStore        // value to the dword at address of PCI configuration space
	opClock              // value clocks pass
	opExit               // shut the library down and end the process
)

type request struct {
	op      opcode
	size    uint32
	address uint64 // physical, as the simulator's BARs hold it
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
