/* A Zephyr sample: replays an image that is linked into the program, and prints its outputs. */
#include <errno.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "port.h"

/* The image, in flash or wherever constants are. CMakeLists.txt makes image.inc from image.lmb. */
static const uint8_t file[] __aligned(8) = {
#include "image.inc"
};

/* Memory for the image: what `lm info` prints as `reserves`. A larger image is rejected. */
static uint8_t arena[96 * 1024] __aligned(64);
static uint8_t host_memory[128 * 1024] __aligned(4096);

static struct lmplay_image image;
static struct lmplay_replay replay;
static struct lmplay_hooks hooks;
static struct lmplay_device devices[LMPLAY_DEVICES_MAX];
static struct port port;

/* Opens, verifies and loads the image. */
static enum lmplay_code load(struct lmplay_error *error)
{
	struct lmplay_plan plan;
	struct lmplay_need need;
	enum lmplay_code code = lmplay_open(&image, file, sizeof(file), error);

	if (code != LMPLAY_OK) {
		return code;
	}
	lmplay_plan(&image, &plan);
	port.host_memory = host_memory;
	port.host_bytes = sizeof(host_memory);
	code = lmplay_verify(&image, arena, sizeof(arena), 0, error);
	for (uint32_t i = 0; code == LMPLAY_OK && i < plan.devices; i++) {
		lmplay_need(&image, i, &need);
		code = port_find_device(&port, &need, &devices[i]);
		error->place = "device";
		error->index = i;
		error->reason = "not found on PCI Express";
	}
	if (code != LMPLAY_OK) {
		return code;
	}
	hooks = port_hooks(&port);
	return lmplay_load(&replay, &image, &hooks, devices, plan.devices, arena, sizeof(arena),
		error);
}

/* Prints the first bytes of each output. */
static void print_outputs(void)
{
	struct lmplay_tensor tensor;

	for (uint32_t i = 0; lmplay_tensor(&image, i, &tensor) == LMPLAY_OK; i++) {
		const uint8_t *data = lmplay_output(&replay, i);

		if (data == NULL) {
			continue;
		}
		printk("output ");
		for (uint32_t c = 0; c < tensor.name_bytes; c++) {
			printk("%c", tensor.name[c]);
		}
		printk(", %u bytes:", (uint32_t)tensor.size);
		for (uint32_t b = 0; b < tensor.size && b < 16; b++) {
			printk(" %02x", data[b]);
		}
		printk("\n");
	}
}

int main(void)
{
	struct lmplay_error error;
	struct lmplay_result result;
	uint32_t sequence;
	enum lmplay_code code = load(&error);

	if (code != LMPLAY_OK) {
		printk("image rejected: code %d: %s %u: %s\n", code, error.place, error.index,
			error.reason);
		return -EINVAL;
	}
	code = lmplay_find_sequence(&image, "main", 4, &sequence);
	if (code == LMPLAY_OK) {
		code = lmplay_run(&replay, sequence, 0, &result);
		printk("main: code %d, command %u\n", code, result.command);
	}
	if (code == LMPLAY_OK) {
		print_outputs();
	}
	lmplay_unload(&replay);
	return code == LMPLAY_OK ? 0 : -EIO;
}
