/* A reader of flattened device trees. It reads bytes, since MMU-less machines fault on unaligned
   words, and nothing beyond the size that the tree's header says. */
#include "tree.h"

#include <stddef.h>

enum {
	/* The header's cells: Devicetree Specification, section 5.2. */
	HEADER_MAGIC = 0x00,
	HEADER_TOTAL_SIZE = 0x04,
	HEADER_STRUCTURE = 0x08,
	HEADER_STRINGS = 0x0c,
	HEADER_SIZE = 40,

	/* Tokens of the structure block: section 5.4.1. */
	TOKEN_BEGIN_NODE = 1,
	TOKEN_END_NODE = 2,
	TOKEN_PROPERTY = 3,
	TOKEN_NOP = 4,
	TOKEN_END = 9,
};

#define TREE_MAGIC 0xd00dfeedu

static uint32_t read_cell(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

uint32_t tree_cell(const struct tree_property *property, uint32_t index)
{
	if (property->size / 4 <= index)
		return 0;
	return read_cell(property->data + (size_t)4 * index);
}

uint64_t tree_cells(const struct tree_property *property, uint32_t index)
{
	return (uint64_t)tree_cell(property, index) << 32 | tree_cell(property, index + 1);
}

/* equals compares a text with the one in data, which has at most size bytes with its zero. */
static bool equals(const char *text, const uint8_t *data, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		if (data[i] != (uint8_t)text[i])
			return false;
		if (text[i] == 0)
			return true;
	}
	return false;
}

/* has_string reports whether one of the strings of a property is this one. */
static bool has_string(const struct tree_property *property, const char *text)
{
	for (uint32_t i = 0; i < property->size; i++) {
		bool is_start = i == 0 || property->data[i - 1] == 0;
		if (is_start && equals(text, property->data + i, property->size - i))
			return true;
	}
	return false;
}

/* place returns the field of node for a property with that name, NULL if there is no field. */
static struct tree_property *place(struct tree_node *node, const uint8_t *name, uint32_t size)
{
	if (equals("compatible", name, size))
		return &node->compatible;
	if (equals("device_type", name, size))
		return &node->device_type;
	if (equals("reg", name, size))
		return &node->reg;
	if (equals("ranges", name, size))
		return &node->ranges;
	return NULL;
}

bool tree_find(const void *tree, const char *kind, struct tree_node *node)
{
	const uint8_t *data = tree;
	const struct tree_node empty = {0};
	if (read_cell(data + HEADER_MAGIC) != TREE_MAGIC)
		return false;
	uint32_t total = read_cell(data + HEADER_TOTAL_SIZE);
	uint32_t at = read_cell(data + HEADER_STRUCTURE);
	uint32_t strings = read_cell(data + HEADER_STRINGS);
	if (total < HEADER_SIZE || strings > total)
		return false;

	*node = empty;
	while (at % 4 == 0 && at < total && total - at >= 4) {
		uint32_t token = read_cell(data + at);
		at += 4;
		switch (token) {
		case TOKEN_BEGIN_NODE:
		case TOKEN_END_NODE:
			/* All properties of a node are before its children (section 5.4.2), so this node is
			   complete at the first token that begins or ends one. */
			if (has_string(&node->compatible, kind) || has_string(&node->device_type, kind))
				return true;
			*node = empty;
			/* Skip the name of the node: a string, padded to 4 bytes. */
			while (token == TOKEN_BEGIN_NODE && at < total && data[at] != 0)
				at++;
			at += token == TOKEN_BEGIN_NODE;
			at = (at + 3) & ~3u;
			break;
		case TOKEN_PROPERTY: {
			/* Its size, its name in the strings block, its value, padded to 4 bytes. */
			if (total - at < 8)
				return false;
			uint32_t size = read_cell(data + at);
			uint32_t name = read_cell(data + at + 4);
			at += 8;
			if (size > total - at || name >= total - strings)
				return false;
			struct tree_property *field =
				place(node, data + strings + name, total - strings - name);
			if (field != NULL) {
				field->data = data + at;
				field->size = size;
			}
			at += (size + 3) & ~3u;
			break;
		}
		case TOKEN_NOP:
			break;
		default: /* TOKEN_END, or no tree */
			return false;
		}
	}
	return false;
}
