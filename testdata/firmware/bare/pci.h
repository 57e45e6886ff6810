/* PCI Express by ECAM: finding a function, assigning its BARs, enabling it.

   Section numbers are those of the PCI Express Base Specification 5.0 (PCIe) and of the PCI Local
   Bus Specification 3.0 (PCI). */
#ifndef PCI_H
#define PCI_H

#include <stdbool.h>
#include <stdint.h>

#include "tree.h"

enum { PCI_BARS = 6 };

/* pci_window is a range of addresses that the host bridge forwards to the bus. */
struct pci_window {
	uint64_t cpu, bus; /* the same place, as the processor and as devices address it */
	uint64_t size, used;
};

/* pci_host is a host bridge. Function f of device d on bus b has its configuration space at
   ecam + (b << 20 | d << 15 | f << 12): PCIe 7.2.2. */
struct pci_host {
	uintptr_t ecam;
	uint64_t ecam_size;
	struct pci_window low;  /* below 4 GiB on the bus, for 32-bit BARs */
	struct pci_window high; /* for 64-bit BARs; size 0 if the machine has none */
};

/* pci_bar is an assigned BAR; size is 0 if the function has none of that number. */
struct pci_bar {
	uint64_t cpu, bus, size;
};

/* pci_function is a function of a device. */
struct pci_function {
	uintptr_t config; /* its configuration space */
	uint8_t device, function;
	uint16_t vendor_id, device_id;
	uint32_t subsystem; /* id << 16 | vendor id */
	struct pci_bar bars[PCI_BARS];
};

/* pci_init_host reads the host bridge from the device tree, node pci-host-ecam-generic. It
   returns false if there is none. */
bool pci_init_host(struct pci_host *host, const void *tree);

/* pci_next finds the next function of bus 0 after the one in *f, or the first if config is 0. It
   returns false if there is no other. Functions behind a bridge are not found: the machine's boot
   firmware must have numbered their buses, and its bridge windows must be in pci_host. */
bool pci_next(const struct pci_host *host, struct pci_function *f);

/* pci_assign_bars measures the memory BARs of a function and assigns bus addresses to them. It
   returns false if the windows are too small. Decoding is disabled afterwards. */
bool pci_assign_bars(struct pci_host *host, struct pci_function *f);

/* Bits of the command register (PCIe 7.5.1.1.3). */
enum {
	PCI_MEMORY = 1 << 1,     /* the function decodes its memory BARs */
	PCI_BUS_MASTER = 1 << 2, /* the function may access memory */
};

/* pci_set_command sets the command register, pci_read_command reads it. */
void pci_set_command(const struct pci_function *f, uint16_t command);
uint16_t pci_read_command(const struct pci_function *f);

/* pci_is_present reports whether the vendor id of a function still reads back. */
bool pci_is_present(const struct pci_function *f);

/* pci_read_dma_errors returns the bits of the status register that report failed DMA,
   pci_clear_dma_errors clears them. */
uint16_t pci_read_dma_errors(const struct pci_function *f);
void pci_clear_dma_errors(const struct pci_function *f);

/* pci_read_config loads width bytes, 1, 2 or 4, of the configuration space. */
uint32_t pci_read_config(const struct pci_function *f, uint32_t offset, uint32_t width);

#endif
