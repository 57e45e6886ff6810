package main

import (
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// The calls of lightmetal.h, in its order; what each does is said there.

func abiVersion() uint32 {
	look()
	return abi
}

func version(info *versionInfo) int32 {
	look()
	if info == nil {
		return without(usage("version is NULL"))
	}
	*info = versionInfo{schemaHash: fbs.SchemaHash, abi: abi, formatMajor: fbs.FormatMajor, formatMinor: fbs.FormatMinor}
	return 0
}

// openFile opens a file. Where there are keys, one of them has signed it, which is
// looked at before it is verified.
func openFile(path string, keys *string, handle *int32) int32 {
	return open(handle, func(im *image) outcome {
		file, err := runtime.Open(path)
		im.file = file
		if err == nil && keys != nil {
			err = checkSignature(file, *keys)
		}
		if err == nil {
			im.view, err = file.Verify()
		}
		return failed(err)
	})
}

func openMemory(data []byte, handle *int32) int32 {
	return open(handle, func(im *image) outcome {
		view, err := fbs.Verify(data)
		if err != nil {
			return outcome{code: hal.BadImage, reason: err.Error()}
		}
		im.view = view
		return outcome{}
	})
}

func open(handle *int32, verify func(*image) outcome) int32 {
	setup.Lock()
	defer setup.Unlock()
	if handle == nil {
		return without(usage("image is NULL"))
	}
	if end := mayOpen(); end.code != hal.OK {
		return without(end)
	}
	im, number := place()
	if im == nil {
		return without(usage("as many images are open as can be; close one"))
	}
	end := contained(im, verify)
	if end.code == hal.OK {
		im.last = end
		im.uses++
		im.handle.Store(number)
		*handle = number
	} else {
		im.release()
	}
	return without(end)
}

// looked and blind tell whether a first call has come, and that it came too early.
var looked, blind atomic.Bool

// look comes first in every call that may be a process's first. At a thread's first call
// into Go, Go asks the C library for the bounds of the thread's stack, which for
// the first thread of a process come from /proc/self/maps. Without an answer it
// asks again at every call, also under the seal, which kills for that.
func look() {
	if !looked.Load() && !looked.Swap(true) {
		blind.Store(unix.Access("/proc/self/maps", unix.R_OK) != nil)
	}
}

func mayOpen() outcome {
	look()
	switch {
	case sealed.Load():
		return outcome{code: hal.Denied, reason: "the process is sealed"}
	case blind.Load():
		return outcome{code: hal.NoFile, reason: "/proc was not mounted before the first call; mount it and start the process again"}
	}
	return outcome{}
}

func longest(handle int32, nanoseconds uint64) int32 {
	return on(handle, opened, func(im *image) outcome {
		if im.stage != opened {
			return usage("lm_longest comes before lm_load")
		}
		im.view.AllowedUs = nanoseconds / 1000
		return outcome{}
	})
}

func load(handle int32, names []string, window int32) int32 {
	setup.Lock()
	defer setup.Unlock()
	return on(handle, opened, func(im *image) outcome {
		switch {
		case im.stage != opened:
			return usage("the image is loaded already")
		case sealed.Load():
			return outcome{code: hal.Denied, reason: "the process is sealed"}
		case window < anyWindow || window > windowMax:
			return usage("window is the number of a hardware window, or LM_ANY_WINDOW")
		}
		return im.load(names, int(window))
	})
}

// load opens the devices and reserves what runs need. An empty name stands for
// the PCI ids in the image.
func (im *image) load(names []string, window int) (end outcome) {
	found := runtime.DeviceNames(im.view)
	if len(names) > 0 && len(names) != len(found) {
		return usage("count is not the number of the image's targets")
	}
	for i, name := range names {
		if name != "" {
			found[i] = name
		}
	}
	devices := make([]hal.Device, len(found))
	// A panic of a device must leave no other open either.
	defer func() {
		if im.stage != loaded {
			_ = closeAll(devices)
		}
	}()
	for i, name := range found {
		device, err := openDevice(name)
		if err != nil {
			return failed(err)
		}
		devices[i] = device
	}
	replay, err := runtime.Load(im.view, window, devices...)
	if err != nil {
		return failed(err)
	}
	im.devices, im.replay, im.stage = devices, replay, loaded
	return outcome{}
}

func freeze(handle int32) int32 {
	setup.Lock()
	defer setup.Unlock()
	return on(handle, loaded, func(im *image) outcome {
		switch {
		case im.stage == frozen:
			return usage("the image is frozen already")
		case sealed.Load():
			return outcome{code: hal.Denied, reason: "the process is sealed"}
		}
		if err := im.replay.FreezeShared(); err != nil {
			return failed(err)
		}
		makeThreads()
		blockPreemption()
		im.stage = frozen
		return outcome{}
	})
}

func seal(handle int32) int32 {
	setup.Lock()
	defer setup.Unlock()
	return on(handle, frozen, func(*image) outcome {
		if sealed.Load() {
			return outcome{code: hal.Denied, reason: "the process is sealed"}
		}
		err := runtime.Seal()
		sealed.Store(err == nil)
		return failed(err)
	})
}

// misused is the end of a call whose arguments made no sense.
func misused(handle int32, reason string) int32 {
	return on(handle, opened, func(*image) outcome { return usage(reason) })
}

func describe(handle int32, info *imageInfo) int32 {
	return on(handle, opened, func(im *image) outcome {
		if info == nil {
			return usage("info is NULL")
		}
		r := &im.view.Reservation
		*info = imageInfo{
			arenaBytes: r.ArenaBytes, hostBytes: r.HostBytes, payloadBytes: r.PayloadBytes,
			targets: uint32(len(im.view.Targets)), sequences: uint32(len(im.view.Sequences)),
			tensors: uint32(len(im.view.Tensors)), commands: uint32(len(im.view.Commands)),
		}
		return outcome{}
	})
}

// find gives the index of what a method of the view finds by its name.
func find(handle int32, name string, index *uint32, in func(*fbs.View, string) int) int32 {
	return on(handle, opened, func(im *image) outcome {
		i := in(im.view, name)
		switch {
		case index == nil:
			return usage("there is nowhere to put the index: NULL")
		case i < 0:
			return usage("the image has nothing of this name")
		}
		*index = uint32(i)
		return outcome{}
	})
}

func sequenceName(handle int32, sequence uint32, name []byte) int32 {
	return on(handle, opened, func(im *image) outcome {
		switch {
		case uint64(sequence) >= uint64(len(im.view.Sequences)):
			return usage("the image has no sequence of this number")
		case len(name) == 0:
			return usage("name is NULL or of no size")
		}
		terminate(name, copy(name, im.view.Bytes(im.view.Sequences[sequence].Name)))
		return outcome{}
	})
}

// terminate puts the final zero behind the first length bytes, or in the last.
func terminate(text []byte, length int) {
	if len(text) > 0 {
		text[min(length, len(text)-1)] = 0
	}
}

func describeTensor(handle int32, tensor uint32, info *tensorInfo) int32 {
	return on(handle, opened, func(im *image) outcome {
		switch {
		case uint64(tensor) >= uint64(len(im.view.Tensors)):
			return usage("the image has no tensor of this number")
		case info == nil:
			return usage("info is NULL")
		}
		t := &im.view.Tensors[tensor]
		*info = tensorInfo{size: t.Size, role: uint32(t.Role), dtype: uint32(t.DType), recorded: uint32(t.Recorded), dims: uint32(t.Dims)}
		copy(info.shape[:], t.Shape())
		terminate(info.name[:], copy(info.name[:], im.view.Bytes(t.Name)))
		return outcome{}
	})
}

// tensor gives the arena of an input or output as a slice.
func tensor(handle int32, tensor uint32, role gen.Role, size uint64) (data []byte, status int32) {
	status = on(handle, loaded, func(im *image) outcome {
		switch tensors := im.view.Tensors; {
		case uint64(tensor) >= uint64(len(tensors)):
			return usage("the image has no tensor of this number")
		case tensors[tensor].Role != role && role == gen.RoleInput:
			return usage("the tensor is an output, not an input")
		case tensors[tensor].Role != role:
			return usage("the tensor is an input, not an output")
		case tensors[tensor].Size != size:
			return outcome{code: hal.BadTensor, reason: "size is not the tensor's"}
		}
		if role == gen.RoleInput {
			data = im.replay.Input(int(tensor))
		} else {
			data = im.replay.Output(int(tensor))
		}
		return outcome{}
	})
	return data, status
}

func limit(handle int32, nanoseconds uint64) int32 {
	return on(handle, loaded, func(im *image) outcome {
		if int64(nanoseconds) < 0 {
			return usage("a limit of 292 years and more is none; 0 is")
		}
		im.replay.Limit(int64(nanoseconds))
		return outcome{}
	})
}

func run(handle int32, sequence uint32) int32 {
	return on(handle, frozen, func(im *image) outcome {
		if uint64(sequence) >= uint64(len(im.view.Sequences)) {
			return usage("the image has no sequence of this number")
		}
		result := im.replay.Run(int(sequence))
		return outcome{code: result.Code, result: result, ran: true}
	})
}

func closeImage(handle int32) int32 {
	setup.Lock()
	defer setup.Unlock()
	im, end := enter(handle)
	if im == nil {
		return without(end)
	}
	end = contained(im, (*image).release)
	im.handle.Store(0)
	im.busy.Store(false)
	return without(end)
}
