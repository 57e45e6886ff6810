package metal

import (
	"maps"
	"slices"

	"lightmetal/tools/image/fail"
)

// CircularBufferConfig describes circular buffers that share memory on a core.
type CircularBufferConfig struct {
	TotalSize uint64           // bytes of memory
	PageSizes map[uint8]uint64 // page size by index, 0 to 31; indices share the memory

	// Buffer, where it is not nil, is the memory: a dynamic circular buffer
	// lies on a sharded L1 buffer, wherever that is when the program is
	// launched. Else the memory follows that of the program's other circular
	// buffers from the first free address of L1 on.
	Buffer *Buffer
}

// circular is a circular buffer of a program.
type circular struct {
	id     uint64
	cores  []CoreCoord
	config CircularBufferConfig
}

// CreateCircularBuffer gives cores a circular buffer.
func CreateCircularBuffer(p *Program, cores CoreSpec, config CircularBufferConfig) (_ CBHandle,
	err error) {
	defer fail.Catch(&err)
	d := p.use()
	config.PageSizes = maps.Clone(config.PageSizes)
	c := &circular{config: config}
	c.cores = d.cores(cores)
	c.check(d)
	for _, other := range p.circulars {
		core, shared := common(c.cores, other.cores)
		for index := range config.PageSizes {
			if _, taken := other.config.PageSizes[index]; shared && taken {
				refuse("circular buffer %d exists already on core %v", index, core)
			}
		}
	}
	c.id = d.newID(c)
	p.circulars = append(p.circulars, c)
	d.record(Call{Name: "CreateCircularBuffer", Program: p.id, CircularBuffer: c.id})
	return CBHandle(c.id), nil
}

// check refuses a configuration that is wrong.
func (c *circular) check(d *Device) {
	f := &c.config
	if len(f.PageSizes) == 0 {
		refuse("a circular buffer needs an index with its page size")
	}
	for _, index := range slices.Sorted(maps.Keys(f.PageSizes)) {
		size := f.PageSizes[index]
		if index >= CircularBuffersMax {
			refuse("circular buffer %d does not exist: indices are 0 to "+
				"%d", index, CircularBuffersMax-1)
		}
		if size == 0 || size%16 != 0 || f.TotalSize == 0 || f.TotalSize%size != 0 {
			refuse("circular buffer %d: %d bytes are not a whole number of pages of %d bytes, "+
				"which are a multiple of 16", index, f.TotalSize, size)
		}
	}
	if room := d.l1.limit.end - dataBase; f.TotalSize > room {
		refuse("circular buffer of %d bytes does not fit into L1, which has %d", f.TotalSize, room)
	}
	if f.Buffer != nil {
		c.checkBuffer(d, f.Buffer)
	}
}

func (c *circular) checkBuffer(d *Device, b *Buffer) {
	d.check("buffer", b.id, b)
	if b.config.Type != L1 || b.config.Layout == Interleaved {
		refuse("a circular buffer needs a sharded buffer in L1, which buffer %d is not", b.id)
	}
	tiles := map[uint32]int{}
	for _, p := range b.places {
		tiles[word(b.banks[p.bank])] = max(tiles[word(b.banks[p.bank])], p.slot+1)
	}
	for _, core := range c.cores {
		if room := uint64(tiles[word(d.tile(core))]) * b.stride; room < c.config.TotalSize {
			refuse("circular buffer of %d bytes is larger than the %d bytes of buffer %d on "+
				"core %v", c.config.TotalSize, room, b.id, core)
		}
	}
}

// UpdateCircularBufferTotalSize changes the memory of a circular buffer from
// the next launch on.
func UpdateCircularBufferTotalSize(p *Program, h CBHandle, size uint64) error {
	return fail.Try(func() {
		p.update("UpdateCircularBufferTotalSize", h,
			func(c *CircularBufferConfig) { c.TotalSize = size })
	})
}

// UpdateCircularBufferPageSize changes the page size of one index from the next
// launch on.
func UpdateCircularBufferPageSize(p *Program, h CBHandle, index uint8, size uint64) (err error) {
	defer fail.Catch(&err)
	p.update("UpdateCircularBufferPageSize", h, func(c *CircularBufferConfig) {
		if _, ok := c.PageSizes[index]; !ok {
			refuse("circular buffer %d has no index %d", h, index)
		}
		c.PageSizes = maps.Clone(c.PageSizes)
		c.PageSizes[index] = size
	})
	return nil
}

// UpdateDynamicCircularBufferAddress puts a circular buffer on another sharded
// L1 buffer from the next launch on.
func UpdateDynamicCircularBufferAddress(p *Program, h CBHandle, b *Buffer) (err error) {
	defer fail.Catch(&err)
	p.update("UpdateDynamicCircularBufferAddress", h, func(c *CircularBufferConfig) {
		if b == nil {
			refuse("the buffer is nil")
		}
		c.Buffer = b
	})
	return nil
}

func (p *Program) update(name string, h CBHandle, change func(*CircularBufferConfig)) {
	d := p.use()
	at := slices.IndexFunc(p.circulars, func(c *circular) bool { return c.id == uint64(h) })
	if at < 0 {
		refuse("circular buffer %d is not one of program %d", h, p.id)
	}
	c := *p.circulars[at]
	change(&c.config)
	c.check(d)
	p.circulars[at] = &c
	d.record(Call{Name: name, Program: p.id, CircularBuffer: c.id})
}
