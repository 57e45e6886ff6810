/* Takes n bytes of host memory to L1 at buffer, adds to each word, brings them to another place of
   host memory, and last stores a word there that the host waits for.
   args at 0x10010: noc, n, PCIe tile, add, buffer, word; at 0x10028 the addresses of source, target
   and word, low half first */
#include "noc.h"

/* One request between own L1 and the 64-bit address that tiles see host memory at. */
static void host_request(u32 noc, u32 ctrl, u32 host_end, u32 pcie, volatile u32 *address,
	u32 l1, u32 n) {
	u32 buffer = ctrl & NOC_CMD_WR ? 0 : 1;
	while (NOC_BUFFER(noc, buffer, NOC_CMD_CTRL) & 1);
	noc_end(noc, buffer, host_end ^ NOC_TARG_ADDR_LO ^ NOC_RET_ADDR_LO, noc_self(noc), l1);
	noc_end(noc, buffer, host_end, pcie, address[0]);
#ifdef BLACKHOLE
	NOC_BUFFER(noc, buffer, host_end + 4) = address[1];
#else
	NOC_BUFFER(noc, buffer, host_end + 4) = pcie << 4 | address[1];
#endif
	NOC_BUFFER(noc, buffer, NOC_PACKET_TAG) = 0;
	NOC_BUFFER(noc, buffer, NOC_CTRL) = ctrl | NOC_CMD_RESP_MARKED;
	NOC_BUFFER(noc, buffer, NOC_AT_LEN_BE) = n;
	NOC_BUFFER(noc, buffer, NOC_CMD_CTRL) = 1;
}

static void host_write(u32 noc, u32 pcie, volatile u32 *address, u32 l1, u32 n) {
	u32 before = NOC_REG(noc, NIU_MST_WR_ACK_RECEIVED);
	host_request(noc, NOC_CMD_WR, NOC_RET_ADDR_LO, pcie, address, l1, n);
	noc_wait(noc, NIU_MST_WR_ACK_RECEIVED, before, 1);
}

int main(void) {
	volatile u32 *arg = (u32 *)0x10010, *word = (u32 *)arg[4];
	u32 noc = arg[0], n = arg[1], pcie = arg[2], add = arg[3],
		before = NOC_REG(noc, NIU_MST_RD_RESP_RECEIVED);
	host_request(noc, 0, NOC_TARG_ADDR_LO, pcie, arg + 6, arg[4], n);
	noc_wait(noc, NIU_MST_RD_RESP_RECEIVED, before, 1);
	for (u32 i = 0; i < n / 4; i++) word[i] += add;
	host_write(noc, pcie, arg + 8, arg[4], n);
	word[0] = arg[5];
	host_write(noc, pcie, arg + 10, arg[4], 16);
	return 0;
}
