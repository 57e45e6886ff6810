/* A test of tree.c and flash.c on the host, compiled with sanitizers by tools/check/guest: reads a
   device tree and a flash from files, first as they are, then with random bytes changed or the end
   cut off. Every read outside of the bytes ends the program.

   usage: host_test TREE FLASH COUNT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flash.h"
#include "tree.h"

/* sum keeps reads of bytes from being removed by the compiler. */
static volatile uint32_t sum;

static void read_bytes(const uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		sum += bytes[i];
}

/* write_cell writes a big-endian number. */
static void write_cell(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* change_cells makes a tree fit its memory, and changes cells to what a reader may add wrongly. */
static void change_cells(uint8_t *tree, size_t size)
{
	if (rand() % 4 == 0) /* a place of the strings, which may have been cut off */
		write_cell(tree + 12, (uint32_t)((size_t)rand() % size));
	if (rand() % 2 == 0) { /* a size that wraps around */
		size_t cell = 10 + (size_t)rand() % (size / 4 - 9);
		if (4 * cell + 4 <= size)
			write_cell(tree + 4 * cell, 0 - (uint32_t)(rand() % 1024));
	}
	write_cell(tree + 4, (uint32_t)size); /* the size that a tree says is its memory */
}

static void read_tree(const uint8_t *bytes)
{
	static const char *const kinds[] = {"arm,pl011", "memory", "cfi-flash",
		"pci-host-ecam-generic", "absent"};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct tree_node node;
		if (!tree_find(bytes, kinds[i], &node))
			continue;
		read_bytes(node.compatible.data, node.compatible.size);
		read_bytes(node.reg.data, node.reg.size);
		read_bytes(node.ranges.data, node.ranges.size);
		sum += tree_cell(&node.reg, node.reg.size / 4);
		sum += (uint32_t)tree_cells(&node.reg, node.reg.size / 4 - 1);
	}
}

static void read_flash(const uint8_t *bytes, size_t size)
{
	struct flash flash;
	struct flash_entry entry;
	if (!flash_open(&flash, bytes, size))
		return;
	for (uint32_t i = 0; flash_read(&flash, i, &entry); i++) {
		read_bytes((const uint8_t *)entry.name, entry.name_bytes);
		read_bytes(entry.data, entry.data_bytes);
	}
}

/* print_node prints the first cells of a node, for comparison. */
static void print_node(const uint8_t *tree, const char *kind)
{
	struct tree_node node;
	if (!tree_find(tree, kind, &node)) {
		printf("%s: none\n", kind);
		return;
	}
	printf("%s: 0x%llx 0x%llx, ranges %u bytes\n", kind,
		(unsigned long long)tree_cells(&node.reg, 0),
		(unsigned long long)tree_cells(&node.reg, 2), node.ranges.size);
}

/* read_file reads a file whose size is a multiple of 4. */
static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		exit(66);
	*size = (size_t)ftell(file);
	rewind(file);
	uint8_t *bytes = malloc(*size);
	if (bytes == NULL || fread(bytes, 1, *size, file) != *size)
		exit(74);
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 64;
	size_t sizes[2];
	uint8_t *files[2] = {read_file(argv[1], &sizes[0]), read_file(argv[2], &sizes[1])};
	print_node(files[0], "arm,pl011");
	print_node(files[0], "memory");
	print_node(files[0], "cfi-flash");
	print_node(files[0], "pci-host-ecam-generic");
	print_node(files[0], "absent");
	srand(1);
	for (int n = atoi(argv[3]); n > 0; n--) {
		int is_flash = n % 2;
		size_t size = sizes[is_flash];
		size_t header = is_flash ? 16 : 40;
		if (rand() % 4 == 0)
			size = header + (size_t)rand() % (size - header);
		uint8_t *copy = malloc(size); /* exactly as large, so that a read behind it is noticed */
		if (copy == NULL)
			return 70;
		memcpy(copy, files[is_flash], size);
		/* Half of the changes are near the start, where the headers are. */
		for (int changes = rand() % 4; changes > 0; changes--) {
			size_t end = rand() % 2 ? size : header + 64 < size ? header + 64 : size;
			copy[(size_t)rand() % end] = (uint8_t)(rand() % 3 == 0 ? rand() : 0xff);
		}
		if (is_flash) {
			read_flash(copy, size);
		} else {
			change_cells(copy, size);
			read_tree(copy);
		}
		free(copy);
	}
	free(files[0]);
	free(files[1]);
	return 0;
}
