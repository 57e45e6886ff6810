//go:build cgo

package ttsim

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*sim_init)(void);
static void (*sim_exit)(void);
static void (*sim_set_dma)(void (*)(uint64_t, void *, uint32_t),
	void (*)(uint64_t, const void *, uint32_t));
static uint32_t (*sim_config_rd)(uint32_t, uint32_t);
static void (*sim_config_wr)(uint32_t, uint32_t, uint32_t);
static void (*sim_rd)(uint64_t, void *, uint32_t);
static void (*sim_wr)(uint64_t, const void *, uint32_t);
static void (*sim_clock)(uint32_t);

// The values of opLoad, opStore, chunkMax, absent and refused in protocol.go. DMA is the file
// descriptor after childSocket, on which the child requests accesses to memory.
enum { LOAD = 1, STORE = 2, CHUNK_MAX = 64 << 10, DMA = 4, ABSENT = 0, REFUSED = 2 };

// stream reads or writes all of size bytes on the descriptor DMA. move is read or put.
static void stream(ssize_t (*move)(int, void *, size_t), void *p, size_t size) {
	for (ssize_t n; size; p = (char *)p + n, size -= n)
		if ((n = move(DMA, p, size)) <= 0)
			_Exit(1); // the parent has exited
}

static ssize_t put(int fd, void *p, size_t size) { return write(fd, p, size); }

// ask makes the parent execute an access of the device to memory, in chunks of up to CHUNK_MAX
// bytes.
static void ask(uint32_t op, uint64_t address, void *p, uint32_t size) {
	struct { uint32_t op, size; uint64_t address, value; } request = {op, 0, address, 0};
	uint32_t left = size;
	char answer;
	for (uint32_t n; left; left -= n, request.address += n, p = (char *)p + n) {
		request.size = n = left < CHUNK_MAX ? left : CHUNK_MAX;
		stream(put, &request, sizeof request);
		if (op == STORE)
			stream(put, p, n);
		stream(read, &answer, 1);
		if (op == LOAD)
			stream(read, p, n);
		if (answer == REFUSED) {
			printf("ERROR: the device %s %u bytes of host memory at 0x%llx; "
			       "no Host window of the image is there\n",
			       op == LOAD ? "reads" : "writes", size, (unsigned long long)address);
			fflush(stdout);
			_Exit(1);
		}
		if (answer == ABSENT && op == LOAD)
			memset(p, 0xff, n); // like a bus without a device at the address; stores have no effect
	}
}

static void dma_rd(uint64_t address, void *p, uint32_t size) { ask(LOAD, address, p, size); }
static void dma_wr(uint64_t address, const void *p, uint32_t size)
{
	ask(STORE, address, (void *)p, size);
}

// sim_open loads and starts the library. It returns NULL, or the text of the error.
static const char *sim_open(const char *path) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		return dlerror();
	struct { const char *name; void *to; } symbols[] = {
		{"libttsim_init", &sim_init},
		{"libttsim_exit", &sim_exit},
		{"libttsim_set_pci_dma_mem_callbacks", &sim_set_dma},
		{"libttsim_pci_config_rd32", &sim_config_rd},
		{"libttsim_pci_config_wr32", &sim_config_wr},
		{"libttsim_pci_mem_rd_bytes", &sim_rd},
		{"libttsim_pci_mem_wr_bytes", &sim_wr},
		{"libttsim_clock", &sim_clock},
	};
	for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *p = dlsym(h, symbols[i].name);
		if (!p)
			return dlerror();
		*(void **)symbols[i].to = p;
	}
	sim_set_dma(dma_rd, dma_wr);
	sim_init();
	return NULL;
}

static void sim_call_exit(void) { sim_exit(); }
static uint32_t sim_call_config_rd(uint32_t offset) { return sim_config_rd(0, offset); }
static void sim_call_config_wr(uint32_t offset, uint32_t value) { sim_config_wr(0, offset, value); }
static void sim_call_rd(uint64_t address, void *p, uint32_t size) { sim_rd(address, p, size); }
static void sim_call_wr(uint64_t address, void *p, uint32_t size) { sim_wr(address, p, size); }
static void sim_call_clock(uint32_t n) { sim_clock(n); }
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"lightmetal/tools/image/fail"
)

// built reports whether this program can load the library, which requires cgo.
const built = true

// ChildMain turns a process that Open started into the simulator, and then never returns. In every
// other process it does nothing. A program that uses this package must call it first in main, and a
// test in TestMain.
func ChildMain() {
	path, child := os.LookupEnv(childVariable)
	if !child {
		return
	}
	if err := fail.Try(func() { serve(path, os.NewFile(childSocket, "parent")) }); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve loads the library and answers requests until the parent sends opExit or has exited.
func serve(path string, parent io.ReadWriter) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if wrong := C.sim_open(name); wrong != nil {
		fail.On(errors.New(C.GoString(wrong)))
	}
	var head [requestSize]byte
	buffer := make([]byte, replySize+chunkMax)
	binary.LittleEndian.PutUint64(buffer, hello)
	fail.Must(parent.Write(buffer[:replySize]))
	for r := (request{}); r.op != opExit; {
		fail.Must(io.ReadFull(parent, head[:]))
		r = decodeRequest(&head)
		fail.Must(parent.Write(buffer[:answer(r, buffer, parent)]))
	}
}

// answer executes one request and writes the answer to buffer. It returns the size of the answer.
// If the library rejects the access, it ends the process.
func answer(r request, buffer []byte, parent io.Reader) (n int) {
	reply, data := buffer[:replySize], buffer[replySize:]
	clear(reply)
	size := C.uint32_t(r.size)
	switch address := C.uint64_t(r.address); r.op {
	case opLoad:
		C.sim_call_rd(address, unsafe.Pointer(&reply[0]), size)
		C.sim_call_clock(C.uint32_t(r.value))
	case opStore:
		binary.LittleEndian.PutUint64(data, r.value)
		C.sim_call_wr(address, unsafe.Pointer(&data[0]), size)
	case opCopyIn:
		fail.Must(io.ReadFull(parent, data[:r.size]))
		C.sim_call_wr(address, unsafe.Pointer(&data[0]), size)
	case opCopyOut:
		C.sim_call_rd(address, unsafe.Pointer(&data[0]), size)
		return replySize + int(r.size)
	case opConfigLoad:
		binary.LittleEndian.PutUint64(reply, uint64(C.sim_call_config_rd(C.uint32_t(address))))
	case opConfigStore:
		C.sim_call_config_wr(C.uint32_t(address), C.uint32_t(r.value))
	case opClock:
		C.sim_call_clock(C.uint32_t(r.value))
	case opExit:
		C.sim_call_exit()
	default:
		fail.On(fmt.Errorf("the simulator's process received the unknown request %d", r.op))
	}
	return replySize
}
