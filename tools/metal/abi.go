package metal

// The memory of a core, as ABI.md has it and kernel/metal.h repeats it. All
// addresses are in L1.
const (
	kernelEnd = 0x20000 // kernels lie below

	stateBase     = 0x20000 // go, then a done word for each processor
	doneBase      = 0x20004
	counterBase   = 0x20020 // 8 bytes a circular buffer: pages pushed, popped
	semaphoreBase = 0x20120 // 16 bytes each, as the network's atomics want

	constantBase = 0x20240 // chip, NoC of each processor, banks
	circularBase = 0x20300 // 16 bytes a circular buffer: address, size, page size, pages
	argumentBase = 0x20800 // argumentStride a processor
	dataBase     = 0x22000 // circular buffers from here up, buffers from the end of L1 down

	argumentStride = 0x400

	goValue = 1
	done    = 0x600df00d
)

// Limits of a core.
const (
	CircularBuffersMax = 32
	SemaphoresMax      = 16
	ArgumentsMax       = argumentStride / 4
)

// Processor is a RISC-V core of a tile, in the order of chips.Reset.Cores.
type Processor uint8

const (
	BRISC Processor = iota
	TRISC0
	TRISC1
	TRISC2
	NCRISC
	processors

	RISCV0 = BRISC  // upstream's DataMovementProcessor::RISCV_0
	RISCV1 = NCRISC // and RISCV_1
)

// NOC is one of the two networks of a chip.
type NOC uint8

const (
	NOC0 NOC = iota
	NOC1
)
