/* Access of a kernel to its core, as tools/metal/ABI.md defines it. One ELF file
   serves both chips: if they differ, the code tests the word "chip". The compiler
   option -DPROCESSOR is 0 for BRISC, 1 to 3 for TRISC0 to TRISC2, 4 for NCRISC. */
#ifndef METAL_H
#define METAL_H

typedef unsigned u32;
typedef int i32;
typedef signed char i8;

#define WORD(address) (*(volatile u32 *)(address))

#define STATE 0x20000     /* go word, then 5 done words */
#define COUNTERS 0x20020  /* for each circular buffer: pages pushed, pages popped */
#define SEMAPHORES 0x20120
#define CONSTANTS 0x20240 /* chip, NoC of each processor, number of banks, bank[16] */
#define CIRCULAR 0x20300  /* for each circular buffer: address, size, page size, pages */
#define ARGUMENTS (0x20800 + 0x400 * PROCESSOR)

#define BLACKHOLE (WORD(CONSTANTS) == 1)
#define NOC (WORD(CONSTANTS + 4) >> PROCESSOR & 1)

static inline u32 get_arg(u32 i) { return WORD(ARGUMENTS + 4 * i); }

/* Loads a word from L1 that another core or the network may have changed. */
static inline u32 load_word(u32 address)
{
	if (BLACKHOLE)
		asm volatile("fence" ::: "memory");
	return WORD(address);
}

/* Stores a word. The store has arrived in L1 when the function returns. */
static inline void store_word(u32 address, u32 value)
{
	asm volatile("" ::: "memory");
	WORD(address) = value;
	(void)WORD(address);
}

/* Circular buffers: one core pushes pages, another pops them. */
#define CB_ADDRESS(id) WORD(CIRCULAR + 16 * (id))
#define CB_PAGE(id) WORD(CIRCULAR + 16 * (id) + 8)
#define CB_PAGES(id) WORD(CIRCULAR + 16 * (id) + 12)
#define CB_PUSHED(id) (COUNTERS + 8 * (id))
#define CB_POPPED(id) (COUNTERS + 8 * (id) + 4)

static inline void cb_reserve_back(u32 id, u32 pages)
{
	while (CB_PAGES(id) - (load_word(CB_PUSHED(id)) - load_word(CB_POPPED(id))) < pages)
		;
}

static inline void cb_push_back(u32 id, u32 pages)
{
	(void)WORD(CB_ADDRESS(id)); /* waits until earlier stores have arrived */
	store_word(CB_PUSHED(id), WORD(CB_PUSHED(id)) + pages);
}

static inline void cb_wait_front(u32 id, u32 pages)
{
	while (load_word(CB_PUSHED(id)) - load_word(CB_POPPED(id)) < pages)
		;
}

static inline void cb_pop_front(u32 id, u32 pages)
{
	store_word(CB_POPPED(id), WORD(CB_POPPED(id)) + pages);
}

static inline u32 get_write_ptr(u32 id) {
	return CB_ADDRESS(id) + load_word(CB_PUSHED(id)) % CB_PAGES(id) * CB_PAGE(id);
}
static inline u32 get_read_ptr(u32 id) {
	return CB_ADDRESS(id) + load_word(CB_POPPED(id)) % CB_PAGES(id) * CB_PAGE(id);
}

/* Semaphores of this core. */
#define SEMAPHORE(id) (SEMAPHORES + 16 * (id))
static inline void semaphore_set(u32 id, u32 value) { store_word(SEMAPHORE(id), value); }
static inline void semaphore_wait(u32 id, u32 value)
{
	while (load_word(SEMAPHORE(id)) != value)
		;
}

/* The network. A tile is encoded as x | y << 8 in arguments and in the table of
   banks. ABI.md describes the alignments. */
#define NIU(offset) WORD(0xFFB20000 + 0x10000 * NOC + (offset))
#define WR_ACK_RECEIVED 0x204
#define RD_RESP_RECEIVED 0x208

static u32 noc_reads, noc_reads_before, noc_writes, noc_writes_before;

static inline u32 noc_coordinate(u32 tile)
{
	u32 x = tile & 0xff, y = tile >> 8;
	if (!BLACKHOLE && NOC && x < 10) { /* NoC 1 of Wormhole counts from the opposite corner */
		x = 9 - x;
		y = 11 - y;
	}
	return x | y << 6;
}

static inline u32 noc_self(void) { return NIU(BLACKHOLE ? 0x148 : 0x138) & 0xfff; }

static void noc_request(u32 control, u32 from, u32 from_address, u32 to, u32 to_address, u32 size)
{
	u32 bh = BLACKHOLE, go = bh ? 0x40 : 0x28;
	while (NIU(go))
		;
	NIU(0x00) = from_address;
	NIU(0x04) = bh ? 0 : from << 4;
	NIU(0x0c) = to_address;
	NIU(0x10) = bh ? 0 : to << 4;
	if (bh) {
		NIU(0x08) = from;
		NIU(0x14) = to;
	}
	NIU(0x18) = 0;
	NIU(0x1c) = control;
	NIU(0x20) = size;
	NIU(go) = 1;
}

#define NOC_SIZE_MAX 8192 /* largest size of one request, on both chips */

static void noc_async_read(u32 tile, u32 address, u32 l1, u32 size)
{
	u32 far = noc_coordinate(tile), own = noc_self();
	if (noc_reads == 0)
		noc_reads_before = NIU(RD_RESP_RECEIVED);
	for (; size; noc_reads++) {
		u32 n = size < NOC_SIZE_MAX ? size : NOC_SIZE_MAX;
		noc_request(0x10, far, address, own, l1, n);
		address += n, l1 += n, size -= n;
	}
}

static void noc_async_read_barrier(void)
{
	while (NIU(RD_RESP_RECEIVED) - noc_reads_before < noc_reads)
		;
	noc_reads = 0;
	load_word(STATE);
}

static void noc_async_write(u32 l1, u32 tile, u32 address, u32 size)
{
	u32 far = noc_coordinate(tile), own = noc_self();
	(void)WORD(l1 + size - 4); /* waits until the core's own stores are in L1 */
	if (noc_writes == 0)
		noc_writes_before = NIU(WR_ACK_RECEIVED);
	for (; size; noc_writes++) {
		u32 n = size < NOC_SIZE_MAX ? size : NOC_SIZE_MAX;
		noc_request(0x12, own, l1, far, address, n);
		address += n, l1 += n, size -= n;
	}
}

static void noc_async_write_barrier(void)
{
	while (NIU(WR_ACK_RECEIVED) - noc_writes_before < noc_writes)
		;
	noc_writes = 0;
}

/* Pages of an interleaved DRAM buffer, distributed over the banks. The distance
   of pages in a bank is their size, rounded up to a multiple of 64. */
#define BANKS WORD(CONSTANTS + 8)
#define BANK(i) WORD(CONSTANTS + 12 + 4 * (i))
static inline u32 page_tile(u32 page) { return BANK(page % BANKS); }
static inline u32 page_address(u32 base, u32 page, u32 size) {
	return base + page / BANKS * ((size + 63) & ~63u);
}

static inline void read_page(u32 base, u32 page, u32 size, u32 l1) {
	noc_async_read(page_tile(page), page_address(base, page, size), l1, size);
}
static inline void write_page(u32 l1, u32 base, u32 page, u32 size) {
	noc_async_write(l1, page_tile(page), page_address(base, page, size), size);
}

#endif
