package main

// This file manages the open images and checks the order of calls on each image.

import (
	"sync"
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// imagesMax is the number of images that may be open at the same time.
const imagesMax = 16

// stage is the stage of preparation that an open image has reached.
type stage uint8

const (
	stageOpened stage = iota // a function such as lm_open has succeeded
	stageLoaded              // lm_load has succeeded
	stageFrozen              // lm_freeze has succeeded; lm_run may be called
)

// image is one open image, or a free element of imageSlots.
type image struct {
	busy        atomic.Bool     // a call uses this image; only that call may use the other fields
	handle      atomic.Int32    // handle of the open image; 0: this element is free
	timesOpened int32           // number of images that were opened in this element so far
	stage       stage           // stage of preparation that the image has reached
	file        *runtime.File   // file of the image; nil if lm_open_memory opened the image
	view        *fbs.View       // verified contents of the image
	devices     []hal.Device    // devices that lm_load opened; nil before lm_load
	replay      *runtime.Replay // executes the image; nil before lm_load
	lastOutcome outcome         // how the last call on this image ended
}

// outcome describes how a call ended.
type outcome struct {
	code      hal.Code       // hal.OK if the call succeeded
	reason    string         // cause of the failure; "" if the call succeeded or hasResult is true
	result    runtime.Result // result of the run; only valid if `hasResult` is true
	hasResult bool           // the call was lm_run with valid arguments
}

var (
	// imageSlots contains the open images, from element 1 on. Element 0 never contains an image.
	// Only two fields of element 0 are used: `lastOutcome` describes the most recent failure of a
	// call without an open image, and `busy` is set while a call accesses `lastOutcome`.
	imageSlots [1 + imagesMax]image

	// setupMutex is locked during every call that changes the state of the process: lm_open,
	// lm_load, lm_freeze, lm_seal and lm_close. lm_run does not lock it.
	setupMutex sync.Mutex

	// sealed is set when lm_seal has succeeded. sealedOutcome is the outcome of a call that a
	// sealed process must not make, such as lm_open.
	sealed        atomic.Bool
	sealedOutcome = outcome{code: hal.Denied,
		reason: "the process is sealed; make this call before lm_seal"}
)

// handleStride is the difference between two successive handles of one element of imageSlots. A
// handle is the index of the element plus a multiple of handleStride. Therefore an old handle is
// not valid for the next image in the same element.
const handleStride = 32

// acquireImage returns the image with the given handle, and sets image.busy. While this flag is
// set, other calls on the image fail. The caller must clear the flag. If the handle is not valid,
// or another call uses the image, acquireImage returns nil and an outcome with the reason.
func acquireImage(handle int32) (*image, outcome) {
	slot := handle % handleStride
	if handle <= 0 || slot == 0 || int(slot) >= len(imageSlots) {
		return nil, usageError("no image has this handle")
	}
	im := &imageSlots[slot]
	// Compare the handle before setting image.busy. Otherwise a call with an old handle could make
	// a simultaneous call with the valid handle fail. Compare the handle again afterwards, because
	// another thread may have closed the image after the first comparison.
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

// tooEarlyReasons contains the error text of a call if the image has not reached the stage that the
// call requires. tooLateReasons contains the error text if the image has passed that stage. The
// index in both arrays is the required stage.
var (
	tooEarlyReasons = [...]string{stageLoaded: "call lm_load before this function",
		stageFrozen: "call lm_freeze before this function"}
	tooLateReasons = [...]string{stageOpened: "the image is already loaded",
		stageLoaded: "the image is already frozen"}
)

// withImage implements the common part of all calls on an image: it finds the image with the given
// handle, executes the function `call`, and stores the outcome in the image. Then it returns the
// status of that outcome. If the image has not reached requiredStage, withImage does not execute
// `call`, and returns LM_USAGE.
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

// withImageExclusively executes the function `call` like withImage, but only one such call at a
// time. It implements the calls that change the state of the process: lm_load, lm_freeze and
// lm_seal. The image must be exactly at requiredStage: otherwise withImageExclusively returns
// LM_USAGE. If the process is sealed, it returns LM_DENIED.
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

// callAndRecover executes the function `call`, and returns its outcome. If the function panics,
// callAndRecover recovers and returns an outcome with the text of the panic. Without
// callAndRecover, a panic would reach C code and end the process.
func callAndRecover(im *image, call func(*image) outcome) (end outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			end = outcome{code: hal.Internal, reason: "panic: " + hal.PanicText(cause)}
		}
	}()
	return call(im)
}

// finishCallWithoutImage ends a call that has no open image, such as lm_open: it returns the status
// for the given outcome. If the call failed, finishCallWithoutImage also stores the outcome for
// lm_last_error. If two such calls fail at the same time, one of the two outcomes may be lost.
func finishCallWithoutImage(end outcome) int32 {
	if slot := &imageSlots[0]; end.code != hal.OK && slot.busy.CompareAndSwap(false, true) {
		slot.lastOutcome = end
		slot.busy.Store(false)
	}
	return int32(end.code.ExitStatus())
}

// findFreeSlot returns a free element of imageSlots, and the handle for the next image in this
// element. It returns nil if no element is free. The caller must have locked setupMutex, so that no
// other call uses the free element. A handle is used again only after 67 million other images
// were in the same element.
func findFreeSlot() (*image, int32) {
	for i := range imageSlots {
		if im := &imageSlots[i]; i > 0 && im.handle.Load() == 0 {
			return im, int32(i) + handleStride*(im.timesOpened&(1<<26-1))
		}
	}
	return nil, 0
}

// release closes the replay, the devices and the file of the image, in this order. In a sealed
// process it only stops the DMA of the devices. In both cases, release then clears these fields for
// the next image in the same element of imageSlots. It returns the outcome for the first error.
func (im *image) release() outcome {
	var err error
	switch {
	case !sealed.Load():
		err = im.closeAll()
	case im.replay != nil:
		// Only stop the DMA of the devices. A sealed process must not unmap memory or close files;
		// the kernel does so when the process ends.
		err = im.replay.StopDMA()
	}
	im.file, im.view, im.devices, im.replay, im.stage = nil, nil, nil, nil, stageOpened
	return outcomeOf(err)
}

// closeAll closes the replay, the devices and the file of the image, and returns the first error.
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

// closeDevices closes the devices, and returns the first error. It skips elements that are nil,
// which are devices that could not be opened.
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

// outcomeOf converts an error to an outcome. If err is nil, the outcome is a success.
func outcomeOf(err error) outcome {
	end := outcome{code: hal.CodeOf(err)}
	if fault, ok := err.(*hal.Fault); ok {
		end.reason = fault.Reason
	} else if err != nil && end.code == hal.Internal {
		end = outcome{code: hal.IO, reason: err.Error()} // err is the error of a system call
	}
	return end
}

// usageError returns the outcome of a call with wrong arguments or in the wrong order. The reason
// must be a constant string, so that such a call allocates nothing.
func usageError(reason string) outcome { return outcome{code: hal.Usage, reason: reason} }
