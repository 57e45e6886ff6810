package metal

import (
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/tools/image/fail"
)

// Program is a set of kernels with their arguments, circular buffers and semaphores that are
// launched together.
type Program struct {
	device     *Device
	id         uint64
	kernels    []*kernel
	circulars  []*circular
	semaphores []semaphore
}

// KernelHandle is the global id of a kernel.
type KernelHandle uint64

// CBHandle is the global id of a circular buffer.
type CBHandle uint64

// KernelConfig selects the processor that executes a kernel, and its network: a DataMovementConfig
// or a ComputeConfig.
type KernelConfig interface {
	processor() Processor
	noc() NOC
}

// DataMovementConfig is the configuration of a kernel for RISCV0 (BRISC) or RISCV1 (NCRISC).
type DataMovementConfig struct {
	Processor Processor
	NOC       NOC // network of the kernel; two kernels on one core must use different networks
}

// ComputeConfig is the configuration of a kernel for TRISC0, TRISC1 or TRISC2. Such a kernel can
// use only RISC-V instructions, because the matrix and vector engines are not initialised.
type ComputeConfig struct {
	Processor Processor // BRISC, the zero value, means TRISC0
}

func (c DataMovementConfig) processor() Processor {
	if c.Processor != BRISC && c.Processor != NCRISC {
		refuse("a data movement kernel must run on RISCV0 (BRISC) or RISCV1 (NCRISC)")
	}
	if c.NOC > NOC1 {
		refuse("there is no NOC%d; use NOC0 or NOC1", c.NOC)
	}
	return c.Processor
}

func (c DataMovementConfig) noc() NOC { return c.NOC }

func (c ComputeConfig) processor() Processor {
	switch c.Processor {
	case BRISC:
		return TRISC0
	case TRISC0, TRISC1, TRISC2:
		return c.Processor
	}
	refuse("a compute kernel must run on TRISC0 to TRISC2")
	return 0
}

func (c ComputeConfig) noc() NOC { return NOC0 }

type kernel struct {
	id        uint64
	cores     []CoreCoord
	processor Processor
	noc       NOC
	image     *image
	vector    *block // jump at the processor's start address; nil: the kernel's entry is there
	arguments map[CoreCoord][]RuntimeArg
}

// RuntimeArg is an argument of a kernel: a word, or a buffer. For a buffer, the kernel receives its
// address at the time of the launch. The zero value is the word 0.
type RuntimeArg struct {
	word   uint32
	buffer *Buffer
}

// Word returns an argument with the value v.
func Word(v uint32) RuntimeArg { return RuntimeArg{word: v} }

// AddressOf returns an argument whose value is the address of the buffer b.
func AddressOf(b *Buffer) RuntimeArg { return RuntimeArg{buffer: b} }

type semaphore struct {
	id      uint32
	cores   []CoreCoord
	initial uint32
}

// CreateProgram returns an empty program.
func CreateProgram(d *Device) (_ *Program, err error) {
	defer fail.Catch(&err)
	d.use()
	p := &Program{device: d}
	p.id = d.newID(p)
	d.record(Call{Name: "CreateProgram", Program: p.id})
	return p, nil
}

// ReleaseProgram releases a program and its kernels and circular buffers. In tt-metal, the
// destructor does this.
func ReleaseProgram(p *Program) (err error) {
	defer fail.Catch(&err)
	d := p.use()
	delete(d.alive, p.id)
	for _, k := range p.kernels {
		delete(d.alive, k.id)
	}
	for _, c := range p.circulars {
		delete(d.alive, c.id)
	}
	d.record(Call{Name: "ReleaseProgram", Program: p.id})
	return nil
}

// ID returns the global id of the program.
func (p *Program) ID() uint64 { return p.id }

// use returns the device of the program. It fails if the program was not created or was released,
// or if the device is closed.
func (p *Program) use() *Device {
	if p == nil || p.device == nil {
		refuse("the program is nil, or was not made by CreateProgram")
	}
	p.device.check("program", p.id, p)
	p.device.use()
	return p.device
}

// CreateKernel adds a compiled kernel, a RISC-V ELF executable, to a program, for the given cores.
// A launch stores the kernel at the addresses for which it was linked, which must be below
// kernelEnd in L1 (ABI.md). If the kernel's entry is not the start address of the processor, a
// launch also stores a jump there.
func CreateKernel(p *Program, elf []byte, cores CoreSpec, config KernelConfig) (_ KernelHandle,
	err error) {
	defer fail.Catch(&err)
	d := p.use()
	if config == nil {
		refuse("the config of the kernel is nil; pass a DataMovementConfig or a ComputeConfig")
	}
	k := &kernel{noc: config.noc(), arguments: map[CoreCoord][]RuntimeArg{}}
	k.processor = config.processor()
	k.cores = d.cores(cores)
	k.image = readELF(elf)
	p.place(k)
	k.id = d.newID(k)
	p.kernels = append(p.kernels, k)
	d.record(Call{Name: "CreateKernel", Program: p.id, Kernel: k.id})
	return KernelHandle(k.id), nil
}

// place sets the jump to the entry of the kernel k. It fails if k overlaps itself, or if another
// kernel on one of its cores overlaps k or uses the same processor.
func (p *Program) place(k *kernel) {
	start := chips.ForBoard(p.device.board).Grid.TensixReset.Cores[k.processor].StartAddress
	if k.image.entry != start {
		jump := jump(start, k.image.entry)
		k.vector = &jump
	}
	for i, s := range k.spans() {
		for _, t := range k.spans()[:i] {
			if s.overlaps(t) {
				refuse("at address %#x, a segment of the kernel overlaps another segment or the "+
					"jump to the kernel's entry", max(s.first, t.first))
			}
		}
	}
	for _, other := range p.kernels {
		core, shared := common(k.cores, other.cores)
		if !shared {
			continue
		}
		if other.processor == k.processor {
			refuse("core %v already has kernel %d on the same processor", core, other.id)
		}
		for _, s := range k.spans() {
			for _, t := range other.spans() {
				if s.overlaps(t) {
					refuse("the kernel at %#x..%#x overlaps kernel %d at %#x..%#x on core %v",
						s.first,
						s.end, other.id, t.first, t.end, core)
				}
			}
		}
	}
}

// spans returns all memory in L1 that the kernel occupies.
func (k *kernel) spans() []span {
	if k.vector == nil {
		return k.image.spans
	}
	return append(slices.Clone(k.image.spans), k.vector.span())
}

// common returns a core that is in both lists. The result is false if there is none.
func common(a, b []CoreCoord) (CoreCoord, bool) {
	for _, c := range a {
		if slices.Contains(b, c) {
			return c, true
		}
	}
	return CoreCoord{}, false
}

// SetRuntimeArgs sets the arguments of a kernel on some of its cores to the same words.
func SetRuntimeArgs(p *Program, k KernelHandle, cores CoreSpec, args []uint32) error {
	return fail.Try(func() {
		p.setArguments("SetRuntimeArgs", k, cores,
			func(CoreCoord) []RuntimeArg { return wordArguments(args) })
	})
}

// SetRuntimeArgsPerCore sets the arguments of a kernel on each core of a list to words for that
// core.
func SetRuntimeArgsPerCore(p *Program, k KernelHandle, cores []CoreCoord,
	args [][]uint32) (err error) {
	defer fail.Catch(&err)
	if len(cores) != len(args) {
		refuse("there are %d cores, but %d lists of arguments", len(cores), len(args))
	}
	var set CoreRangeSet
	for _, c := range cores {
		set = append(set, CoreRange{c, c})
	}
	p.setArguments("SetRuntimeArgsPerCore", k, set,
		func(c CoreCoord) []RuntimeArg { return wordArguments(args[slices.Index(cores, c)]) })
	return nil
}

// SetRuntimeArgsBuffers sets the arguments of a kernel on some of its cores to the same values,
// which may be addresses of buffers at the time of the launch.
func SetRuntimeArgsBuffers(p *Program, k KernelHandle, cores CoreSpec,
	args []RuntimeArg) (err error) {
	defer fail.Catch(&err)
	args = slices.Clone(args)
	p.setArguments("SetRuntimeArgsBuffers", k, cores, func(CoreCoord) []RuntimeArg { return args })
	return nil
}

func wordArguments(list []uint32) (args []RuntimeArg) {
	for _, w := range list {
		args = append(args, Word(w))
	}
	return args
}

// setArguments sets the arguments of a kernel on cores. `of` returns the arguments for a core, and
// name is the name of the exported call.
func (p *Program) setArguments(name string, handle KernelHandle, spec CoreSpec,
	of func(CoreCoord) []RuntimeArg) {
	d := p.use()
	k := p.kernel(handle)
	cores := d.cores(spec)
	for _, c := range cores {
		if !slices.Contains(k.cores, c) {
			refuse("kernel %d is not on core %v", k.id, c)
		}
		if n := len(of(c)); n > ArgumentsMax {
			refuse("%d arguments are too many: a kernel has room for %d", n, ArgumentsMax)
		}
		for _, a := range of(c) {
			d.checkArgument(a)
		}
	}
	for _, c := range cores {
		k.arguments[c] = of(c)
	}
	d.record(Call{Name: name, Program: p.id, Kernel: k.id})
}

// checkArgument fails if an argument is a buffer that is not of this device, was released, or has
// an address of more than 32 bits.
func (d *Device) checkArgument(a RuntimeArg) {
	if a.buffer == nil {
		return
	}
	d.check("buffer", a.buffer.id, a.buffer)
	if a.buffer.address >= 1<<32 {
		refuse("the address of buffer %d, %#x, does not fit into a 32-bit argument", a.buffer.id,
			a.buffer.address)
	}
}

// kernel returns the kernel of the program with a global id.
func (p *Program) kernel(handle KernelHandle) *kernel {
	for _, k := range p.kernels {
		if k.id == uint64(handle) {
			return k
		}
	}
	refuse("kernel %d does not belong to program %d", handle, p.id)
	return nil
}

// CreateSemaphore creates a semaphore on cores, which has the given initial value at each launch.
// It returns the number of the semaphore for kernels.
func CreateSemaphore(p *Program, cores CoreSpec, initial uint32) (_ uint32, err error) {
	defer fail.Catch(&err)
	d := p.use()
	if len(p.semaphores) == SemaphoresMax {
		refuse("too many semaphores: a program may have at most %d", SemaphoresMax)
	}
	list := d.cores(cores)
	id := uint32(len(p.semaphores))
	p.semaphores = append(p.semaphores, semaphore{id, list, initial})
	d.record(Call{Name: "CreateSemaphore", Program: p.id})
	return id, nil
}
