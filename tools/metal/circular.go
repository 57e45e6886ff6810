package metal

import (
	"maps"
	"slices"

	"lightmetal/tools/image/fail"
)

// CircularBufferConfig describes circular buffers that share the same memory on each core.
type CircularBufferConfig struct {
	TotalSize uint64           // bytes of memory on each core
	PageSizes map[uint8]uint64 // page size of each circular buffer, by its index, 0 to 31

	// Buffer is the memory of a dynamic circular buffer: a sharded buffer in L1, at its address at
	// the time of the launch. If Buffer is nil, the memory follows that of the program's other
	// circular buffers, from the first free address of L1 on.
	Buffer *Buffer
}

// circular has the circular buffers that one call created.
type circular struct {
	id     uint64
	cores  []CoreCoord
	config CircularBufferConfig
}

// CreateCircularBuffer creates circular buffers on cores. A core has at most one for each index.
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
				refuse("circular buffer %d already exists on core %v", index, core)
			}
		}
	}
	c.id = d.newID(c)
	p.circulars = append(p.circulars, c)
	d.record(Call{Name: "CreateCircularBuffer", Program: p.id, CircularBuffer: c.id})
	return CBHandle(c.id), nil
}

// check fails if the configuration is invalid.
func (c *circular) check(d *Device) {
	f := &c.config
	if len(f.PageSizes) == 0 {
		refuse("a circular buffer needs at least one index with a page size in PageSizes")
	}
	for _, index := range slices.Sorted(maps.Keys(f.PageSizes)) {
		size := f.PageSizes[index]
		if index >= CircularBuffersMax {
			refuse("the index %d of a circular buffer "+
				"must be 0 to %d", index, CircularBuffersMax-1)
		}
		if size == 0 || size%16 != 0 || f.TotalSize == 0 || f.TotalSize%size != 0 {
			refuse("circular buffer %d: the size, %d bytes, must be a multiple of the page size, "+
				"%d bytes, and the page size must be a multiple of 16 bytes; neither may be 0",
				index, f.TotalSize, size)
		}
	}
	if room := d.l1.limit.end - dataBase; f.TotalSize > room {
		refuse("a circular buffer of %d bytes does not fit into L1, which has room for %d bytes",
			f.TotalSize, room)
	}
	if f.Buffer != nil {
		c.checkBuffer(d, f.Buffer)
	}
}

// checkBuffer fails if the buffer b cannot contain the circular buffers.
func (c *circular) checkBuffer(d *Device, b *Buffer) {
	d.check("buffer", b.id, b)
	if b.config.Type != L1 || b.config.Layout == Interleaved {
		refuse("buffer %d must be sharded and in L1 to contain a circular buffer", b.id)
	}
	tiles := map[uint32]int{}
	for _, p := range b.places {
		tiles[word(b.banks[p.bank])] = max(tiles[word(b.banks[p.bank])], p.slot+1)
	}
	for _, core := range c.cores {
		if room := uint64(tiles[word(d.tile(core))]) * b.stride; room < c.config.TotalSize {
			refuse("a circular buffer of %d bytes is larger than "+
				"the %d bytes of buffer %d on core %v", c.config.TotalSize, room, b.id, core)
		}
	}
}

// UpdateCircularBufferTotalSize changes the size of a circular buffer's memory. The change applies
// to later launches.
func UpdateCircularBufferTotalSize(p *Program, h CBHandle, size uint64) error {
	return fail.Try(func() {
		p.update("UpdateCircularBufferTotalSize", h,
			func(c *CircularBufferConfig) { c.TotalSize = size })
	})
}

// UpdateCircularBufferPageSize changes the page size of one index. The change applies to later
// launches.
func UpdateCircularBufferPageSize(p *Program, h CBHandle, index uint8, size uint64) (err error) {
	defer fail.Catch(&err)
	p.update("UpdateCircularBufferPageSize", h, func(c *CircularBufferConfig) {
		if _, ok := c.PageSizes[index]; !ok {
			refuse("circular buffer %d has no page size for buffer index %d, but for %v", h, index,
				slices.Sorted(maps.Keys(c.PageSizes)))
		}
		c.PageSizes = maps.Clone(c.PageSizes)
		c.PageSizes[index] = size
	})
	return nil
}

// UpdateDynamicCircularBufferAddress moves a circular buffer to another sharded buffer in L1. The
// change applies to later launches.
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

// update replaces the configuration of a circular buffer by a copy that `change` has modified. name
// is the name of the exported call.
func (p *Program) update(name string, h CBHandle, change func(*CircularBufferConfig)) {
	d := p.use()
	at := slices.IndexFunc(p.circulars, func(c *circular) bool { return c.id == uint64(h) })
	if at < 0 {
		refuse("circular buffer %d does not belong to program %d", h, p.id)
	}
	c := *p.circulars[at]
	change(&c.config)
	c.check(d)
	p.circulars[at] = &c
	d.record(Call{Name: name, Program: p.id, CircularBuffer: c.id})
}
