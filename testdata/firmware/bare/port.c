/* The player's hooks on a machine with PCI Express by ECAM and without an operating system. The
   processor's and the devices' addresses of RAM are the same, and all memory is mapped as device
   memory or uncached, so that DMA needs no cache maintenance. */
#include "port.h"

#include "machine.h"
#include "memory.h"

void *port_take(struct port *port, uint64_t size, uint64_t align)
{
	uint64_t start = (port->ram_next + align - 1) & ~(align - 1);
	if (start > port->ram_end || size > port->ram_end - start)
		return NULL;
	port->ram_next = (uintptr_t)(start + size);
	return (void *)(uintptr_t)start;
}

/* is_taken reports whether a function is already a device of the image: two devices of an image
   may have the same ids. */
static bool is_taken(const struct port *port, const struct pci_function *f)
{
	for (uint32_t i = 0; i < port->device_count; i++)
		if (port->devices[i].function.config == f->config)
			return true;
	return false;
}

static bool is_needed(const struct lmplay_need *need, const struct pci_function *f)
{
	bool has_subsystem = need->subsystem == 0 || need->subsystem == f->subsystem;
	return f->vendor_id == need->vendor && f->device_id == need->device && has_subsystem;
}

enum lmplay_code port_find_device(struct port *port, const struct lmplay_need *need,
	struct lmplay_device *found)
{
	struct pci_function f = {0};
	do {
		if (!pci_next(&port->host, &f))
			return LMPLAY_NO_DEVICE;
	} while (!is_needed(need, &f) || is_taken(port, &f));

	struct port_device *device = &port->devices[port->device_count++];
	bool is_assigned = pci_assign_bars(&port->host, &f);
	device->function = f;
	if (!is_assigned)
		return LMPLAY_NO_DEVICE;
	/* The player enables bus mastering by its hook, if the image needs it. */
	pci_set_command(&f, PCI_MEMORY);
	found->vendor = f.vendor_id;
	found->device = f.device_id;
	found->subsystem = f.subsystem;
	for (int i = 0; i < PCI_BARS; i++)
		found->bars[i] = f.bars[i].size;
	return LMPLAY_OK;
}

void port_disable_devices(struct port *port)
{
	for (uint32_t i = 0; i < port->device_count; i++)
		pci_set_command(&port->devices[i].function, 0);
}

/* map_memory provides RAM for a Host window. An image may require an address for it. */
static enum lmplay_code map_memory(struct port *port, const struct lmplay_range *range,
	struct lmplay_mapping *mapping)
{
	const uint64_t page = 4096;
	if (range->fixed_bus != 0) {
		if (range->fixed_bus < port->ram_next || range->fixed_bus > port->ram_end)
			return LMPLAY_NO_DEVICE;
		port->ram_next = (uintptr_t)range->fixed_bus;
	}
	uint64_t size = (range->size + page - 1) & ~(page - 1);
	void *memory = port_take(port, size, page);
	if (memory == NULL)
		return LMPLAY_NO_DEVICE;
	memset(memory, 0, (size_t)size);
	mapping->address = (uintptr_t)memory;
	mapping->bus = (uint64_t)(uintptr_t)memory;
	return LMPLAY_OK;
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping)
{
	struct port *port = context;
	mapping->by_hooks = 0;
	if (range->kind == LMPLAY_RANGE_HOST)
		return map_memory(port, range, mapping);
	/* Without a memory management unit a BAR is accessible where the host bridge forwards it. */
	const struct pci_bar *bar = &port->devices[range->device].function.bars[range->bar];
	mapping->address = (uintptr_t)(bar->cpu + range->offset);
	mapping->bus = bar->bus + range->offset;
	return LMPLAY_OK;
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value)
{
	const struct port *port = context;
	*value = pci_read_config(&port->devices[device].function, offset, width);
	return LMPLAY_OK;
}

static enum lmplay_code query(void *context, uint32_t device)
{
	const struct port *port = context;
	const struct port_device *d = &port->devices[device];
	uint16_t command = pci_read_command(&d->function);
	if (!pci_is_present(&d->function) || (command & PCI_MEMORY) == 0)
		return LMPLAY_DEVICE_GONE;
	if (!d->is_master)
		return LMPLAY_OK;
	if ((command & PCI_BUS_MASTER) == 0)
		return LMPLAY_MASTER_OFF;
	uint16_t new_errors = pci_read_dma_errors(&d->function) & (uint16_t)~d->old_errors;
	return new_errors == 0 ? LMPLAY_OK : LMPLAY_DMA_FAULT;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on)
{
	struct port *port = context;
	struct port_device *d = &port->devices[device];
	if (on) {
		pci_clear_dma_errors(&d->function);
		d->old_errors = pci_read_dma_errors(&d->function);
	}
	d->is_master = on != 0;
	pci_set_command(&d->function, on ? PCI_MEMORY | PCI_BUS_MASTER : PCI_MEMORY);
	return LMPLAY_OK;
}

static uint64_t now(void *context)
{
	(void)context;
	return machine_now();
}

static void barrier(void *context)
{
	(void)context;
	machine_barrier();
}

bool port_has_bar_at(const struct port *port, uintptr_t address)
{
	for (uint32_t d = 0; d < port->device_count; d++) {
		for (int b = 0; b < PCI_BARS; b++) {
			const struct pci_bar *bar = &port->devices[d].function.bars[b];
			if (address - bar->cpu < bar->size)
				return true;
		}
	}
	return false;
}

struct lmplay_hooks port_hooks(struct port *port)
{
	/* The hook `wait` is absent: this firmware has nothing else to do, so the player reads the
	   clock in a loop. */
	const struct lmplay_hooks hooks = {
		.context = port,
		.map = map,
		.load_config = load_config,
		.query = query,
		.set_bus_master = set_bus_master,
		.now = now,
		.barrier = barrier,
	};
	return hooks;
}
