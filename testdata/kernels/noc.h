/* A tile's own interface to the network on chip, enough for data movement. -DBLACKHOLE chooses the
   chip, whose registers lie elsewhere (ttsim v1.10.0 data/{wh,bh}/tile_regs.json; bits of NOC_CTRL:
   src/tile.cpp, noc_cmd_ctrl).

   A coordinate is x | y << 6. Own coordinates come from NOC_ID_LOGICAL, which means this tile on
   either NoC. Others are plain NoC 0 coordinates on NoC 0; on NoC 1 of Wormhole they count from the
   other corner, (9 - x, 11 - y).

   Requests are copied out of the registers when CMD_CTRL is set, and done when a counter has moved
   on. The counters never go back to zero, not by a reset of the core either: look before the
   request, not after. */
typedef unsigned u32;

#ifdef BLACKHOLE
#define NOC_BUFFERS 0x800 /* bytes from one command buffer to the next, of four */
#define NOC_AT_DATA 0x28
#define NOC_CMD_CTRL 0x40
#define NOC_ID_LOGICAL 0x148
#define NOC_PACKET 16384u /* bytes of one request at most */
#else
#define NOC_BUFFERS 0x400
#define NOC_AT_DATA 0x24
#define NOC_CMD_CTRL 0x28
#define NOC_ID_LOGICAL 0x138
#define NOC_PACKET 8192u
#endif
#define NOC_TARG_ADDR_LO 0x00
#define NOC_TARG_ADDR_MID 0x04
/* Blackhole: the coordinate, which Wormhole has in MID, from bit 4 on */
#define NOC_TARG_ADDR_HI 0x08
#define NOC_RET_ADDR_LO 0x0C
#define NOC_RET_ADDR_MID 0x10
#define NOC_RET_ADDR_HI 0x14
#define NOC_PACKET_TAG 0x18
#define NOC_CTRL 0x1C
#define NOC_AT_LEN_BE 0x20
#define NIU_MST_ATOMIC_RESP_RECEIVED 0x200
#define NIU_MST_WR_ACK_RECEIVED 0x204
#define NIU_MST_RD_RESP_RECEIVED 0x208

#define NOC_CMD_AT (1 << 0)
#define NOC_CMD_WR (1 << 1)
#define NOC_CMD_WR_INLINE (1 << 3)
#define NOC_CMD_RESP_MARKED (1 << 4) /* with an answer that is counted; else posted */
#define NOC_CMD_BRCST_PACKET (1 << 5)
#define NOC_CMD_PATH_RESERVE (1 << 8)

#define NOC_AT_INCREMENT 0x107C /* NOC_AT_LEN_BE: get and increment, wraps after 32 bits */

#define NOC_REG(noc, offset) (*(volatile u32 *)(0xFFB20000u + ((noc) << 16) + (offset)))
#define NOC_BUFFER(noc, buffer, offset) NOC_REG(noc, (buffer) * NOC_BUFFERS + (offset))

static inline u32 noc_self(u32 noc) { return NOC_REG(noc, NOC_ID_LOGICAL) & 0xFFF; }

/* The two ends of a request. A coordinate of a multicast is end | start << 12. */
static inline void noc_end(u32 noc, u32 buffer, u32 end, u32 coordinate, u32 address) {
	NOC_BUFFER(noc, buffer, end) = address;
#ifdef BLACKHOLE
	NOC_BUFFER(noc, buffer, end + 4) = 0;
	NOC_BUFFER(noc, buffer, end + 8) = coordinate;
#else
	NOC_BUFFER(noc, buffer, end + 4) = coordinate << 4;
#endif
}

/* One request, at once if the buffer is free; length is bytes, or what else NOC_AT_LEN_BE means. */
static inline void noc_request(u32 noc, u32 buffer, u32 ctrl, u32 targ, u32 targ_address, u32 ret,
	u32 ret_address, u32 length) {
	while (NOC_BUFFER(noc, buffer, NOC_CMD_CTRL) & 1);
	noc_end(noc, buffer, NOC_TARG_ADDR_LO, targ, targ_address);
	noc_end(noc, buffer, NOC_RET_ADDR_LO, ret, ret_address);
	NOC_BUFFER(noc, buffer, NOC_PACKET_TAG) = 0;
	NOC_BUFFER(noc, buffer, NOC_CTRL) = ctrl;
	NOC_BUFFER(noc, buffer, NOC_AT_LEN_BE) = length;
	NOC_BUFFER(noc, buffer, NOC_CMD_CTRL) = 1;
}

/* Waits until a counter has counted n more than it had. What came may have replaced what
   Blackhole's cores have in their cache; Wormhole's have none, and no fence. */
static inline void noc_wait(u32 noc, u32 counter, u32 before, u32 n) {
	while (NOC_REG(noc, counter) - before < n);
#ifdef BLACKHOLE
	asm volatile("fence" ::: "memory");
#else
	asm volatile("" ::: "memory");
#endif
}

/* n bytes from a tile to own L1. The addresses are equal modulo 16, or where DRAM is read modulo
   32, on Blackhole 64. */
static inline void noc_read(u32 noc, u32 from, u32 address, u32 l1, u32 n) {
	u32 before = NOC_REG(noc, NIU_MST_RD_RESP_RECEIVED), requests = 0;
	for (u32 size; n; n -= size, address += size, l1 += size, requests++) {
		size = n < NOC_PACKET ? n : NOC_PACKET;
		noc_request(noc, 1, NOC_CMD_RESP_MARKED, from, address, noc_self(noc), l1, size);
	}
	noc_wait(noc, NIU_MST_RD_RESP_RECEIVED, before, requests);
}

/* n bytes from own L1 to a tile. The addresses are equal modulo 16. */
static inline void noc_write(u32 noc, u32 l1, u32 to, u32 address, u32 n) {
	u32 before = NOC_REG(noc, NIU_MST_WR_ACK_RECEIVED), requests = 0;
	for (u32 size; n; n -= size, address += size, l1 += size, requests++) {
		size = n < NOC_PACKET ? n : NOC_PACKET;
		noc_request(noc, 0, NOC_CMD_WR | NOC_CMD_RESP_MARKED, noc_self(noc), l1, to, address, size);
	}
	noc_wait(noc, NIU_MST_WR_ACK_RECEIVED, before, requests);
}

/* n bytes, one request, from own L1 to the Tensix tiles of a rectangle, of which there are `tiles`
   beside this one, which is left out. start is the corner where the NoC comes in: the upper left on
   NoC 0, the lower right on NoC 1. */
static inline void noc_multicast(u32 noc, u32 l1, u32 start, u32 end, u32 tiles,
	u32 address, u32 n) {
	u32 before = NOC_REG(noc, NIU_MST_WR_ACK_RECEIVED);
	noc_request(noc, 0,
		NOC_CMD_WR | NOC_CMD_RESP_MARKED | NOC_CMD_BRCST_PACKET | NOC_CMD_PATH_RESERVE,
		noc_self(noc), l1, end | start << 12, address, n);
	noc_wait(noc, NIU_MST_WR_ACK_RECEIVED, before, tiles);
}

/* Adds to a word of a tile's L1, at a multiple of 16. What was there before comes to l1. */
static inline void noc_increment(u32 noc, u32 to, u32 address, u32 by, u32 l1) {
	u32 before = NOC_REG(noc, NIU_MST_ATOMIC_RESP_RECEIVED);
	NOC_BUFFER(noc, 3, NOC_AT_DATA) = by;
	noc_request(noc, 3, NOC_CMD_AT | NOC_CMD_RESP_MARKED, to, address, noc_self(noc), l1,
		NOC_AT_INCREMENT);
	noc_wait(noc, NIU_MST_ATOMIC_RESP_RECEIVED, before, 1);
}

/* A register of a tile. Not for L1, which Blackhole's interface does not take. */
static inline void noc_write_register(u32 noc, u32 to, u32 address, u32 value) {
	u32 before = NOC_REG(noc, NIU_MST_WR_ACK_RECEIVED);
	NOC_BUFFER(noc, 2, NOC_AT_DATA) = value;
	noc_request(noc, 2, NOC_CMD_WR | NOC_CMD_WR_INLINE | NOC_CMD_RESP_MARKED, to, address,
		noc_self(noc), 0, 0xF << (address & 15));
	noc_wait(noc, NIU_MST_WR_ACK_RECEIVED, before, 1);
}

/* Waits for a word in own L1 that another tile counts up. */
static inline void noc_await(u32 l1, u32 value) {
	while (*(volatile u32 *)l1 - value > 0x7FFFFFFF) {
#ifdef BLACKHOLE
		asm volatile("fence" ::: "memory"); /* or the cache may keep the old value */
#endif
	}
	asm volatile("" ::: "memory");
}
