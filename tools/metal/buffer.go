package metal

import (
	"cmp"
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
)

// BufferType says which memory a buffer is in.
type BufferType uint8

const (
	DRAM BufferType = iota + 1
	L1
)

// BufferLayout says how the pages of a buffer are spread over banks.
type BufferLayout uint8

const (
	Interleaved   BufferLayout = iota // page i is in bank i modulo their number
	HeightSharded                     // each core has some rows of pages
	WidthSharded                      // each core has some columns of pages
	BlockSharded                      // each core of a rectangle has a block of pages
)

// Orientation is the order in which cores take shards.
type Orientation uint8

const (
	RowMajor Orientation = iota
	ColumnMajor
)

// ShardSpec cuts a buffer, whose pages form a matrix, into equal blocks of
// pages, one a core. A DRAM bank is core (bank, 0).
type ShardSpec struct {
	Grid        CoreSpec
	Tensor      [2]int // rows and columns of pages of the buffer
	Shard       [2]int // of them, rows and columns of a core
	Orientation Orientation
}

// BufferConfig describes a buffer to create.
type BufferConfig struct {
	Size     uint64 // bytes, a multiple of PageSize
	PageSize uint64 // bytes, a multiple of 4
	Type     BufferType
	Layout   BufferLayout
	Shard    *ShardSpec // of a sharded layout
	BottomUp *bool      // lowest free address first; nil: as upstream, yes in DRAM, no in L1
	Address  *uint64    // nil: the allocator chooses
}

// Buffer is memory of a device that host and kernels share.
type Buffer struct {
	device  *Device
	id      uint64
	config  BufferConfig
	address uint64
	stride  uint64       // from a page to the next in a bank
	banks   []chips.Tile // in the order of places
	places  []place      // by page
	input   *tensor
	output  *tensor
}

// place is where a page is: a bank, by index, and how many pages into it.
type place struct{ bank, slot int }

// tensor is the name under which a replay gives data to a buffer or takes them.
type tensor struct {
	name  string
	dtype gen.DType
	shape []uint32
}

// CreateBuffer plans a buffer: the allocator chooses its address, or takes the
// one that is asked for. Its memory is not cleared.
func CreateBuffer(d *Device, c BufferConfig) (_ *Buffer, err error) {
	defer fail.Catch(&err)
	d.use()
	b := &Buffer{device: d, config: c, stride: c.PageSize}
	if c.Type == DRAM {
		b.stride = roundUp(c.PageSize, align)
	} else {
		b.stride = roundUp(c.PageSize, 16) // as far as the network wants L1 aligned
	}
	b.plan()
	b.allocate()
	b.id = d.newID(b)
	d.record(Call{Name: "CreateBuffer", Buffer: b.id})
	return b, nil
}

func (b *Buffer) allocate() {
	a, c := b.allocator(), &b.config
	slots := 0
	for _, p := range b.places {
		slots = max(slots, p.slot+1)
	}
	size := uint64(slots) * b.stride
	if c.Address != nil {
		b.address = *c.Address
		a.takeAt(b.address, size)
		return
	}
	bottomUp := c.Type == DRAM
	if c.BottomUp != nil {
		bottomUp = *c.BottomUp
	}
	b.address = a.take(size, bottomUp)
}

func (b *Buffer) allocator() *allocator {
	if b.config.Type == DRAM {
		return &b.device.dram
	}
	return &b.device.l1
}

// plan places the pages.
func (b *Buffer) plan() {
	c := &b.config
	switch {
	case c.Type != DRAM && c.Type != L1:
		refuse("a buffer must be in DRAM or in L1")
	case c.PageSize == 0 || c.PageSize%4 != 0:
		refuse("page size %d is not a multiple of 4", c.PageSize)
	case c.Size == 0 || c.Size%c.PageSize != 0:
		refuse("size %d is not a multiple of the page size %d", c.Size, c.PageSize)
	case c.Size >= 1<<32:
		refuse("size %d is too large: a buffer must be smaller than 4 GiB", c.Size)
	case c.Layout > BlockSharded:
		refuse("buffer layout %d does not exist", c.Layout)
	case (c.Shard != nil) != (c.Layout != Interleaved):
		refuse("a sharded layout needs a ShardSpec, and a ShardSpec a sharded layout")
	case c.Shard != nil:
		b.shard(c.Shard)
	default:
		b.interleave()
	}
}

func (b *Buffer) interleave() {
	if b.banks = b.device.banks; b.config.Type == L1 {
		size := b.device.GridSize()
		all := b.device.cores(CoreRange{End: CoreCoord{size.X - 1, size.Y - 1}})
		b.banks = b.device.tiles(all)
	}
	for page := range int(b.config.Size / b.config.PageSize) {
		b.places = append(b.places, place{page % len(b.banks), page / len(b.banks)})
	}
}

func (g *grid) tiles(cores []CoreCoord) (list []chips.Tile) {
	for _, c := range cores {
		list = append(list, g.tile(c))
	}
	return list
}

func (b *Buffer) shard(s *ShardSpec) {
	pages := int(b.config.Size / b.config.PageSize)
	rows, columns, high, wide := s.Tensor[0], s.Tensor[1], s.Shard[0], s.Shard[1]
	switch {
	case rows <= 0 || columns <= 0 || rows > pages || columns > pages || rows*columns != pages:
		refuse("the ShardSpec has %d x %d pages in all, but the buffer has "+
			"%d", rows, columns, pages)
	case high <= 0 || wide <= 0:
		refuse("a shard must not be empty, but has %d x %d pages", high, wide)
	case b.config.Layout == HeightSharded && wide != columns:
		refuse("a height shard must be as wide as the tensor, %d pages, not %d", columns, wide)
	case b.config.Layout == WidthSharded && high != rows:
		refuse("a width shard must be as high as the tensor, %d pages, not %d", rows, high)
	}
	down, across := (rows+high-1)/high, (columns+wide-1)/wide
	b.shardBanks(s, down, across)
	for page := range pages {
		r, c := page/columns, page%columns
		b.places = append(b.places, place{r/high*across + c/wide, r%high*wide + c%wide})
	}
}

// shardBanks gives the bank of each shard, row by row of shards.
func (b *Buffer) shardBanks(s *ShardSpec, down, across int) {
	list := b.device.shardCores(b.config.Type, s.Grid)
	switch {
	case b.config.Layout == BlockSharded:
		list = s.blockCores(list, down, across)
	case len(list) < down*across:
		refuse("%d shards need one core each, but the grid has %d", down*across, len(list))
	case s.Orientation == ColumnMajor:
		slices.SortStableFunc(list, func(a, b CoreCoord) int { return cmp.Or(a.X-b.X, a.Y-b.Y) })
	}
	b.banks = b.device.bankTiles(b.config.Type, list[:down*across])
}

// blockCores lays a matrix of shards on a rectangle of cores.
func (s *ShardSpec) blockCores(list []CoreCoord, down, across int) (cores []CoreCoord) {
	r := rectangles(list)
	if len(r) != 1 {
		refuse("the grid of a block-sharded buffer must be one rectangle")
	}
	height, width := r[0].End.Y-r[0].Start.Y+1, r[0].End.X-r[0].Start.X+1
	if s.Orientation == ColumnMajor {
		height, width = width, height
	}
	if down > height || across > width {
		refuse("%d x %d shards do not fit on a grid of %d x %d cores", down, across, height, width)
	}
	for i := range down * across {
		x, y := i%across, i/across
		if s.Orientation == ColumnMajor {
			x, y = y, x
		}
		cores = append(cores, CoreCoord{r[0].Start.X + x, r[0].Start.Y + y})
	}
	return cores
}

// shardCores lists the cores, or DRAM banks, of a grid.
func (g *grid) shardCores(t BufferType, spec CoreSpec) []CoreCoord {
	list := g.cores(spec)
	for _, c := range list {
		if t == DRAM && (c.Y != 0 || c.X >= len(g.banks)) {
			refuse("%v is not a DRAM bank; banks are (0,0) to (%d,0)", c, len(g.banks)-1)
		}
	}
	return list
}

func (g *grid) bankTiles(t BufferType, cores []CoreCoord) (list []chips.Tile) {
	if t == L1 {
		return g.tiles(cores)
	}
	for _, c := range cores {
		list = append(list, g.banks[c.X])
	}
	return list
}

// ID is the buffer's global id.
func (b *Buffer) ID() uint64 { return b.id }

// Address is where the buffer starts in each of its banks.
func (b *Buffer) Address() uint64 { return b.address }

// Size is the number of bytes, without what lies between pages in a bank.
func (b *Buffer) Size() uint64 { return b.config.Size }

// PageSize is the number of bytes of a page.
func (b *Buffer) PageSize() uint64 { return b.config.PageSize }

// Tile gives the tile that a page is in, as kernels name it: x | y << 8.
func (b *Buffer) Tile(page int) uint32 { return word(b.banks[b.places[page].bank]) }

// DeallocateBuffer gives a buffer's memory back. Using the buffer afterwards is
// an error.
func DeallocateBuffer(b *Buffer) (err error) {
	defer fail.Catch(&err)
	d := b.use()
	b.allocator().release(b.address)
	delete(d.alive, b.id)
	d.record(Call{Name: "DeallocateBuffer", Buffer: b.id})
	return nil
}

// use gives the device of a buffer that is not released, for a call on it.
func (b *Buffer) use() *Device {
	if b == nil || b.device == nil {
		refuse("the buffer is nil, or CreateBuffer did not make it")
	}
	b.device.check("buffer", b.id, b)
	b.device.use()
	return b.device
}

// NameInput makes what EnqueueWriteBuffer writes to a buffer from here on, under
// capture, an input of the image: the data are its default, and a replay may
// give others. Writes of other data than the first make a further input,
// NAME.2. It is lightmetal's own call.
func NameInput(b *Buffer, name string, dtype gen.DType, shape ...uint32) error {
	return fail.Try(func() { b.input = b.newTensor(name, dtype, shape) })
}

// NameOutput names what EnqueueReadBuffer reads from a buffer from here on,
// under capture; the second read gives NAME.2. An unnamed buffer's output is
// uint8, with the name buffer-ID. It is lightmetal's own call.
func NameOutput(b *Buffer, name string, dtype gen.DType, shape ...uint32) error {
	return fail.Try(func() { b.output = b.newTensor(name, dtype, shape) })
}

func (b *Buffer) newTensor(name string, dtype gen.DType, shape []uint32) *tensor {
	b.use()
	size := uint64(fbs.DTypeSize(dtype))
	for _, n := range shape {
		size *= uint64(n)
	}
	switch {
	case name == "" || len(name) > fbs.NameMax-8:
		refuse("a tensor's name has 1 to %d bytes", fbs.NameMax-8)
	case len(shape) > fbs.DimsMax:
		refuse("tensor %s has %d dimensions, at most %d are possible", name, len(shape),
			fbs.DimsMax)
	case size != b.config.Size:
		refuse("tensor %s has %d bytes, but the buffer has %d", name, size, b.config.Size)
	}
	return &tensor{name, dtype, slices.Clone(shape)}
}

// run is bytes that follow each other in a bank: one part of the host's data
// or several.
type run struct {
	tile    chips.Tile
	address uint64
	size    uint64
	parts   []span // of the host's data
}

// runs covers the buffer in order of banks and addresses. Pages that are
// neighbours in a bank make one run; where they are neighbours for the host
// too, they make one part.
func (b *Buffer) runs() (list []run) {
	order := make([]int, len(b.places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(b.places[i].bank-b.places[j].bank, b.places[i].slot-b.places[j].slot)
	})
	size := b.config.PageSize
	for _, page := range order {
		p := b.places[page]
		tile, address, first := b.banks[p.bank], b.address+uint64(p.slot)*b.stride,
			uint64(page)*size
		if n := len(list); n == 0 || list[n-1].tile != tile ||
			list[n-1].address+list[n-1].size != address {
			list = append(list, run{tile: tile, address: address})
		}
		r := &list[len(list)-1]
		r.size += size
		if n := len(r.parts); n > 0 && r.parts[n-1].end == first {
			r.parts[n-1].end += size
		} else {
			r.parts = append(r.parts, span{first, first + size})
		}
	}
	return list
}

// gather collects a run's bytes from the host's data.
func (r *run) gather(data []byte) []byte {
	if len(r.parts) == 1 {
		return slices.Clone(data[r.parts[0].first:r.parts[0].end])
	}
	var list []byte
	for _, p := range r.parts {
		list = append(list, data[p.first:p.end]...)
	}
	return list
}
