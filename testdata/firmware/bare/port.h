/* The player's hooks on a machine with PCI Express by ECAM and without an operating system. */
#ifndef PORT_H
#define PORT_H

#include "lmplay.h"
#include "pci.h"

/* port_device is a device of the image that was found on the bus. */
struct port_device {
	struct pci_function function;
	uint16_t old_errors; /* error bits of the status register when bus mastering was enabled */
	bool is_master;
};

/* port is the context of the hooks. */
struct port {
	struct pci_host host;
	struct port_device devices[LMPLAY_DEVICES_MAX];
	uint32_t device_count;
	uintptr_t ram_next, ram_end; /* RAM that nothing uses yet */
};

/* port_take returns size bytes of RAM that nothing uses, aligned to align, a power of two; NULL
   if there are not as many. Nothing is ever returned. */
void *port_take(struct port *port, uint64_t size, uint64_t align);

/* port_find_device finds the function for a device of the image, assigns its BARs and enables it.
   It describes the function in *found. */
enum lmplay_code port_find_device(struct port *port, const struct lmplay_need *need,
	struct lmplay_device *found);

/* port_disable_devices ends all decoding and DMA of the devices. */
void port_disable_devices(struct port *port);

/* port_has_bar_at reports whether a BAR of the image's devices has the processor's address. */
bool port_has_bar_at(const struct port *port, uintptr_t address);

/* port_hooks returns the player's hooks. */
struct lmplay_hooks port_hooks(struct port *port);

#endif
