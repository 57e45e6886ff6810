/* A reader of flattened device trees (Devicetree Specification 0.4, chapter 5).

   QEMU's virt machines promise the addresses of RAM and flash only, and put everything else into
   the tree (docs/system/arm/virt.rst: "guest code must look in the DTB"). The window for large
   BARs, for instance, moves with the size of RAM. */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stdint.h>

/* tree_property is the value of a property: big endian, in the tree. */
struct tree_property {
	const uint8_t *data;
	uint32_t size;
};

/* tree_node has the properties of a node that the firmware uses; size is 0 if one is absent. */
struct tree_node {
	struct tree_property compatible, device_type, reg, ranges;
};

/* tree_find finds the first node with that string in `compatible` or `device_type`. It returns
   false if the tree has none, or is not a tree. */
bool tree_find(const void *tree, const char *kind, struct tree_node *node);

/* tree_cell returns a 32-bit cell of a property, tree_cells two as a 64-bit number; 0 if the
   property is shorter. Addresses and sizes have two cells in the trees of 64-bit virt machines. */
uint32_t tree_cell(const struct tree_property *property, uint32_t index);
uint64_t tree_cells(const struct tree_property *property, uint32_t index);

#endif
