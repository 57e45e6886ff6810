/* The calls of Zephyr that the sample uses, on the machine of testdata/firmware/bare: so that a
   test runs the sample. */
#include <stdarg.h>
#include <zephyr/cache.h>
#include <zephyr/device.h>
#include <zephyr/drivers/pcie/pcie.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "machine.h"
#include "pci.h"
#include "print.h"
#include "tree.h"

enum { FUNCTIONS_MAX = 16 };

static struct pci_host host;
static struct pci_function functions[FUNCTIONS_MAX];
static uint32_t function_count;

int main(void);

/* start_pcie does what Zephyr does at boot: it assigns the BARs of all functions. */
static void start_pcie(void)
{
	struct pci_function f = {0};
	while (function_count < FUNCTIONS_MAX && pci_next(&host, &f)) {
		pci_assign_bars(&host, &f);
		functions[function_count++] = f;
	}
}

_Noreturn void firmware_main(const void *tree)
{
	struct tree_node node;
	if (tree_find(tree, machine_serial, &node))
		machine_serial_start((uintptr_t)tree_cells(&node.reg, 0));
	if (pci_init_host(&host, tree))
		start_pcie();
	int status = main();
	print("exit ");
	print_decimal(status == 0 ? 0 : 1);
	print("\n");
	machine_exit(status == 0 ? 0 : 1);
}

bool firmware_bus_error(uintptr_t address)
{
	(void)address;
	return false;
}

_Noreturn void firmware_fault(uint64_t cause, uint64_t code, uint64_t address)
{
	print("exception: cause ");
	print_hex(cause);
	print(", at ");
	print_hex(code);
	print(", address ");
	print_hex(address);
	print("\n");
	machine_exit(70);
}

static pcie_bdf_t bdf_of(const struct pci_function *f)
{
	return (pcie_bdf_t)f->device << 11 | (pcie_bdf_t)f->function << 8;
}

static struct pci_function *function_of(pcie_bdf_t bdf)
{
	for (uint32_t i = 0; i < function_count; i++)
		if (bdf_of(&functions[i]) == bdf)
			return &functions[i];
	return NULL;
}

int pcie_scan(const struct pcie_scan_opt *opt)
{
	for (uint32_t i = 0; i < function_count; i++) {
		const struct pci_function *f = &functions[i];
		if (!opt->cb(bdf_of(f), PCIE_ID(f->vendor_id, f->device_id), opt->cb_data))
			break;
	}
	return 0;
}

uint32_t pcie_conf_read(pcie_bdf_t bdf, unsigned int reg)
{
	const struct pci_function *f = function_of(bdf);
	return f == NULL ? UINT32_MAX : pci_read_config(f, 4 * reg, 4);
}

bool pcie_get_mbar(pcie_bdf_t bdf, unsigned int bar_index, struct pcie_bar *mbar)
{
	const struct pci_function *f = function_of(bdf);
	if (f == NULL || f->bars[bar_index].size == 0)
		return false;
	mbar->phys_addr = (uintptr_t)f->bars[bar_index].cpu;
	mbar->size = (size_t)f->bars[bar_index].size;
	return true;
}

void pcie_set_cmd(pcie_bdf_t bdf, uint32_t bits, bool on)
{
	const struct pci_function *f = function_of(bdf);
	uint32_t command = pci_read_command(f);
	pci_set_command(f, (uint16_t)(on ? command | bits : command & ~bits));
}

void device_map(mm_reg_t *virt_addr, uintptr_t phys_addr, size_t size, uint32_t flags)
{
	(void)size;
	(void)flags;
	*virt_addr = phys_addr;
}

/* A tick is a nanosecond. */
int64_t k_uptime_ticks(void) { return (int64_t)machine_now(); }

uint64_t k_ticks_to_ns_floor64(uint64_t ticks) { return ticks; }

int32_t k_usleep(int32_t us)
{
	uint64_t end = machine_now() + 1000 * (uint64_t)us;
	while (machine_now() < end)
		;
	return 0;
}

uintptr_t k_mem_phys_addr(void *virt) { return (uintptr_t)virt; }

/* The machine runs without caches. */
int sys_cache_data_flush_range(void *addr, size_t size)
{
	(void)addr;
	(void)size;
	return 0;
}

int sys_cache_data_invd_range(void *addr, size_t size)
{
	(void)addr;
	(void)size;
	return 0;
}

/* printk knows %c, %d, %s, %u and %02x. */
void printk(const char *fmt, ...)
{
	va_list arguments;
	va_start(arguments, fmt);
	for (; *fmt != 0; fmt++) {
		if (*fmt != '%') {
			print_bytes(fmt, 1);
			continue;
		}
		switch (*++fmt) {
		case 'c': {
			char c = (char)va_arg(arguments, int);
			print_bytes(&c, 1);
			break;
		}
		case 'd':
			print_signed(va_arg(arguments, int));
			break;
		case 's':
			print(va_arg(arguments, const char *));
			break;
		case 'u':
			print_decimal(va_arg(arguments, unsigned));
			break;
		default: /* 02x */
			print_digits(va_arg(arguments, unsigned), 2);
			fmt += 2;
		}
	}
	va_end(arguments);
}
