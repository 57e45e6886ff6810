#include "format.h"

// bar_start returns where a BAR begins in the device's memory.
static uint64_t bar_start(const struct lmplay_image *image, unsigned device, unsigned bar) {
	uint64_t start = 0;
	for (unsigned t = 0; t <= device && t < vector_count(image, VECTOR_DEVICES); t++)
		for (unsigned b = 0; b < 6 && (t < device || b < bar); b++)
			start += align_up(devices_of(image)[t].bars[b], 4096);
	return start;
}

// windows_size returns the size of all windows of a kind, each rounded up to pages.
static uint64_t windows_size(const struct lmplay_image *image, uint8_t kind) {
	uint64_t size = 0;
	for (uint32_t i = 0; i < vector_count(image, VECTOR_WINDOWS); i++)
		if (windows_of(image)[i].kind == kind)
			size += align_up(windows_of(image)[i].size, 4096);
	return size;
}

uint64_t device_size(const struct lmplay_image *image) {
	if (windows_size(image, CONFIG) != 0)
		return 0;
	return bar_start(image, vector_count(image, VECTOR_DEVICES), 0) + windows_size(image, HOST) +
		windows_size(image, TLB) + 4096;
}

uint64_t lay_out_windows(const struct lmplay_image *image, uint64_t *places) {
	uint64_t host = bar_start(image, vector_count(image, VECTOR_DEVICES), 0);
	uint64_t tiles = host + windows_size(image, HOST);
	for (uint32_t i = 0; i < vector_count(image, VECTOR_WINDOWS); i++) {
		const struct image_window *w = &windows_of(image)[i];
		places[i] = bar_start(image, w->device, w->bar) + w->offset;
		if (w->kind == HOST)
			places[i] = host, host += align_up(w->size, 4096);
		if (w->kind == TLB)
			places[i] = tiles, tiles += align_up(w->size, 4096);
	}
	return tiles;
}
