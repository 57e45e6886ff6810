/* The player's hooks on Zephyr, for devices on PCI Express.

   Zephyr's DEVICE_MMIO_MAP maps registers whose address is in the devicetree. BARs are known at
   run time only, so this port calls device_map, as the documentation of DEVICE_MMIO_MAP says. For
   an accelerator inside a chip, replace the use of `bars` by DEVICE_MMIO_MAP and
   DEVICE_MMIO_GET. */
#include "port.h"

#include <string.h>
#include <zephyr/cache.h>
#include <zephyr/device.h>
#include <zephyr/kernel.h>

/* The word with the subsystem ids, PCI Express Base Specification 7.5.1.2. */
#define CONF_SUBSYSTEM 11U

/* Error bits of a bus master in the word with command and status: parity, target abort, master
   abort, poisoned packet; 7.5.1.1.4. */
#define CONF_DMA_ERRORS (BIT(24) | BIT(28) | BIT(29) | BIT(31))

#define HOST_PAGE 4096U

/* A search for a function by ids. */
struct search {
	const struct port *port;
	const struct lmplay_need *need;
	pcie_bdf_t found;
};

static bool is_taken(const struct port *port, pcie_bdf_t bdf)
{
	for (uint32_t i = 0; i < port->device_count; i++) {
		if (port->devices[i].bdf == bdf) {
			return true;
		}
	}
	return false;
}

/* Called for each function; returns false to end the scan. */
static bool compare_ids(pcie_bdf_t bdf, pcie_id_t id, void *data)
{
	struct search *search = data;
	uint32_t subsystem = search->need->subsystem;
	bool is_kind = id == PCIE_ID(search->need->vendor, search->need->device);

	if (is_kind && subsystem != 0) {
		is_kind = pcie_conf_read(bdf, CONF_SUBSYSTEM) == subsystem;
	}
	if (is_kind && !is_taken(search->port, bdf)) {
		search->found = bdf;
		return false;
	}
	return true;
}

enum lmplay_code port_find_device(struct port *port, const struct lmplay_need *need,
	struct lmplay_device *found)
{
	struct search search = {.port = port, .need = need, .found = PCIE_BDF_NONE};
	const struct pcie_scan_opt options = {
		.cb = compare_ids,
		.cb_data = &search,
		.flags = PCIE_SCAN_RECURSIVE,
	};

	pcie_scan(&options);
	if (search.found == PCIE_BDF_NONE) {
		return LMPLAY_NO_DEVICE;
	}

	struct port_device *device = &port->devices[port->device_count++];

	device->bdf = search.found;
	memset(found, 0, sizeof(*found));
	found->vendor = need->vendor;
	found->device = need->device;
	found->subsystem = pcie_conf_read(device->bdf, CONF_SUBSYSTEM);
	for (unsigned int i = 0; i < LMPLAY_BARS; i++) {
		if (pcie_get_mbar(device->bdf, i, &device->bars[i])) {
			found->bars[i] = device->bars[i].size;
			/* The second register of a 64-bit BAR is not a BAR. */
			i += PCIE_CONF_BAR_64(pcie_conf_read(device->bdf, PCIE_CONF_BAR0 + i)) ? 1 : 0;
		}
	}
	pcie_set_cmd(device->bdf, PCIE_CONF_CMDSTAT_MEM, true);
	return LMPLAY_OK;
}

static enum lmplay_code map_memory(struct port *port, const struct lmplay_range *range,
	struct lmplay_mapping *mapping)
{
	size_t size = ROUND_UP(range->size, HOST_PAGE);

	/* An image that requires a bus address needs memory of its own there: see the devicetree's
	   reserved-memory. */
	if (range->fixed_bus != 0 || size > port->host_bytes - port->host_used) {
		return LMPLAY_NO_DEVICE;
	}

	uint8_t *memory = port->host_memory + port->host_used;

	port->host_used += size;
	memset(memory, 0, size);
	sys_cache_data_flush_range(memory, size);
	mapping->address = (uintptr_t)memory;
	mapping->bus = k_mem_phys_addr(memory);
	return LMPLAY_OK;
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping)
{
	struct port *port = context;
	mm_reg_t address;

	memset(mapping, 0, sizeof(*mapping));
	if (range->kind == LMPLAY_RANGE_HOST) {
		return map_memory(port, range, mapping);
	}

	const struct pcie_bar *bar = &port->devices[range->device].bars[range->bar];

	device_map(&address, bar->phys_addr + range->offset, range->size, K_MEM_CACHE_NONE);
	mapping->address = address;
	mapping->bus = bar->phys_addr + range->offset;
	return LMPLAY_OK;
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value)
{
	const struct port *port = context;
	uint32_t word = pcie_conf_read(port->devices[device].bdf, offset / 4);

	/* Zephyr reads whole words. */
	*value = word >> (8 * (offset % 4));
	if (width < 4) {
		*value &= (uint32_t)BIT(8 * width) - 1;
	}
	return LMPLAY_OK;
}

static enum lmplay_code query(void *context, uint32_t device)
{
	const struct port *port = context;
	const struct port_device *d = &port->devices[device];
	uint32_t word = pcie_conf_read(d->bdf, PCIE_CONF_CMDSTAT);

	/* Without a device every word reads as all ones. */
	if (word == UINT32_MAX || (word & PCIE_CONF_CMDSTAT_MEM) == 0) {
		return LMPLAY_DEVICE_GONE;
	}
	if (!d->is_master) {
		return LMPLAY_OK;
	}
	if ((word & PCIE_CONF_CMDSTAT_MASTER) == 0) {
		return LMPLAY_MASTER_OFF;
	}
	return (word & CONF_DMA_ERRORS & ~d->old_errors) != 0 ? LMPLAY_DMA_FAULT : LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on)
{
	struct port *port = context;
	struct port_device *d = &port->devices[device];

	/* pcie_set_cmd writes back the status bits that it has read, which clears error bits. */
	pcie_set_cmd(d->bdf, PCIE_CONF_CMDSTAT_MASTER, on != 0);
	d->old_errors = pcie_conf_read(d->bdf, PCIE_CONF_CMDSTAT) & CONF_DMA_ERRORS;
	d->is_master = on != 0;
	return LMPLAY_OK;
}

static uint64_t now(void *context)
{
	ARG_UNUSED(context);
	/* CONFIG_SYS_CLOCK_TICKS_PER_SEC must be 1000000 or more for images with short deadlines. */
	return k_ticks_to_ns_floor64((uint64_t)k_uptime_ticks());
}

static void wait(void *context, uint64_t nanoseconds)
{
	ARG_UNUSED(context);
	/* Other threads run meanwhile. */
	k_usleep((int32_t)(nanoseconds / 1000));
}

static void clean(void *context, uintptr_t address, uint64_t size)
{
	ARG_UNUSED(context);
	sys_cache_data_flush_range((void *)address, size);
}

static void invalidate(void *context, uintptr_t address, uint64_t size)
{
	ARG_UNUSED(context);
	sys_cache_data_invd_range((void *)address, size);
}

struct lmplay_hooks port_hooks(struct port *port)
{
	/* The hook `barrier` is absent: the player's own instruction serves. */
	const struct lmplay_hooks hooks = {
		.context = port,
		.map = map,
		.load_config = load_config,
		.query = query,
		.set_bus_master = set_bus_master,
		.now = now,
		.wait = wait,
		.clean = clean,
		.invalidate = invalidate,
	};

	return hooks;
}
