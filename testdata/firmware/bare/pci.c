/* PCI Express by ECAM. */
#include "pci.h"

enum {
	/* Configuration space header, type 0: PCIe 7.5.1.1 and 7.5.1.2. */
	CONFIG_VENDOR_ID = 0x00,   /* 2 bytes */
	CONFIG_DEVICE_ID = 0x02,   /* 2 bytes */
	CONFIG_COMMAND = 0x04,     /* 2 bytes */
	CONFIG_STATUS = 0x06,      /* 2 bytes */
	CONFIG_HEADER_TYPE = 0x0e, /* 1 byte */
	CONFIG_BAR0 = 0x10,        /* 6 x 4 bytes */
	CONFIG_SUBSYSTEM = 0x2c,   /* 4 bytes: vendor id, id */

	/* Errors that a bus master sets in the status register: parity, target abort, master abort,
	   poisoned packet. Writing 1 clears each (PCIe 7.5.1.1.4). */
	STATUS_DMA_ERRORS = 1 << 8 | 1 << 12 | 1 << 13 | 1 << 15,

	HEADER_LAYOUT = 0x7f,
	HEADER_MULTI_FUNCTION = 0x80,

	/* BARs: PCIe 7.5.1.2.1. */
	BAR_IO = 1 << 0,
	BAR_TYPE = 3 << 1,
	BAR_TYPE_64 = 2 << 1,
	BAR_FLAGS = 0xf,

	/* ECAM: PCIe 7.2.2. */
	DEVICE_SHIFT = 15,
	FUNCTION_SHIFT = 12,
	DEVICES_OF_A_BUS = 32,
	FUNCTIONS_OF_A_DEVICE = 8,

	VENDOR_NONE = 0xffff, /* PCIe 2.3.2: what the host returns if no function answers */

	/* `ranges` of a PCI node: 3 cells of bus address, 2 of the processor's, 2 of size. The first
	   cell has the kind of the range (IEEE 1275 PCI binding, 2.2.1.1). */
	RANGE_CELLS = 7,
	RANGE_KIND = 3 << 24,
	RANGE_MEMORY_32 = 2 << 24,
	RANGE_MEMORY_64 = 3 << 24,
};

static uint32_t read_config(const struct pci_function *f, unsigned offset)
{
	return *(volatile uint32_t *)(f->config + offset);
}

static void write_config(const struct pci_function *f, unsigned offset, uint32_t value)
{
	*(volatile uint32_t *)(f->config + offset) = value;
}

static uint16_t read_config16(const struct pci_function *f, unsigned offset)
{
	return *(volatile uint16_t *)(f->config + offset);
}

static uint8_t read_config8(const struct pci_function *f, unsigned offset)
{
	return *(volatile uint8_t *)(f->config + offset);
}

/* write_config16 writes 2 bytes alone: the status register, next to the command register, clears
   bits that are written as 1. */
static void write_config16(const struct pci_function *f, unsigned offset, uint16_t value)
{
	*(volatile uint16_t *)(f->config + offset) = value;
}

bool pci_init_host(struct pci_host *host, const void *tree)
{
	struct tree_node node;
	const struct pci_host empty = {0};
	*host = empty;
	if (!tree_find(tree, "pci-host-ecam-generic", &node))
		return false;
	host->ecam = (uintptr_t)tree_cells(&node.reg, 0);
	host->ecam_size = tree_cells(&node.reg, 2);
	for (uint32_t i = 0; (i + RANGE_CELLS) * 4 <= node.ranges.size; i += RANGE_CELLS) {
		struct pci_window window = {
			.bus = tree_cells(&node.ranges, i + 1),
			.cpu = tree_cells(&node.ranges, i + 3),
			.size = tree_cells(&node.ranges, i + 5),
		};
		uint32_t kind = tree_cell(&node.ranges, i) & RANGE_KIND;
		if (kind == RANGE_MEMORY_32)
			host->low = window;
		if (kind == RANGE_MEMORY_64)
			host->high = window;
	}
	return host->ecam != 0 && host->low.size != 0;
}

/* read_ids reads the ids of a function. It returns false if no function answers. */
static bool read_ids(struct pci_function *f)
{
	f->vendor_id = read_config16(f, CONFIG_VENDOR_ID);
	if (f->vendor_id == VENDOR_NONE)
		return false;
	f->device_id = read_config16(f, CONFIG_DEVICE_ID);
	f->subsystem = read_config(f, CONFIG_SUBSYSTEM);
	return true;
}

/* next_number returns the number of the function to try after f. A device without function 0 has
   no other, and function 0 reports whether there are others (PCIe 7.5.1.1.9). */
static unsigned next_number(const struct pci_function *f)
{
	unsigned number = (unsigned)(f->device << 3 | f->function);
	bool is_absent = read_config16(f, CONFIG_VENDOR_ID) == VENDOR_NONE;
	bool is_multi = (read_config8(f, CONFIG_HEADER_TYPE) & HEADER_MULTI_FUNCTION) != 0;
	if (f->function == 0 && (is_absent || !is_multi))
		return number + FUNCTIONS_OF_A_DEVICE;
	return number + 1;
}

bool pci_next(const struct pci_host *host, struct pci_function *f)
{
	unsigned next = 0; /* device << 3 | function */
	if (f->config != 0)
		next = next_number(f);
	while (next < DEVICES_OF_A_BUS * FUNCTIONS_OF_A_DEVICE) {
		const struct pci_function found = {
			.config = host->ecam + ((uintptr_t)next << FUNCTION_SHIFT),
			.device = (uint8_t)(next >> 3),
			.function = next & 7,
		};
		*f = found;
		/* Bridges have another header layout, and nothing that an image can use. */
		if (read_ids(f) && (read_config8(f, CONFIG_HEADER_TYPE) & HEADER_LAYOUT) == 0)
			return true;
		next = next_number(f);
	}
	return false;
}

/* measure_bar returns the size of a BAR whose first register is at offset, and its flags: it
   writes all ones and reads which address bits the function implements (PCI 6.2.5.1). */
static uint64_t measure_bar(const struct pci_function *f, unsigned offset, uint32_t *flags)
{
	const uint32_t all_ones = 0xffffffff;
	write_config(f, offset, all_ones);
	uint32_t low = read_config(f, offset);
	uint32_t high = all_ones;
	*flags = low & BAR_FLAGS;
	if (low == 0 || (low & BAR_IO) != 0)
		return 0;
	if ((low & BAR_TYPE) == BAR_TYPE_64) {
		write_config(f, offset + 4, all_ones);
		high = read_config(f, offset + 4);
	}
	uint64_t address_bits = (uint64_t)high << 32 | (low & ~(uint32_t)BAR_FLAGS);
	return ~address_bits + 1;
}

/* reserve takes size bytes from a window, aligned to size as a BAR must be. */
static bool reserve(struct pci_window *window, struct pci_bar *bar)
{
	uint64_t mask = bar->size - 1;
	uint64_t start = (window->bus + window->used + mask) & ~mask;
	uint64_t offset = start - window->bus;
	if (window->size < bar->size || offset > window->size - bar->size)
		return false;
	window->used = offset + bar->size;
	bar->bus = start;
	bar->cpu = window->cpu + offset;
	return true;
}

bool pci_assign_bars(struct pci_host *host, struct pci_function *f)
{
	/* A BAR must not decode while its address changes. */
	pci_set_command(f, 0);
	for (int i = 0; i < PCI_BARS; i++) {
		unsigned offset = CONFIG_BAR0 + 4 * (unsigned)i;
		struct pci_bar *bar = &f->bars[i];
		uint32_t flags;
		bar->size = measure_bar(f, offset, &flags);
		if (bar->size == 0)
			continue;
		bool is_64 = (flags & BAR_TYPE) == BAR_TYPE_64;
		/* Large BARs go to the high window. On bus 0 no bridge limits where a 64-bit BAR may be. */
		bool is_reserved = (is_64 && reserve(&host->high, bar)) || reserve(&host->low, bar);
		if (!is_reserved)
			return false;
		write_config(f, offset, (uint32_t)bar->bus);
		if (is_64) {
			write_config(f, offset + 4, (uint32_t)(bar->bus >> 32));
			i++; /* the second register of this BAR */
		}
	}
	return true;
}

void pci_set_command(const struct pci_function *f, uint16_t command)
{
	write_config16(f, CONFIG_COMMAND, command);
}

uint16_t pci_read_command(const struct pci_function *f)
{
	return read_config16(f, CONFIG_COMMAND);
}

bool pci_is_present(const struct pci_function *f)
{
	return read_config16(f, CONFIG_VENDOR_ID) == f->vendor_id;
}

uint16_t pci_read_dma_errors(const struct pci_function *f)
{
	return read_config16(f, CONFIG_STATUS) & STATUS_DMA_ERRORS;
}

void pci_clear_dma_errors(const struct pci_function *f)
{
	write_config16(f, CONFIG_STATUS, STATUS_DMA_ERRORS);
}

uint32_t pci_read_config(const struct pci_function *f, uint32_t offset, uint32_t width)
{
	switch (width) {
	case 1:
		return read_config8(f, offset);
	case 2:
		return read_config16(f, offset);
	default:
		return read_config(f, offset);
	}
}
