package metal

import (
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/tools/image/fail"
)

// Program is kernels with their arguments, circular buffers and semaphores, to
// be launched together.
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

// KernelConfig says which processor runs a kernel: a DataMovementConfig or a
// ComputeConfig.
type KernelConfig interface {
	processor() Processor
	noc() NOC
}

// DataMovementConfig is a kernel for RISCV0 (BRISC) or RISCV1 (NCRISC).
type DataMovementConfig struct {
	Processor Processor
	NOC       NOC // the network it uses; two kernels of a core use one each
}

// ComputeConfig is a kernel for TRISC0, TRISC1 or TRISC2. It is plain RISC-V:
// the matrix and vector engines are not set up for it.
type ComputeConfig struct {
	Processor Processor // BRISC, the zero value, means TRISC0
}

func (c DataMovementConfig) processor() Processor {
	if c.Processor != BRISC && c.Processor != NCRISC {
		refuse("a data movement kernel must run on RISCV0 (BRISC) or RISCV1 (NCRISC)")
	}
	if c.NOC > NOC1 {
		refuse("there is no NOC%d", c.NOC)
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

// kernel is a kernel of a program.
type kernel struct {
	id        uint64
	cores     []CoreCoord
	processor Processor
	noc       NOC
	image     *image
	vector    *block // a jump at the processor's start; nil: the kernel starts there
	arguments map[CoreCoord][]RuntimeArg
}

// RuntimeArg is one argument of a kernel: a word, or a buffer, of which the
// kernel is given the address at the time of the launch. The zero value is 0.
type RuntimeArg struct {
	word   uint32
	buffer *Buffer
}

// Word is an argument that is a number.
func Word(v uint32) RuntimeArg { return RuntimeArg{word: v} }

// AddressOf is an argument that is a buffer's address.
func AddressOf(b *Buffer) RuntimeArg { return RuntimeArg{buffer: b} }

type semaphore struct {
	id      uint32
	cores   []CoreCoord
	initial uint32
}

// CreateProgram makes an empty program.
func CreateProgram(d *Device) (_ *Program, err error) {
	defer fail.Catch(&err)
	d.use()
	p := &Program{device: d}
	p.id = d.newID(p)
	d.record(Call{Name: "CreateProgram", Program: p.id})
	return p, nil
}

// ReleaseProgram ends a program's life. Upstream's destructor does it.
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

// ID is the program's global id.
func (p *Program) ID() uint64 { return p.id }

func (p *Program) use() *Device {
	if p == nil || p.device == nil {
		refuse("the program is nil, or was not made by CreateProgram")
	}
	p.device.check("program", p.id, p)
	p.device.use()
	return p.device
}

// CreateKernel puts a precompiled kernel, a RISC-V ELF executable, on cores. It
// is loaded where it is linked, below kernelEnd of L1 (ABI.md); where that is
// not where the processor starts, a jump is put there.
func CreateKernel(p *Program, elf []byte, cores CoreSpec, config KernelConfig) (_ KernelHandle,
	err error) {
	defer fail.Catch(&err)
	d := p.use()
	if config == nil {
		refuse("a kernel needs a DataMovementConfig or a ComputeConfig")
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

// place checks that a kernel gets along with the others on its cores.
func (p *Program) place(k *kernel) {
	start := chips.Of(p.device.board).Grid.Reset.Cores[k.processor].PC
	if k.image.entry != start {
		jump := jump(start, k.image.entry)
		k.vector = &jump
	}
	for i, s := range k.spans() {
		for _, t := range k.spans()[:i] {
			if s.overlaps(t) {
				refuse("two segments of the kernel, or a segment and the jump to its entry, "+
					"overlap at %#x",
					max(s.first, t.first))
			}
		}
	}
	for _, other := range p.kernels {
		core, shared := common(k.cores, other.cores)
		if !shared {
			continue
		}
		if other.processor == k.processor {
			refuse("core %v already has kernel %d on this processor", core, other.id)
		}
		for _, s := range k.spans() {
			for _, t := range other.spans() {
				if s.overlaps(t) {
					refuse("kernel at %#x..%#x overlaps kernel %d at %#x..%#x on core %v", s.first,
						s.end, other.id, t.first, t.end, core)
				}
			}
		}
	}
}

// spans is all of L1 that a kernel takes.
func (k *kernel) spans() []span {
	if k.vector == nil {
		return k.image.spans
	}
	return append(slices.Clone(k.image.spans), k.vector.span())
}

// common finds a core that is in both lists.
func common(a, b []CoreCoord) (CoreCoord, bool) {
	for _, c := range a {
		if slices.Contains(b, c) {
			return c, true
		}
	}
	return CoreCoord{}, false
}

// SetRuntimeArgs gives the same words to a kernel on some of its cores.
func SetRuntimeArgs(p *Program, k KernelHandle, cores CoreSpec, args []uint32) error {
	return fail.Try(func() {
		p.setArguments("SetRuntimeArgs", k, cores,
			func(CoreCoord) []RuntimeArg { return wordArguments(args) })
	})
}

// SetRuntimeArgsPerCore gives each of a list of cores its own words.
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

// SetRuntimeArgsBuffers gives the same arguments, buffers among them, to a
// kernel on some of its cores. Addresses are those at the time of the launch.
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
			refuse("%d arguments do not fit: a kernel has room for %d", n, ArgumentsMax)
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

func (d *Device) checkArgument(a RuntimeArg) {
	if a.buffer == nil {
		return
	}
	d.check("buffer", a.buffer.id, a.buffer)
	if a.buffer.address >= 1<<32 {
		refuse("buffer %d is at %#x, which does not fit a 32-bit argument", a.buffer.id,
			a.buffer.address)
	}
}

func (p *Program) kernel(handle KernelHandle) *kernel {
	for _, k := range p.kernels {
		if k.id == uint64(handle) {
			return k
		}
	}
	refuse("kernel %d is not one of program %d", handle, p.id)
	return nil
}

// CreateSemaphore gives cores a semaphore, which has its initial value at each
// launch. The result is its number for kernels.
func CreateSemaphore(p *Program, cores CoreSpec, initial uint32) (_ uint32, err error) {
	defer fail.Catch(&err)
	d := p.use()
	if len(p.semaphores) == SemaphoresMax {
		refuse("a program has at most %d semaphores", SemaphoresMax)
	}
	list := d.cores(cores)
	id := uint32(len(p.semaphores))
	p.semaphores = append(p.semaphores, semaphore{id, list, initial})
	d.record(Call{Name: "CreateSemaphore", Program: p.id})
	return id, nil
}
