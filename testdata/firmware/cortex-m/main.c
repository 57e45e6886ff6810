/* A firmware for 32 bits without a C library: it replays the image that IMAGE names on a model of
   QEMU's edu. The player reaches the model through the hooks `load` and `store`, as it would reach
   a device behind a bridge; with EDU_IS_MAPPED, it would access the model's memory itself. */
#include "edu.h"
#include "lmplay.h"
#include "machine.h"
#include "memory.h"
#include "print.h"

__asm__(".section .rodata\n"
	".balign 8\n"
	"image_start: .incbin \"" IMAGE "\"\n"
	"image_end:\n"
	".previous\n");

extern const unsigned char image_start[], image_end[];

enum { HOST_WINDOWS = 2, PAGE = 4096 };

static struct edu edu;
static uint8_t host[HOST_WINDOWS][PAGE] __attribute__((aligned(PAGE)));
static uint32_t hosts;
static uint8_t arena[64 * 1024] __attribute__((aligned(64)));

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping)
{
	(void)context;
	if (range->kind == LMPLAY_RANGE_HOST) {
		if (hosts == HOST_WINDOWS || range->size > PAGE)
			return LMPLAY_NO_DEVICE;
		mapping->address = (uintptr_t)host[hosts++];
		mapping->bus = mapping->address;
		mapping->by_hooks = 1; /* an exact fill of 8 bytes is no bulk copy */
		return LMPLAY_OK;
	}
#ifdef EDU_IS_MAPPED
	mapping->address = (uintptr_t)edu.memory;
	mapping->by_hooks = 0;
#else
	mapping->address = (uintptr_t)range->offset;
	mapping->by_hooks = 1;
#endif
	mapping->bus = 0;
	return LMPLAY_OK;
}

static enum lmplay_code load(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t *value)
{
	*value = 0;
	if (address >= EDU_BAR_BYTES)
		memcpy(value, (const void *)(address + (uintptr_t)offset), width);
	else
		*value = edu_load(context, (uint32_t)(address + offset));
	if (width < 8)
		*value &= ((uint64_t)1 << 8 * width) - 1;
	return LMPLAY_OK;
}

static enum lmplay_code store(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t value)
{
	if (address >= EDU_BAR_BYTES) /* host memory */
		memcpy((void *)(address + (uintptr_t)offset), &value, width);
	else
		edu_store(context, (uint32_t)(address + offset), value);
	return LMPLAY_OK;
}

static enum lmplay_code query(void *context, uint32_t device)
{
	(void)context, (void)device;
	return LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on)
{
	(void)device;
	((struct edu *)context)->is_master = on != 0;
	return LMPLAY_OK;
}

static uint64_t now(void *context)
{
	(void)context;
	return machine_now();
}

static const struct lmplay_hooks hooks = {.context = &edu, .map = map, .load = load,
	.store = store, .query = query, .set_bus_master = set_bus_master, .now = now};

/* report prints a code and what it is about, and returns the exit status. */
static int report(enum lmplay_code code, const char *place, uint32_t index, const char *reason)
{
	print("code ");
	print_decimal(code);
	print(", ");
	print(place);
	print(" ");
	print_signed((int32_t)index);
	print(": ");
	print(reason);
	print("\n");
	return lmplay_exit_status(code);
}

int main(void)
{
	static struct lmplay_image image;
	static struct lmplay_replay replay;
	struct lmplay_plan plan;
	struct lmplay_error error;
	struct lmplay_result result;
	uint32_t sequence, tensor;
	const struct lmplay_device device = {
		.vendor = 0x1234, .device = 0x11e8, .bars = {EDU_BAR_BYTES}};
	size_t size = (size_t)(image_end - image_start);

	enum lmplay_code code = lmplay_open(&image, image_start, size, &error);
	if (code == LMPLAY_OK)
		code = lmplay_plan(&image, &plan);
	if (code == LMPLAY_OK)
		code = lmplay_verify(&image, arena, sizeof arena, 0, &error);
	if (code == LMPLAY_OK)
		code = lmplay_load(&replay, &image, &hooks, &device, 1, arena, sizeof arena, &error);
	if (code != LMPLAY_OK)
		return report(code, error.place, error.index, error.reason);
	lmplay_find_sequence(&image, "main", 4, &sequence);
	code = lmplay_run(&replay, sequence, 0, &result);
	if (code == LMPLAY_OK && lmplay_find_tensor(&image, "result", 6, &tensor) == LMPLAY_OK) {
		uint32_t first;
		memcpy(&first, lmplay_output(&replay, tensor), sizeof first);
		print("result: ");
		print_decimal(first);
		print("\n");
	}
	lmplay_unload(&replay);
	return report(code, "command", result.command, "main");
}
