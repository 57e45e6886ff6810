/* A firmware that replays an image without an operating system: it finds the devices of the image
   on PCI Express, verifies the image in flash, replays it, and prints outputs and result to the
   serial port. It ends with the exit status that lmrun has for the same result. */
#include "flash.h"
#include "lmplay.h"
#include "lmplay_config.h"
#include "machine.h"
#include "memory.h"
#include "pci.h"
#include "port.h"
#include "print.h"
#include "replay_task.h"
#include "tree.h"

/* Numbers of an output that are printed. */
enum { VALUES_SHOWN = 8 };

/* All state of the firmware. */
static struct port port;
static struct flash flash;
static struct lmplay_image image;
static struct lmplay_replay replay;
static struct lmplay_hooks hooks;
static struct lmplay_device devices[LMPLAY_DEVICES_MAX];
static bool is_running; /* a run is in progress: errors of devices are the player's */

uint64_t first_store_ns;

void note_first_store(uintptr_t address)
{
	bool is_memory = address >= (uintptr_t)free_start && address < port.ram_end;
	if (!is_memory)
		first_store_ns = machine_now();
}

bool firmware_bus_error(uintptr_t address)
{
	bool is_device = is_running && port_has_bar_at(&port, address);
	if (is_device)
		lmplay_fault(&replay);
	return is_device;
}

/* print_code prints a code in words, those of hal/code.go. */
static void print_code(enum lmplay_code code)
{
	static const struct {
		enum lmplay_code code;
		const char *text;
	} texts[] = {
		{LMPLAY_OK, "done"},
		{LMPLAY_USAGE, "usage"},
		{LMPLAY_BAD_IMAGE, "bad image"},
		{LMPLAY_NO_DEVICE, "device unavailable"},
		{LMPLAY_INTERNAL, "internal error"},
		{LMPLAY_DEVICE_GONE, "device gone"},
		{LMPLAY_BUS_FAULT, "bus fault"},
		{LMPLAY_DEADLINE_PASSED, "poll deadline passed"},
		{LMPLAY_EXPECT_FAILED, "expect failed"},
		{LMPLAY_COMPARE_FAILED, "golden mismatch"},
		{LMPLAY_WRONG_DEVICE, "image is for another device"},
		{LMPLAY_REFUSED, "device rejected the access"},
		{LMPLAY_INPUT_MISSING, "input has no data"},
		{LMPLAY_DISABLED, "replay is disabled after a failure"},
		{LMPLAY_RUN_LATE, "run took longer than its limit"},
		{LMPLAY_MASTER_OFF, "bus mastering is off"},
		{LMPLAY_DMA_FAULT, "DMA fault"},
		{LMPLAY_RING_UNSET, "ring was not reset"},
	};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (texts[i].code == code)
			print(texts[i].text);
}

/* end stops all devices and ends the machine. An exception while it does that ends the machine at
   once. */
static _Noreturn void end(int status)
{
	static bool is_ending;
	if (is_ending)
		machine_exit(status);
	is_ending = true;
	port_disable_devices(&port);
	/* The stack grows down, over zeros: what is still zero at its far end was not used. */
	uint64_t stack = (uintptr_t)stack_end - (uintptr_t)stack_start;
	uint64_t unused = 0;
	while (unused < stack && stack_start[unused] == 0)
		unused++;
	unused -= unused % 16; /* the ABI's alignment; a zero may be part of what was used */
	print("stack: ");
	print_decimal(stack - unused);
	print(" of ");
	print_decimal(stack);
	print(" bytes used\n");
	if (first_store_ns != 0) {
		print("first store into a BAR: ");
		print_decimal(first_store_ns);
		print(" ns after reset\n");
	}
	print("exit ");
	print_decimal((uint64_t)status);
	print("\n");
	machine_exit(status);
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
	end(lmplay_exit_status(LMPLAY_INTERNAL));
}

/* end_because ends the machine for a reason that is not the player's. */
static _Noreturn void end_because(enum lmplay_code code, const char *reason)
{
	print_code(code);
	print(": ");
	print(reason);
	print("\n");
	end(lmplay_exit_status(code));
}

/* check ends the machine with the player's reason unless code is LMPLAY_OK. */
static void check(enum lmplay_code code, const struct lmplay_error *error)
{
	if (code == LMPLAY_OK)
		return;
	print_code(code);
	print(": ");
	print(error->place);
	if (error->index != LMPLAY_NONE) {
		print(" ");
		print_decimal(error->index);
	}
	print(": ");
	print(error->reason);
	print("\n");
	end(lmplay_exit_status(code));
}

/* find_machine finds serial port, RAM and PCI host bridge in the device tree. */
static void find_machine(const void *tree)
{
	struct tree_node node;
	if (tree_find(tree, machine_serial, &node))
		machine_serial_start((uintptr_t)tree_cells(&node.reg, 0));
	print("lightmetal without an operating system\n");
	if (!tree_find(tree, "memory", &node))
		end_because(LMPLAY_NO_DEVICE, "the device tree has no memory");
	port.ram_next = (uintptr_t)free_start;
	port.ram_end = (uintptr_t)(tree_cells(&node.reg, 0) + tree_cells(&node.reg, 2));
	if (!pci_init_host(&port.host, tree))
		end_because(LMPLAY_NO_DEVICE, "the device tree has no pci-host-ecam-generic");
}

/* find_entry finds the first entry of a kind in flash 1. */
static bool find_entry(enum flash_kind kind, struct flash_entry *entry)
{
	for (uint32_t i = 0; flash_read(&flash, i, entry); i++)
		if (entry->kind == kind)
			return true;
	return false;
}

/* find_image finds the image in the second flash. */
static struct flash_entry find_image(const void *tree)
{
	struct tree_node node;
	struct flash_entry entry;
	/* The cells of `reg` are address and size of flash 0, then those of flash 1. */
	if (!tree_find(tree, "cfi-flash", &node) || node.reg.size < 32)
		end_because(LMPLAY_NO_DEVICE, "the device tree has no second cfi-flash");
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)tree_cells(&node.reg, 4);
	if (!flash_open(&flash, bytes, tree_cells(&node.reg, 6)))
		end_because(LMPLAY_USAGE, "flash 1 does not begin with LMFLASH1");
	if (!find_entry(FLASH_IMAGE, &entry))
		end_because(LMPLAY_USAGE, "flash 1 has no image");
	return entry;
}

/* find_devices finds every device of the image on the bus. */
static void find_devices(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct lmplay_need need;
		if (lmplay_need(&image, i, &need) != LMPLAY_OK)
			end_because(LMPLAY_INTERNAL, "the image lacks one of its devices");
		enum lmplay_code code = port_find_device(&port, &need, &devices[i]);
		print("device ");
		print_bytes(need.board, need.board_bytes);
		print(" ");
		print_digits(need.vendor, 4);
		print(":");
		print_digits(need.device, 4);
		if (code != LMPLAY_OK) {
			print("\n");
			end_because(code, port.device_count == i
				? "no function on bus 0 has these PCI ids"
				: "its BARs do not fit the windows of the host bridge");
		}
		const struct pci_function *f = &port.devices[i].function;
		print(" at 00:");
		print_digits(f->device, 2);
		print(".");
		print_digits(f->function, 1);
		print("\n");
		for (uint32_t bar = 0; bar < PCI_BARS; bar++) {
			if (f->bars[bar].size == 0)
				continue;
			print("  BAR ");
			print_decimal(bar);
			print(": ");
			print_size(f->bars[bar].size);
			print(" at ");
			print_hex(f->bars[bar].cpu);
			print("\n");
		}
	}
}

/* load verifies the image and prepares it for runs. */
static void load(const struct flash_entry *file)
{
	struct lmplay_error error;
	struct lmplay_plan plan;
	print("image: ");
	print_size(file->data_bytes);
	enum lmplay_code code = lmplay_open(&image, file->data, file->data_bytes, &error);
	if (code != LMPLAY_OK)
		print("\n");
	check(code, &error);
	lmplay_plan(&image, &plan);
	print(", ");
	print_decimal(plan.commands);
	print(" commands; memory: ");
	print_size(plan.arena_bytes);
	print(" and for DMA ");
	print_size(plan.host_bytes);
	print("\n");
	void *arena = port_take(&port, plan.arena_bytes, plan.align);
	if (arena == NULL)
		end_because(LMPLAY_BAD_IMAGE, "the machine has less memory than the image needs");

	uint64_t began = machine_now();
	check(lmplay_verify(&image, arena, (size_t)plan.arena_bytes, 0, &error), &error);
	print("verified in ");
	print_decimal((machine_now() - began) / 1000);
	print(" us\n");
	find_devices(plan.devices);
	hooks = port_hooks(&port);
	check(lmplay_load(&replay, &image, &hooks, devices, plan.devices, arena,
		(size_t)plan.arena_bytes, &error), &error);
}

/* set_inputs copies the data of inputs from flash. */
static void set_inputs(void)
{
	struct flash_entry entry;
	for (uint32_t i = 0; flash_read(&flash, i, &entry); i++) {
		if (entry.kind != FLASH_INPUT)
			continue;
		uint32_t index;
		struct lmplay_tensor tensor;
		if (lmplay_find_tensor(&image, entry.name, entry.name_bytes, &index) != LMPLAY_OK ||
			lmplay_tensor(&image, index, &tensor) != LMPLAY_OK)
			end_because(LMPLAY_USAGE, "the image has no input of a name in flash 1");
		void *data = lmplay_input(&replay, index);
		if (data == NULL || entry.data_bytes != tensor.size)
			end_because(LMPLAY_USAGE, "the data of an input have another size than the input");
		memcpy(data, entry.data, entry.data_bytes);
	}
}

/* run_in_slices executes a sequence in slices of a cyclic task. Here a loop is the scheduler; with
   an operating system a timer is. */
static enum lmplay_code run_in_slices(uint32_t sequence, uint32_t budget,
	struct lmplay_result *result)
{
	ReplayTask task;
	ReplayTask_Init(&task, &replay, budget);
	enum lmplay_code code = ReplayTask_Request(&task, sequence);
	uint64_t longest = 0, next = machine_now();
	while (code == LMPLAY_OK && task.state == REPLAY_TASK_BUSY) {
		uint64_t began = machine_now();
		ReplayTask_MainFunction(&task);
		uint64_t took = machine_now() - began;
		if (took > longest)
			longest = took;
		next += (uint64_t)1000 * REPLAY_TASK_PERIOD_US;
		while (machine_now() < next)
			;
	}
	*result = task.result;
	bool is_done = task.state == REPLAY_TASK_DONE;
	if (code == LMPLAY_OK && is_done != (result->code == LMPLAY_OK))
		end_because(LMPLAY_INTERNAL, "the state of the task is not that of its result");
	print("slices ");
	print_decimal(task.periods);
	print(", longest ");
	print_decimal(longest / 1000);
	print(" us; ");
	return code != LMPLAY_OK ? code : result->code;
}

/* run_sequence executes a sequence, in slices if flash 1 has a budget for them. */
static enum lmplay_code run_sequence(uint32_t sequence, struct lmplay_result *result)
{
	struct flash_entry entry;
	uint32_t budget = 0;
	if (!find_entry(FLASH_BUDGET, &entry) || entry.data_bytes != sizeof budget)
		return lmplay_run(&replay, sequence, 0, result);
	memcpy(&budget, entry.data, sizeof budget);
	return run_in_slices(sequence, budget, result);
}

/* run executes a sequence and prints how it ended. */
static enum lmplay_code run(const char *name, uint32_t name_bytes)
{
	uint32_t sequence;
	struct lmplay_result result = {0};
	print_bytes(name, name_bytes);
	print(": ");
	if (lmplay_find_sequence(&image, name, name_bytes, &sequence) != LMPLAY_OK) {
		print("usage: the image has no such sequence\n");
		return LMPLAY_USAGE;
	}
	uint64_t began = machine_now();
	is_running = true;
	enum lmplay_code code = run_sequence(sequence, &result);
	is_running = false;
	print_code(code);
	if (code == LMPLAY_OK) {
		print(" in ");
		print_decimal((machine_now() - began) / 1000);
		print(" us\n");
		return code;
	}
	if (result.command != LMPLAY_NONE) {
		print(": command ");
		print_decimal(result.command);
		print(" of the image, got ");
		print_hex(result.got);
		print(", want ");
		print_hex(result.want);
		print(", mask ");
		print_hex(result.mask);
	}
	if (result.safe_ran) {
		print("; safe: ");
		print_code(result.safe);
	}
	print("\n");
	return code;
}

/* run_all runs the sequences that flash 1 names, or main, until one fails. */
static enum lmplay_code run_all(void)
{
	struct flash_entry entry;
	enum lmplay_code code = LMPLAY_OK;
	if (!find_entry(FLASH_RUN, &entry))
		return run("main", 4);
	for (uint32_t i = 0; code == LMPLAY_OK && flash_read(&flash, i, &entry); i++)
		if (entry.kind == FLASH_RUN)
			code = run(entry.name, entry.name_bytes);
	return code;
}

/* The types of elements by enum lmplay_dtype. */
static const struct {
	const char *name;
	uint8_t bytes;
	char kind; /* s signed, u unsigned, f floating point */
} dtypes[] = {
	{"", 1, 'u'},
	{"int8", 1, 's'},
	{"uint8", 1, 'u'},
	{"int16", 2, 's'},
	{"uint16", 2, 'u'},
	{"int32", 4, 's'},
	{"uint32", 4, 'u'},
	{"int64", 8, 's'},
	{"uint64", 8, 'u'},
	{"float16", 2, 'f'},
	{"bfloat16", 2, 'f'},
	{"float32", 4, 'f'},
	{"float64", 8, 'f'},
};

/* print_element prints a number of a tensor; of floating point numbers, which this firmware does
   not compute with, the bits. */
static void print_element(uint32_t dtype, const uint8_t *at)
{
	unsigned bits = 8u * dtypes[dtype].bytes;
	uint64_t value = 0;
	memcpy(&value, at, dtypes[dtype].bytes);
	switch (dtypes[dtype].kind) {
	case 's':
		/* The shifts extend the sign. */
		print_signed((int64_t)(value << (64 - bits)) >> (64 - bits));
		break;
	case 'u':
		print_decimal(value);
		break;
	default:
		print("0x");
		print_digits(value, (int)(bits / 4));
	}
}

/* crc32c returns the CRC-32C of bytes, as in fbs/FORMAT.md. */
static uint32_t crc32c(const uint8_t *bytes, uint64_t size)
{
	const uint32_t polynomial = 0x82f63b78; /* Castagnoli, reflected */
	uint32_t sum = UINT32_MAX;
	for (uint64_t i = 0; i < size; i++) {
		sum ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ ((sum & 1) != 0 ? polynomial : 0);
	}
	return ~sum;
}

/* print_dump prints all bytes, 32 a line. */
static void print_dump(const uint8_t *bytes, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++) {
		if (i % 32 == 0)
			print("  ");
		print_digits(bytes[i], 2);
		if (i % 32 == 31 || i == size - 1)
			print("\n");
	}
}

/* print_output prints type, shape, checksum and first values of an output. */
static void print_output(const struct lmplay_tensor *tensor, const uint8_t *data)
{
	print("output ");
	print_bytes(tensor->name, tensor->name_bytes);
	print(": ");
	print(dtypes[tensor->dtype].name);
	print("[");
	for (uint32_t d = 0; d < tensor->dims; d++) {
		print(d == 0 ? "" : "x");
		print_decimal(tensor->shape[d]);
	}
	print("], CRC-32C ");
	print_digits(crc32c(data, tensor->size), 8);
	print(":");
	uint32_t bytes = dtypes[tensor->dtype].bytes;
	uint64_t count = tensor->size / bytes;
	for (uint64_t i = 0; i < count && i < VALUES_SHOWN; i++) {
		print(" ");
		print_element(tensor->dtype, data + i * bytes);
	}
	print(count > VALUES_SHOWN ? " ...\n" : "\n");
	struct flash_entry entry;
	if (find_entry(FLASH_DUMP, &entry))
		print_dump(data, tensor->size);
}

static void print_outputs(void)
{
	struct lmplay_tensor tensor;
	for (uint32_t i = 0; lmplay_tensor(&image, i, &tensor) == LMPLAY_OK; i++) {
		const uint8_t *data = lmplay_output(&replay, i);
		if (tensor.role == LMPLAY_OUTPUT && data != NULL)
			print_output(&tensor, data);
	}
}

_Noreturn void firmware_main(const void *tree)
{
	find_machine(tree);
	struct flash_entry file = find_image(tree);
	load(&file);
	set_inputs();
	enum lmplay_code code = run_all();
	if (code == LMPLAY_OK)
		print_outputs();
	enum lmplay_code unloaded = lmplay_unload(&replay);
	end(lmplay_exit_status(code != LMPLAY_OK ? code : unloaded));
}
