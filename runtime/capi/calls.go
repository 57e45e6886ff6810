package main

/*
#include "lightmetal.h"

// Go cannot express const. With these names, the prototypes of cgo match lightmetal.h.
typedef const char *lm_text;
typedef const char *const *lm_texts;
typedef const void *lm_bytes;
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// The functions of lightmetal.h except lm_last_error; the header documents them. Parameters have C
// types only where cgo translates no Go type to the type of the header.

const (
	noTensorReason = "the image has no tensor with this index; " +
		"lm_image_info has the number of tensors"
	noSequenceReason = "the image has no sequence with this index; " +
		"lm_image_info has the number of sequences"
)

const (
	stringBytesMax     = 4095 // of a string argument, without the terminating NUL
	tlbWindowNumberMax = 0xfffe
)

//export lm_abi
func lm_abi() uint32 {
	checkProcMountedOnce()
	return C.LM_ABI
}

//export lm_version
func lm_version(info *C.struct_lm_version) int32 {
	checkProcMountedOnce()
	if info == nil {
		return finishCallWithoutImage(usageError("version must not be NULL"))
	}
	*info = C.struct_lm_version{schema_hash: C.uint64_t(fbs.SchemaHash), abi: C.LM_ABI,
		format_major: fbs.FormatMajor, format_minor: fbs.FormatMinor}
	return 0
}

//export lm_open
func lm_open(path C.lm_text, handle *int32) int32 { return openFile(path, handle, nil) }

//export lm_open_signed
func lm_open_signed(path, keys C.lm_text, handle *int32) int32 {
	return lm_open_signed_at_least(path, keys, 0, handle)
}

//export lm_open_signed_at_least
func lm_open_signed_at_least(path, keys C.lm_text, version uint32, handle *int32) int32 {
	publicKeys, end := stringOf(keys, stringBytesMax)
	if end.code != hal.OK {
		return finishCallWithoutImage(end)
	}
	return openFile(path, handle, func(file *runtime.File) error {
		return checkSignature(file, string([]byte(publicKeys)), version)
	})
}

// openFile calls `check`, unless it is nil, before it verifies the file.
func openFile(path *C.char, handle *int32, check func(*runtime.File) error) int32 {
	name, end := stringOf(path, stringBytesMax)
	if end.code != hal.OK {
		return finishCallWithoutImage(end)
	}
	return openImage(handle, func(im *image) outcome {
		file, err := runtime.Open(string([]byte(name)))
		im.file = file
		if err == nil && check != nil {
			err = check(file)
		}
		if err == nil {
			im.view, err = file.Verify()
		}
		return outcomeOf(err)
	})
}

//export lm_open_memory
func lm_open_memory(data C.lm_bytes, size C.size_t, handle *int32) int32 {
	if data == nil || size > fbs.DataSizeMax {
		return finishCallWithoutImage(
			usageError("data must not be NULL, and size must be at most 2^46 bytes"))
	}
	return openImage(handle, func(im *image) outcome {
		view, err := fbs.Verify(unsafe.Slice((*byte)(data), int(size)))
		if err != nil {
			return outcome{code: hal.BadImage, reason: err.Error()}
		}
		im.view = view
		return outcome{}
	})
}

// openImage lets `verify` open and verify an image in a free element of imageSlots.
func openImage(handle *int32, verify func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	checkProcMountedOnce()
	im, freeHandle := findFreeSlot()
	end := checkMayOpen(handle, im)
	if end.code != hal.OK {
		return finishCallWithoutImage(end)
	}
	end = callAndRecover(im, verify)
	if end.code == hal.OK {
		im.lastOutcome = end
		im.timesOpened++
		im.handle.Store(freeHandle)
		*handle = freeHandle
	} else {
		im.release()
	}
	return finishCallWithoutImage(end)
}

func checkMayOpen(handle *int32, slot *image) outcome {
	switch {
	case handle == nil:
		return usageError("image must not be NULL")
	case sealed.Load():
		return sealedOutcome
	case isProcFSMissing.Load():
		return outcome{code: hal.NoFile,
			reason: "/proc was not mounted at the first call; mount it and restart the process"}
	case slot == nil:
		return usageError("16 images are open, which is the limit; close one")
	}
	return outcome{}
}

// isProcFSMissing is true if /proc was not mounted at the first call of checkProcMountedOnce.
var isProcFSChecked, isProcFSMissing atomic.Bool

// checkProcMountedOnce is called by the functions with which a process begins.
func checkProcMountedOnce() {
	// At the first call of the main thread, Go asks the C library for the bounds of its stack,
	// which are in /proc/self/maps. If that fails, Go asks again at every call, and the kernel
	// kills a sealed process that opens a file.
	if !isProcFSChecked.Load() && !isProcFSChecked.Swap(true) {
		isProcFSMissing.Store(unix.Access("/proc/self/maps", unix.R_OK) != nil)
	}
}

//export lm_longest
func lm_longest(handle int32, nanoseconds C.uint64_t) int32 {
	return withImage(handle, stageOpened, func(im *image) outcome {
		if im.stage != stageOpened {
			return usageError("lm_longest must be called before lm_load")
		}
		im.view.TimeLimitUs = uint64(nanoseconds) / 1000
		return outcome{}
	})
}

//export lm_load
func lm_load(handle int32, devices C.lm_texts, count uint32, window int32) int32 {
	return withImageExclusively(handle, stageOpened, func(im *image) outcome {
		switch {
		case count > fbs.DevicesMax || (devices == nil) != (count == 0):
			return usageError("count must be 0 if devices is NULL, else from 1 to 8")
		case window < C.LM_ANY_WINDOW || window > tlbWindowNumberMax:
			return usageError("window must be from 0 to 65534, or LM_ANY_WINDOW")
		}
		return im.loadOnDevices(unsafe.Slice((**C.char)(devices), int(count)), int(window))
	})
}

// openDevice is a variable for device_mock.go and tests.
var openDevice = hal.Open

func (im *image) loadOnDevices(cDeviceNames []*C.char, firstTLBWindow int) (end outcome) {
	names, end := deviceNames(im.view, cDeviceNames)
	if end.code != hal.OK {
		return end
	}
	if err := runtime.CheckWorstCaseTimes(im.view, "; lm_longest raises the limit"); err != nil {
		return outcomeOf(err)
	}
	devices := make([]hal.Device, len(names))
	// Deferred, because a panic, too, must close the devices.
	defer func() {
		if im.stage != stageLoaded {
			_ = closeDevices(devices)
		}
	}()
	if err := openDevices(names, devices); err != nil {
		return outcomeOf(err)
	}
	replay, err := runtime.Load(im.view, firstTLBWindow, devices...)
	if err != nil {
		return outcomeOf(err)
	}
	im.devices, im.replay, im.stage = devices, replay, stageLoaded
	return outcome{}
}

// openDevices opens no further device after a failure.
func openDevices(names []string, devices []hal.Device) error {
	for i, name := range names {
		device, err := openDevice(name)
		if err != nil {
			return err
		}
		devices[i] = device
	}
	return nil
}

// deviceNames returns copies of the names, or those of runtime.DeviceNames for NULL.
func deviceNames(view *fbs.View, cDeviceNames []*C.char) ([]string, outcome) {
	names := runtime.DeviceNames(view)
	if len(cDeviceNames) > 0 && len(cDeviceNames) != len(names) {
		return nil, usageError("count must be the number of devices in the image")
	}
	for i, cName := range cDeviceNames {
		if cName == nil {
			continue
		}
		name, end := stringOf(cName, stringBytesMax)
		if end.code != hal.OK {
			return nil, end
		}
		if name == "" {
			return nil, usageError("a device name is empty; " +
				"pass NULL to select the device by the PCI ids in the image")
		}
		names[i] = string([]byte(name)) // copy the text, because the caller may free the C string
	}
	return names, outcome{}
}

//export lm_freeze
func lm_freeze(handle int32) int32 {
	return withImageExclusively(handle, stageLoaded, func(im *image) outcome {
		if err := im.replay.Freeze(); err != nil {
			return outcomeOf(err)
		}
		waitForSysmon()
		startSpareThreads()
		blockPreemption()
		im.stage = stageFrozen
		return outcome{}
	})
}

//export lm_seal
func lm_seal(handle int32) int32 {
	return withImageExclusively(handle, stageFrozen, func(*image) outcome {
		err := runtime.Seal()
		sealed.Store(err == nil)
		return outcomeOf(err)
	})
}

//export lm_image_info
func lm_image_info(handle int32, info *C.struct_lm_image) int32 {
	return withImage(handle, stageOpened, func(im *image) outcome {
		if info == nil {
			return usageError("info must not be NULL")
		}
		r := &im.view.Reservation
		*info = C.struct_lm_image{
			arena_bytes: C.uint64_t(r.ArenaBytes), host_bytes: C.uint64_t(r.HostBytes),
			payload_bytes: C.uint64_t(r.PayloadBytes),
			devices:       C.uint32_t(r.Devices), sequences: C.uint32_t(r.Sequences),
			tensors: C.uint32_t(r.Tensors), commands: C.uint32_t(r.Commands),
		}
		return outcome{}
	})
}

//export lm_find_sequence
func lm_find_sequence(handle int32, name C.lm_text, sequence *uint32) int32 {
	return findIndex(handle, name, sequence, (*fbs.View).SequenceByName)
}

//export lm_find_tensor
func lm_find_tensor(handle int32, name C.lm_text, tensor *uint32) int32 {
	return findIndex(handle, name, tensor, (*fbs.View).TensorByName)
}

func findIndex(handle int32, name *C.char, index *uint32, find func(*fbs.View, string) int) int32 {
	return withImage(handle, stageOpened, func(im *image) outcome {
		wanted, end := stringOf(name, fbs.NameMax)
		i := find(im.view, wanted)
		switch {
		case end.code != hal.OK:
			return end
		case index == nil:
			return usageError("the pointer to the index must not be NULL")
		case i < 0:
			return usageError("the image has no sequence or tensor with this name")
		}
		*index = uint32(i)
		return outcome{}
	})
}

//export lm_sequence_name
func lm_sequence_name(handle int32, sequence uint32, text *C.char, size C.size_t) int32 {
	return withImage(handle, stageOpened, func(im *image) outcome {
		name := bufferOf(text, size)
		switch {
		case uint64(sequence) >= uint64(len(im.view.Sequences)):
			return usageError(noSequenceReason)
		case len(name) == 0:
			return usageError("name must not be NULL, and size must not be 0")
		}
		addFinalZero(name, copy(name, im.view.NameBytes(im.view.Sequences[sequence].Name)))
		return outcome{}
	})
}

//export lm_tensor_info
func lm_tensor_info(handle int32, tensor uint32, info *C.struct_lm_tensor) int32 {
	return withImage(handle, stageOpened, func(im *image) outcome {
		switch {
		case uint64(tensor) >= uint64(len(im.view.Tensors)):
			return usageError(noTensorReason)
		case info == nil:
			return usageError("info must not be NULL")
		}
		t := &im.view.Tensors[tensor]
		*info = C.struct_lm_tensor{size: C.uint64_t(t.Size), role: C.uint32_t(t.Role),
			dtype: C.uint32_t(t.Dtype), has_data: C.uint32_t(t.HasData), dims: C.uint32_t(t.Dims)}
		for i, side := range t.Shape()[:t.Dims] {
			info.shape[i] = C.uint32_t(side)
		}
		copy(bufferOf(&info.name[0], C.LM_NAME_MAX), im.view.NameBytes(t.Name))
		return outcome{}
	})
}

//export lm_input
func lm_input(handle int32, tensor uint32, size C.size_t, data *unsafe.Pointer) int32 {
	return tensorMemory(handle, tensor, size, gen.RoleInput, data)
}

//export lm_output
func lm_output(handle int32, tensor uint32, size C.size_t, data *C.lm_bytes) int32 {
	return tensorMemory(handle, tensor, size, gen.RoleOutput, (*unsafe.Pointer)(data))
}

func tensorMemory(handle int32, tensor uint32, size C.size_t, role gen.Role,
	data *unsafe.Pointer) int32 {
	return withImage(handle, stageLoaded, func(im *image) outcome {
		switch tensors := im.view.Tensors; {
		case data == nil:
			return usageError("data must not be NULL")
		case uint64(tensor) >= uint64(len(tensors)):
			return usageError(noTensorReason)
		case tensors[tensor].Role != role && role == gen.RoleInput:
			return usageError("the tensor is not an input; lm_tensor_info has its role")
		case tensors[tensor].Role != role:
			return usageError("the tensor is not an output; lm_tensor_info has its role")
		case tensors[tensor].Size != uint64(size):
			return outcome{code: hal.BadTensor,
				reason: "size must be the size of the tensor; see lm_tensor_info"}
		case role == gen.RoleInput:
			*data = unsafe.Pointer(unsafe.SliceData(im.replay.Input(int(tensor))))
		default:
			*data = unsafe.Pointer(unsafe.SliceData(im.replay.Output(int(tensor))))
		}
		return outcome{}
	})
}

//export lm_limit
func lm_limit(handle int32, nanoseconds C.uint64_t) int32 {
	return withImage(handle, stageLoaded, func(im *image) outcome {
		if int64(nanoseconds) < 0 {
			return usageError("the limit must be below 2^63 ns; 0 removes an earlier limit")
		}
		im.replay.SetLimit(int64(nanoseconds))
		return outcome{}
	})
}

//export lm_run
func lm_run(handle int32, sequence uint32) int32 {
	return withImage(handle, stageFrozen, func(im *image) outcome {
		if uint64(sequence) >= uint64(len(im.view.Sequences)) {
			return usageError(noSequenceReason)
		}
		result := im.replay.Run(int(sequence))
		return outcome{code: result.Code, result: result, hasResult: true}
	})
}

//export lm_close
func lm_close(handle int32) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	im, end := acquireImage(handle)
	if im == nil {
		return finishCallWithoutImage(end)
	}
	end = callAndRecover(im, (*image).release)
	im.handle.Store(0)
	im.busy.Store(false)
	return finishCallWithoutImage(end)
}

// stringOf does not copy the bytes: the Go string is valid only until the call from C returns.
func stringOf(text *C.char, lengthMax int) (string, outcome) {
	if text == nil {
		return "", usageError("a string argument must not be NULL")
	}
	first := (*byte)(unsafe.Pointer(text))
	for length := 0; length <= lengthMax; length++ {
		if *(*byte)(unsafe.Add(unsafe.Pointer(first), length)) == 0 {
			return unsafe.String(first, length), outcome{}
		}
	}
	return "", usageError("a string argument is too long, or does not end with a zero byte")
}

// bufferOf returns at most 4096 bytes, which is enough for every text of the archive: unsafe.Slice
// panics if the caller passes a huge wrong size.
func bufferOf(text *C.char, size C.size_t) []byte {
	if text == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(text)), int(min(uint64(size), 4096)))
}
