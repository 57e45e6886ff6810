package main

import (
	"sync"
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
)

const imagesMax = 16

// stage is the last of lm_open, lm_load and lm_freeze that has succeeded.
type stage uint8

const (
	stageOpened stage = iota
	stageLoaded
	stageFrozen
)

// image is one open image, or a free element of imageSlots.
type image struct {
	busy        atomic.Bool  // a call uses this image; only that call may use the other fields
	handle      atomic.Int32 // 0: this element is free
	timesOpened int32        // images that were opened in this element so far
	stage       stage
	file        *runtime.File   // nil for lm_open_memory
	view        *fbs.View       // verified
	devices     []hal.Device    // nil before lm_load
	replay      *runtime.Replay // nil before lm_load
	lastOutcome outcome
}

// outcome describes how a call ended.
type outcome struct {
	code      hal.Code
	reason    string // of a failure without result
	result    runtime.Result
	hasResult bool // the call was lm_run with valid arguments
}

var (
	// imageSlots has the open images from element 1 on. Element 0 has the lastOutcome of calls
	// without an open image.
	imageSlots [1 + imagesMax]image

	// setupMutex is locked by lm_open, lm_load, lm_freeze, lm_seal and lm_close, which change the
	// state of the process.
	setupMutex sync.Mutex

	sealed        atomic.Bool
	sealedOutcome = outcome{code: hal.Denied,
		reason: "the process is sealed; make this call before lm_seal"}
)

// handleStride is the difference between the handles of two images that use one element in turn: an
// old handle is not valid for the next image.
const handleStride = 32

// acquireImage returns the image with the given handle, with busy set, which the caller must clear,
// or nil and the reason.
func acquireImage(handle int32) (*image, outcome) {
	slot := handle % handleStride
	if handle <= 0 || slot == 0 || int(slot) >= len(imageSlots) {
		return nil, usageError("no image has this handle")
	}
	im := &imageSlots[slot]
	// Compared before busy, because a call with an old handle must not make one with the valid
	// handle fail, and after it, because another thread may have closed the image in between.
	if im.handle.Load() == handle {
		if !im.busy.CompareAndSwap(false, true) {
			return nil, usageError("another thread is in a call on this image")
		}
		if im.handle.Load() == handle {
			return im, outcome{}
		}
		im.busy.Store(false)
	}
	return nil, usageError("the image with this handle was closed, or never opened")
}

// Indexed by the stage that the call requires.
var (
	tooEarlyReasons = [...]string{stageLoaded: "call lm_load before this function",
		stageFrozen: "call lm_freeze before this function"}
	tooLateReasons = [...]string{stageOpened: "the image is already loaded",
		stageLoaded: "the image is already frozen"}
)

// withImage lets `call` use the image, if the image has reached requiredStage.
func withImage(handle int32, requiredStage stage, call func(*image) outcome) int32 {
	im, end := acquireImage(handle)
	if im == nil {
		return finishCallWithoutImage(end)
	}
	if im.stage >= requiredStage {
		end = callAndRecover(im, call)
	} else {
		end = usageError(tooEarlyReasons[requiredStage])
	}
	im.lastOutcome = end
	im.busy.Store(false)
	return int32(end.code.ExitStatus())
}

// withImageExclusively is for calls that change the state of the process: one at a time, exactly at
// requiredStage, and not in a sealed process.
func withImageExclusively(handle int32, requiredStage stage, call func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	return withImage(handle, requiredStage, func(im *image) outcome {
		switch {
		case im.stage > requiredStage:
			return usageError(tooLateReasons[requiredStage])
		case sealed.Load():
			return sealedOutcome
		}
		return call(im)
	})
}

// callAndRecover keeps panics from C code, where they would end the process.
func callAndRecover(im *image, call func(*image) outcome) (end outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			end = outcome{code: hal.Internal, reason: "panic: " + hal.PanicText(cause)}
		}
	}()
	return call(im)
}

// finishCallWithoutImage keeps the outcome of a failed call, such as lm_open, for lm_last_error. If
// two calls fail at once, one outcome may be lost.
func finishCallWithoutImage(end outcome) int32 {
	if slot := &imageSlots[0]; end.code != hal.OK && slot.busy.CompareAndSwap(false, true) {
		slot.lastOutcome = end
		slot.busy.Store(false)
	}
	return int32(end.code.ExitStatus())
}

// findFreeSlot returns nil if no element is free. A handle is used again only after 67 million
// images in its element. setupMutex must be locked.
func findFreeSlot() (*image, int32) {
	for i := range imageSlots {
		if im := &imageSlots[i]; i > 0 && im.handle.Load() == 0 {
			return im, int32(i) + handleStride*(im.timesOpened&(1<<26-1))
		}
	}
	return nil, 0
}

// release makes the image a free element. A sealed process must not unmap memory or close files: it
// only stops DMA.
func (im *image) release() outcome {
	var err error
	switch {
	case !sealed.Load():
		err = im.closeAll()
	case im.replay != nil:
		err = im.replay.StopDMA()
	}
	im.file, im.view, im.devices, im.replay, im.stage = nil, nil, nil, nil, stageOpened
	return outcomeOf(err)
}

func (im *image) closeAll() (first error) {
	if im.replay != nil {
		first = im.replay.Close()
	}
	if err := closeDevices(im.devices); first == nil {
		first = err
	}
	if im.file != nil {
		if err := im.file.Close(); first == nil {
			first = err
		}
	}
	return first
}

// closeDevices skips nil: a device that could not be opened.
func closeDevices(devices []hal.Device) (first error) {
	for _, device := range devices {
		if device != nil {
			if err := device.Close(); first == nil {
				first = err
			}
		}
	}
	return first
}

func outcomeOf(err error) outcome {
	end := outcome{code: hal.CodeOf(err)}
	if fault, ok := err.(*hal.Fault); ok {
		end.reason = fault.Reason
	} else if err != nil && end.code == hal.Internal {
		end = outcome{code: hal.IO, reason: err.Error()} // err is the error of a system call
	}
	return end
}

// usageError: the reason must be a constant string, so that the call allocates nothing.
func usageError(reason string) outcome { return outcome{code: hal.Usage, reason: reason} }
