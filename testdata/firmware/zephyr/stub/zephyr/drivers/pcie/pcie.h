/* A stub of Zephyr's header: see kernel.h two directories above. */
#ifndef STUB_ZEPHYR_DRIVERS_PCIE_PCIE_H
#define STUB_ZEPHYR_DRIVERS_PCIE_PCIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t pcie_bdf_t; /* bus in bits 16 to 23, device 11 to 15, function 8 to 10 */
typedef uint32_t pcie_id_t;  /* device id in bits 16 to 31, vendor id below */

#define PCIE_BDF_NONE 0xFFFFFFFFU
#define PCIE_ID(vend, dev) (((uint32_t)(dev) << 16) | (uint32_t)(vend))

#define PCIE_CONF_CMDSTAT 1U
#define PCIE_CONF_CMDSTAT_MEM 0x00000002U
#define PCIE_CONF_CMDSTAT_MASTER 0x00000004U
#define PCIE_CONF_BAR0 4U
#define PCIE_CONF_BAR_64(w) (((w) & 0x00000006U) == 0x00000004U)

struct pcie_bar {
	uintptr_t phys_addr;
	size_t size;
};

typedef bool (*pcie_scan_cb_t)(pcie_bdf_t bdf, pcie_id_t id, void *cb_data);

enum {
	PCIE_SCAN_RECURSIVE = 1,
	PCIE_SCAN_CB_ALL = 2,
};

struct pcie_scan_opt {
	uint8_t bus;
	pcie_scan_cb_t cb;
	void *cb_data;
	uint32_t flags;
};

int pcie_scan(const struct pcie_scan_opt *opt);
uint32_t pcie_conf_read(pcie_bdf_t bdf, unsigned int reg);
bool pcie_get_mbar(pcie_bdf_t bdf, unsigned int bar_index, struct pcie_bar *mbar);
void pcie_set_cmd(pcie_bdf_t bdf, uint32_t bits, bool on);

#endif
