package main

/*
#include "lightmetal.h"

// C's const has no counterpart in Go, and cgo writes the names of these types
// into its prototypes, which the compiler then holds against the header's.
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

// The calls of lightmetal.h, in its order; what each does is said there. A type of
// Go's stands for one of C's where the compiler finds both prototypes alike.

const (
	pathMax   = 4095
	windowMax = 0xfffe
)

//export lm_abi
func lm_abi() uint32 {
	checkFirstCall()
	return C.LM_ABI
}

//export lm_version
func lm_version(info *C.struct_lm_version) int32 {
	checkFirstCall()
	if info == nil {
		return recordOutcome(usageError("version is NULL"))
	}
	*info = C.struct_lm_version{schema_hash: C.uint64_t(fbs.SchemaHash), abi: C.LM_ABI,
		format_major: fbs.FormatMajor, format_minor: fbs.FormatMinor}
	return 0
}

//export lm_open
func lm_open(path C.lm_text, handle *int32) int32 { return openFile(path, handle, nil) }

//export lm_open_signed
func lm_open_signed(path, keys C.lm_text, handle *int32) int32 {
	text, end := borrowString(keys, pathMax)
	if end.code != hal.OK {
		return recordOutcome(end)
	}
	return openFile(path, handle,
		func(file *runtime.File) error { return checkSignature(file, string([]byte(text))) })
}

// openFile opens a file. Where there is a check, that looks at it before it is verified.
func openFile(path *C.char, handle *int32, check func(*runtime.File) error) int32 {
	name, end := borrowString(path, pathMax)
	if end.code != hal.OK {
		return recordOutcome(end)
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
	if data == nil || size > fbs.BytesMax {
		return recordOutcome(usageError("data is NULL, or size larger than any image"))
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

func openImage(handle *int32, verify func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	checkFirstCall()
	im, number := freeSlot()
	switch {
	case handle == nil:
		return recordOutcome(usageError("image is NULL"))
	case sealed.Load():
		return recordOutcome(isSealed)
	case procMissing.Load():
		return recordOutcome(outcome{code: hal.NoFile,
			reason: "/proc was not mounted before the first call; mount it and start the process " +
				"again"})
	case im == nil:
		return recordOutcome(usageError("as many images are open as can be; close one"))
	}
	end := recoverPanic(im, verify)
	if end.code == hal.OK {
		im.last = end
		im.uses++
		im.handle.Store(number)
		*handle = number
	} else {
		im.release()
	}
	return recordOutcome(end)
}

// looked and blind tell whether a first call has come, and that it came too early.
var firstCallSeen, procMissing atomic.Bool

// look comes first in every call that may be a process's first. At a thread's first call
// into Go, Go asks the C library for the bounds of the thread's stack, which for
// the first thread of a process come from /proc/self/maps. Without an answer it
// asks again at every call, also under the seal, which kills for that.
func checkFirstCall() {
	if !firstCallSeen.Load() && !firstCallSeen.Swap(true) {
		procMissing.Store(unix.Access("/proc/self/maps", unix.R_OK) != nil)
	}
}

//export lm_longest
func lm_longest(handle int32, nanoseconds C.uint64_t) int32 {
	return callOnImage(handle, stageOpened, func(im *image) outcome {
		if im.stage != stageOpened {
			return usageError("lm_longest comes before lm_load")
		}
		im.view.TimeLimitUs = uint64(nanoseconds) / 1000
		return outcome{}
	})
}

//export lm_load
func lm_load(handle int32, devices C.lm_texts, count uint32, window int32) int32 {
	return callOnProcess(handle, stageOpened, func(im *image) outcome {
		switch {
		case count > fbs.DevicesMax || (devices == nil) != (count == 0):
			return usageError("count is larger than any image's, or 0 and devices is not NULL, " +
				"or the other way round")
		case window < C.LM_ANY_WINDOW || window > windowMax:
			return usageError("window is the number of a hardware window, or LM_ANY_WINDOW")
		}
		return im.load(unsafe.Slice((**C.char)(devices), int(count)), int(window))
	})
}

// openDevice opens a device by its name. Tests put stand-ins in its place.
var openDevice = hal.Open

// load opens the devices, NULL being the one with the image's PCI ids, and reserves what runs need.
func (im *image) load(names []*C.char, window int) (end outcome) {
	found := runtime.DeviceNames(im.view)
	if len(names) > 0 && len(names) != len(found) {
		return usageError("count is not the number of the image's targets")
	}
	for i, text := range names {
		if text == nil {
			continue
		}
		name, end := borrowString(text, pathMax)
		if name == "" && end.code == hal.OK {
			end = usageError("the name of a device is empty; NULL stands for the only one that " +
				"the image is for")
		}
		if found[i] = string([]byte(name)); end.code != hal.OK {
			return end
		}
	}
	devices := make([]hal.Device, len(found))
	// A panic of a device must leave no other open either.
	defer func() {
		if im.stage != stageLoaded {
			_ = closeDevices(devices)
		}
	}()
	for i, name := range found {
		device, err := openDevice(name)
		if err != nil {
			return outcomeOf(err)
		}
		devices[i] = device
	}
	replay, err := runtime.Load(im.view, window, devices...)
	if err != nil {
		return outcomeOf(err)
	}
	im.devices, im.replay, im.stage = devices, replay, stageLoaded
	return outcome{}
}

//export lm_freeze
func lm_freeze(handle int32) int32 {
	return callOnProcess(handle, stageLoaded, func(im *image) outcome {
		if err := im.replay.Freeze(); err != nil {
			return outcomeOf(err)
		}
		makeThreads()
		blockPreemption()
		im.stage = stageFrozen
		return outcome{}
	})
}

//export lm_seal
func lm_seal(handle int32) int32 {
	return callOnProcess(handle, stageFrozen, func(*image) outcome {
		err := runtime.Seal()
		sealed.Store(err == nil)
		return outcomeOf(err)
	})
}

//export lm_image_info
func lm_image_info(handle int32, info *C.struct_lm_image) int32 {
	return callOnImage(handle, stageOpened, func(im *image) outcome {
		if info == nil {
			return usageError("info is NULL")
		}
		r := &im.view.Reservation
		*info = C.struct_lm_image{
			arena_bytes: C.uint64_t(r.ArenaBytes), host_bytes: C.uint64_t(r.HostBytes),
			payload_bytes: C.uint64_t(r.PayloadBytes),
			targets:       C.uint32_t(r.Devices), sequences: C.uint32_t(r.Sequences),
			tensors: C.uint32_t(r.Tensors), commands: C.uint32_t(r.Commands),
		}
		return outcome{}
	})
}

//export lm_find_sequence
func lm_find_sequence(handle int32, name C.lm_text, sequence *uint32) int32 {
	return findByName(handle, name, sequence, (*fbs.View).SequenceByName)
}

//export lm_find_tensor
func lm_find_tensor(handle int32, name C.lm_text, tensor *uint32) int32 {
	return findByName(handle, name, tensor, (*fbs.View).TensorByName)
}

// find gives the index of what a method of the view finds by its name.
func findByName(handle int32, name *C.char, index *uint32, in func(*fbs.View, string) int) int32 {
	return callOnImage(handle, stageOpened, func(im *image) outcome {
		wanted, end := borrowString(name, fbs.NameMax)
		i := in(im.view, wanted)
		switch {
		case end.code != hal.OK:
			return end
		case index == nil:
			return usageError("there is nowhere to put the index: NULL")
		case i < 0:
			return usageError("the image has nothing of this name")
		}
		*index = uint32(i)
		return outcome{}
	})
}

//export lm_sequence_name
func lm_sequence_name(handle int32, sequence uint32, text *C.char, size C.size_t) int32 {
	return callOnImage(handle, stageOpened, func(im *image) outcome {
		name := callerBuffer(text, size)
		switch {
		case uint64(sequence) >= uint64(len(im.view.Sequences)):
			return usageError("the image has no sequence of this number")
		case len(name) == 0:
			return usageError("name is NULL or of no size")
		}
		terminate(name, copy(name, im.view.NameBytes(im.view.Sequences[sequence].Name)))
		return outcome{}
	})
}

//export lm_tensor_info
func lm_tensor_info(handle int32, tensor uint32, info *C.struct_lm_tensor) int32 {
	return callOnImage(handle, stageOpened, func(im *image) outcome {
		switch {
		case uint64(tensor) >= uint64(len(im.view.Tensors)):
			return usageError("the image has no tensor of this number")
		case info == nil:
			return usageError("info is NULL")
		}
		t := &im.view.Tensors[tensor]
		*info = C.struct_lm_tensor{size: C.uint64_t(t.Size), role: C.uint32_t(t.Role),
			dtype: C.uint32_t(t.Dtype), recorded: C.uint32_t(t.HasData), dims: C.uint32_t(t.Dims)}
		for i, side := range t.Shape()[:t.Dims] {
			info.shape[i] = C.uint32_t(side)
		}
		copy(callerBuffer(&info.name[0], C.LM_NAME_MAX), im.view.NameBytes(t.Name))
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

// arena gives the place of an input or output.
func tensorMemory(handle int32, tensor uint32, size C.size_t, role gen.Role,
	data *unsafe.Pointer) int32 {
	return callOnImage(handle, stageLoaded, func(im *image) outcome {
		switch tensors := im.view.Tensors; {
		case data == nil:
			return usageError("data is NULL")
		case uint64(tensor) >= uint64(len(tensors)):
			return usageError("the image has no tensor of this number")
		case tensors[tensor].Role != role && role == gen.RoleInput:
			return usageError("the tensor is an output, not an input")
		case tensors[tensor].Role != role:
			return usageError("the tensor is an input, not an output")
		case tensors[tensor].Size != uint64(size):
			return outcome{code: hal.BadTensor, reason: "size is not the tensor's"}
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
	return callOnImage(handle, stageLoaded, func(im *image) outcome {
		if int64(nanoseconds) < 0 {
			return usageError("a limit of 292 years and more is none; 0 is")
		}
		im.replay.SetLimit(int64(nanoseconds))
		return outcome{}
	})
}

//export lm_run
func lm_run(handle int32, sequence uint32) int32 {
	return callOnImage(handle, stageFrozen, func(im *image) outcome {
		if uint64(sequence) >= uint64(len(im.view.Sequences)) {
			return usageError("the image has no sequence of this number")
		}
		result := im.replay.Run(int(sequence))
		return outcome{code: result.Code, result: result, ran: true}
	})
}

//export lm_close
func lm_close(handle int32) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	im, end := acquireImage(handle)
	if im == nil {
		return recordOutcome(end)
	}
	end = recoverPanic(im, (*image).release)
	im.handle.Store(0)
	im.busy.Store(false)
	return recordOutcome(end)
}

// borrow is a C string without a copy, for as long as C keeps it.
func borrowString(text *C.char, lengthMax int) (string, outcome) {
	if text == nil {
		return "", usageError("a text is NULL")
	}
	first := (*byte)(unsafe.Pointer(text))
	for length := 0; length <= lengthMax; length++ {
		if *(*byte)(unsafe.Add(unsafe.Pointer(first), length)) == 0 {
			return unsafe.String(first, length), outcome{}
		}
	}
	return "", usageError("a text is longer than it can be")
}

// buffer is the caller's buffer as a slice. No text needs more than a page.
func callerBuffer(text *C.char, size C.size_t) []byte {
	if text == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(text)), int(min(uint64(size), 4096)))
}
