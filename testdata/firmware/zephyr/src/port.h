/* The player's hooks on Zephyr, for devices on PCI Express. */
#ifndef PORT_H
#define PORT_H

#include <stdbool.h>
#include <zephyr/drivers/pcie/pcie.h>

#include "lmplay.h"

/* One device of the image, as Zephyr knows it. */
struct port_device {
	pcie_bdf_t bdf;
	struct pcie_bar bars[LMPLAY_BARS];
	uint32_t old_errors; /* of the status register, when bus mastering was enabled */
	bool is_master;
};

/* The context of the hooks. host_memory is for Host windows: aligned to 4096 bytes. */
struct port {
	struct port_device devices[LMPLAY_DEVICES_MAX];
	uint32_t device_count;
	uint8_t *host_memory;
	size_t host_bytes, host_used;
};

/* Finds the function for a device of the image and enables memory decoding. Zephyr has assigned
   its BARs. Sets *found to its description. */
enum lmplay_code port_find_device(struct port *port, const struct lmplay_need *need,
	struct lmplay_device *found);

/* Returns the player's hooks. */
struct lmplay_hooks port_hooks(struct port *port);

#endif
