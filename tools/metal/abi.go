package metal

// Layout of the memory of a core. ABI.md describes it, and kernel/metal.h contains the same values.
// All addresses are in L1.
const (
	kernelEnd = 0x20000 // end of the memory for the code and data of kernels

	stateBase     = 0x20000 // the go word, which starts the kernels; the done words follow
	doneBase      = 0x20004 // one done word for each processor
	counterBase   = 0x20020 // 8 bytes for each circular buffer: pages pushed, popped
	semaphoreBase = 0x20120 // 16 bytes for each semaphore: the alignment of atomics

	constantBase = 0x20240 // chip, NoC of each processor, number and tiles of DRAM banks
	circularBase = 0x20300 // 16 bytes for each circular buffer: address, size, page size, pages
	argumentBase = 0x20800 // arguments: argumentStride bytes for each processor
	dataBase     = 0x22000 // circular buffers from here up; buffers from the end of L1 down

	argumentStride = 0x400

	goValue = 1          // value of the go word that starts the kernels
	done    = 0x600df00d // value of a done word after the kernel has finished
)

// Largest numbers of objects of a core; ArgumentsMax is per kernel.
const (
	CircularBuffersMax = 32
	SemaphoresMax      = 16
	ArgumentsMax       = argumentStride / 4
)

// Processor is a RISC-V core of a tile, in the order of chips.CoreReset.Cores.
type Processor uint8

const (
	BRISC Processor = iota
	TRISC0
	TRISC1
	TRISC2
	NCRISC
	processors

	RISCV0 = BRISC  // name in tt-metal: DataMovementProcessor::RISCV_0
	RISCV1 = NCRISC // name in tt-metal: DataMovementProcessor::RISCV_1
)

// NOC is one of the two networks of a chip.
type NOC uint8

const (
	NOC0 NOC = iota
	NOC1
)
