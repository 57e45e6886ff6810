package metal

import (
	"cmp"
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
)

// BufferType is the kind of memory that contains a buffer.
type BufferType uint8

const (
	DRAM BufferType = iota + 1
	L1
)

// BufferLayout is the way in which the pages of a buffer are distributed over banks.
type BufferLayout uint8

const (
	Interleaved   BufferLayout = iota // page i is in bank i modulo the number of banks
	HeightSharded                     // each core has complete rows of pages
	WidthSharded                      // each core has complete columns of pages
	BlockSharded                      // each core of a rectangle has a block of pages
)

// Orientation is the order in which shards are assigned to cores.
type Orientation uint8

const (
	RowMajor Orientation = iota
	ColumnMajor
)

// ShardSpec describes how a buffer, whose pages form a matrix, is divided into equal blocks of
// pages (shards), one for each core. For a buffer in DRAM, core (n, 0) stands for DRAM bank n.
type ShardSpec struct {
	Grid        CoreSpec // cores that have a shard
	Tensor      [2]int   // rows and columns of pages in the buffer
	Shard       [2]int   // rows and columns of pages in a shard
	Orientation Orientation
}

// BufferConfig describes a buffer to create.
type BufferConfig struct {
	Size     uint64 // bytes, a multiple of PageSize
	PageSize uint64 // bytes, a multiple of 4
	Type     BufferType
	Layout   BufferLayout
	Shard    *ShardSpec // only for sharded layouts, else nil
	BottomUp *bool      // use the lowest free address; nil: as in tt-metal, only in DRAM
	Address  *uint64    // fixed address; nil: the allocator chooses one
}

// Buffer is memory of a device that the host and kernels share.
type Buffer struct {
	device  *Device
	id      uint64 // global id
	config  BufferConfig
	address uint64       // address of the first page in each bank
	stride  uint64       // bytes from the start of a page to that of the next in a bank
	banks   []chips.Tile // tiles of the banks; place.bank is an index
	places  []place      // places of the pages
	input   *tensor      // set by NameInput, else nil
	output  *tensor      // set by NameOutput, else nil
}

// place is the place of a page: the index of the bank, and the number of pages before it there.
type place struct{ bank, slot int }

// tensor describes the input or output that contains the data of a buffer in a replay.
type tensor struct {
	name  string
	dtype gen.DType
	shape []uint32
}

// CreateBuffer creates a buffer at the address that the configuration requests, or at an address
// that the allocator chooses. It does not clear the memory.
func CreateBuffer(d *Device, c BufferConfig) (_ *Buffer, err error) {
	defer fail.Catch(&err)
	d.use()
	b := &Buffer{device: d, config: c, stride: c.PageSize}
	if c.Type == DRAM {
		b.stride = roundUp(c.PageSize, align)
	} else {
		b.stride = roundUp(c.PageSize, 16) // alignment that the network requires in L1
	}
	b.plan()
	b.allocate()
	b.id = d.newID(b)
	d.record(Call{Name: "CreateBuffer", Buffer: b.id})
	return b, nil
}

// allocate sets the address of the buffer and reserves its memory.
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

// plan checks the configuration and sets the banks and the places of the pages.
func (b *Buffer) plan() {
	c := &b.config
	switch {
	case c.Type != DRAM && c.Type != L1:
		refuse("a buffer must be in DRAM or in L1")
	case c.PageSize == 0 || c.PageSize%4 != 0:
		refuse("page size %d must be a multiple of 4 bytes, and not 0", c.PageSize)
	case c.Size == 0 || c.Size%c.PageSize != 0:
		refuse("buffer size %d must be a multiple of the page size, %d bytes, and not 0", c.Size,
			c.PageSize)
	case c.Size >= 1<<32:
		refuse("buffer size %d is too large: a buffer must be smaller than 4 GiB", c.Size)
	case c.Layout > BlockSharded:
		refuse("buffer layout %d does not exist", c.Layout)
	case (c.Shard != nil) != (c.Layout != Interleaved):
		refuse("a buffer with a sharded layout must have a ShardSpec, and an interleaved buffer " +
			"must not")
	case c.Shard != nil:
		b.shard(c.Shard)
	default:
		b.interleave()
	}
}

// interleave distributes the pages over all DRAM banks or all cores.
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

// shard distributes the pages over the cores or DRAM banks of a ShardSpec.
func (b *Buffer) shard(s *ShardSpec) {
	pages := int(b.config.Size / b.config.PageSize)
	rows, columns, high, wide := s.Tensor[0], s.Tensor[1], s.Shard[0], s.Shard[1]
	switch {
	case rows <= 0 || columns <= 0 || rows > pages || columns > pages || rows*columns != pages:
		refuse("the ShardSpec has %d x %d pages in all, "+
			"but the buffer has %d pages", rows, columns, pages)
	case high <= 0 || wide <= 0:
		refuse("a shard must not be empty, but has %d x %d pages", high, wide)
	case b.config.Layout == HeightSharded && wide != columns:
		refuse("a shard of a height-sharded buffer must have the width of the tensor, %d pages, "+
			"not %d", columns, wide)
	case b.config.Layout == WidthSharded && high != rows:
		refuse("a shard of a width-sharded buffer must have the height of the tensor, %d pages, "+
			"not %d", rows, high)
	}
	down, across := (rows+high-1)/high, (columns+wide-1)/wide
	b.shardBanks(s, down, across)
	for page := range pages {
		r, c := page/columns, page%columns
		b.places = append(b.places, place{r/high*across + c/wide, r%high*wide + c%wide})
	}
}

// shardBanks sets the bank of each shard, row by row. `down` and `across` are the numbers of rows
// and columns of shards.
func (b *Buffer) shardBanks(s *ShardSpec, down, across int) {
	list := b.device.shardCores(b.config.Type, s.Grid)
	switch {
	case b.config.Layout == BlockSharded:
		list = s.blockCores(list, down, across)
	case len(list) < down*across:
		refuse("%d shards need one core each, but the grid has %d cores", down*across, len(list))
	case s.Orientation == ColumnMajor:
		slices.SortStableFunc(list, func(a, b CoreCoord) int { return cmp.Or(a.X-b.X, a.Y-b.Y) })
	}
	b.banks = b.device.bankTiles(b.config.Type, list[:down*across])
}

// blockCores returns the core of each shard of a block-sharded buffer, row by row. list contains
// the cores of the grid, which must be a rectangle.
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

// shardCores returns the cores that spec names. For a buffer in DRAM, they must stand for DRAM
// banks.
func (g *grid) shardCores(t BufferType, spec CoreSpec) []CoreCoord {
	list := g.cores(spec)
	for _, c := range list {
		if t == DRAM && (c.Y != 0 || c.X >= len(g.banks)) {
			refuse("%v is not a DRAM bank; the DRAM banks are (0,0) to (%d,0)", c, len(g.banks)-1)
		}
	}
	return list
}

// bankTiles returns the tiles of cores or, for a buffer in DRAM, of the DRAM banks for which the
// cores stand.
func (g *grid) bankTiles(t BufferType, cores []CoreCoord) (list []chips.Tile) {
	if t == L1 {
		return g.tiles(cores)
	}
	for _, c := range cores {
		list = append(list, g.banks[c.X])
	}
	return list
}

// ID returns the global id of the buffer.
func (b *Buffer) ID() uint64 { return b.id }

// Address returns the address of the buffer, which is the same in each of its banks.
func (b *Buffer) Address() uint64 { return b.address }

// Size returns the number of bytes of the buffer, without the padding between pages in a bank.
func (b *Buffer) Size() uint64 { return b.config.Size }

// PageSize returns the number of bytes of a page.
func (b *Buffer) PageSize() uint64 { return b.config.PageSize }

// Tile returns the coordinates of the tile that contains a page, as kernels encode them: x | y <<
// 8.
func (b *Buffer) Tile(page int) uint32 { return word(b.banks[b.places[page].bank]) }

// DeallocateBuffer releases the memory of a buffer. Every later call with the buffer returns an
// error.
func DeallocateBuffer(b *Buffer) (err error) {
	defer fail.Catch(&err)
	d := b.use()
	b.allocator().release(b.address)
	delete(d.alive, b.id)
	d.record(Call{Name: "DeallocateBuffer", Buffer: b.id})
	return nil
}

// use returns the device of the buffer. It fails if the buffer was not created or was released, or
// if the device is closed.
func (b *Buffer) use() *Device {
	if b == nil || b.device == nil {
		refuse("the buffer is nil, or was not made by CreateBuffer")
	}
	b.device.check("buffer", b.id, b)
	b.device.use()
	return b.device
}

// NameInput makes the data of later calls of EnqueueWriteBuffer for this buffer an input of the
// image, if they are captured. The captured data are the default of the input, and a replay may use
// other data. If a later write has different data, these become a further input, NAME.2 and so on.
// tt-metal has no such call.
func NameInput(b *Buffer, name string, dtype gen.DType, shape ...uint32) error {
	return fail.Try(func() { b.input = b.newTensor(name, dtype, shape) })
}

// NameOutput sets the name, type and shape of the output that later captured calls of
// EnqueueReadBuffer make of this buffer. The output of the second read is NAME.2 and so on. Without
// this call, the output is named buffer-ID and has the type uint8. tt-metal has no such call.
func NameOutput(b *Buffer, name string, dtype gen.DType, shape ...uint32) error {
	return fail.Try(func() { b.output = b.newTensor(name, dtype, shape) })
}

// newTensor returns a tensor that describes all bytes of the buffer.
func (b *Buffer) newTensor(name string, dtype gen.DType, shape []uint32) *tensor {
	b.use()
	size := uint64(fbs.DTypeSize(dtype))
	for _, n := range shape {
		size *= uint64(n)
	}
	switch {
	case name == "" || len(name) > fbs.NameMax-8:
		refuse("tensor name %q must have 1 to %d bytes", name, fbs.NameMax-8)
	case len(shape) > fbs.DimsMax:
		refuse("tensor %s has %d dimensions, but at most %d are possible", name, len(shape),
			fbs.DimsMax)
	case size != b.config.Size:
		refuse("tensor %s has %d bytes, but the buffer has %d bytes", name, size, b.config.Size)
	}
	return &tensor{name, dtype, slices.Clone(shape)}
}

// run is a range of bytes in one bank. Its data consist of one or more parts of the host's data.
type run struct {
	tile    chips.Tile
	address uint64
	size    uint64
	parts   []span // ranges of the host's data, in the order of the bytes in the bank
}

// runs returns the buffer as runs, in the order of banks and addresses. Adjacent pages in a bank
// are in the same run; if they are also adjacent in the host's data, they are in the same part.
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

// gather returns the bytes of the run, taken from the host's data.
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
