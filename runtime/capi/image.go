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

// stage is the last of the calls lm_open, lm_load and lm_freeze that succeeded on an image.
type stage uint8

const (
	stageOpened stage = iota
	stageLoaded
	stageFrozen
)

// image is a slot for one open image.
type image struct {
	busy    atomic.Bool     // a call uses this image; only that call may use the other fields
	handle  atomic.Int32    // handle of the open image; 0: no image is open in this slot
	uses    int32           // number of images that have been opened in this slot
	stage   stage           // last successful step: lm_open, lm_load or lm_freeze
	file    *runtime.File   // file of the image; nil if lm_open_memory opened the image
	view    *fbs.View       // verified contents of the image
	devices []hal.Device    // devices that lm_load opened; nil before lm_load
	replay  *runtime.Replay // replay that executes the image; nil before lm_load
	last    outcome         // outcome of the last call on this image
}

// outcome describes how a call ended.
type outcome struct {
	code   hal.Code       // hal.OK if the call succeeded
	reason string         // cause of the failure; "" if the call succeeded or ran a sequence
	result runtime.Result // result of lm_run; valid only if ran is set
	ran    bool           // the call was lm_run and executed a sequence
}

var (
	// imageSlots contains the open images from index 1. In imageSlots[0], only last and busy are
	// used, for the last failure of a call without an open image.
	imageSlots [1 + imagesMax]image

	// setupMutex serializes the calls that change the state of the process: lm_open, lm_load,
	// lm_freeze, lm_seal and lm_close. lm_run does not lock setupMutex.
	setupMutex sync.Mutex

	sealed        atomic.Bool // lm_seal has succeeded
	sealedOutcome = outcome{code: hal.Denied, reason: "the process is sealed"}
)

// handleStride is the difference between two successive handles of one slot. A handle is the index
// of the slot plus a multiple of handleStride, so that a slot reuses a handle only after many
// images.
const handleStride = 32

// acquireImage returns the image with the given handle and sets the image's busy flag, which
// excludes other calls. The caller must clear the flag. If no such image can be used, acquireImage
// returns nil and an outcome with the reason.
func acquireImage(handle int32) (*image, outcome) {
	slot := handle % handleStride
	if handle <= 0 || slot == 0 || int(slot) >= len(imageSlots) {
		return nil, usageError("no image has this handle")
	}
	im := &imageSlots[slot]
	// Compare the handle before setting busy, because a call with a wrong handle must not exclude
	// a call with the right handle. Compare again afterwards: the image may have been closed.
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

// tooEarly contains the reason for rejecting a call that requires a stage which the image has not
// reached. tooLate contains the reason for rejecting a call that is allowed only at a stage which
// the image has left. The index is that stage.
var (
	tooEarly = [...]string{stageLoaded: "call lm_load before this",
		stageFrozen: "call lm_freeze before this"}
	tooLate = [...]string{stageOpened: "the image is loaded already",
		stageLoaded: "the image is frozen already"}
)

// withImage executes call on the image with the given handle, stores the outcome in the image and
// returns the status. It returns a usage error if the image has not reached requiredStage.
func withImage(handle int32, requiredStage stage, call func(*image) outcome) int32 {
	im, end := acquireImage(handle)
	if im == nil {
		return finishWithoutImage(end)
	}
	if im.stage >= requiredStage {
		end = recoverPanic(im, call)
	} else {
		end = usageError(tooEarly[requiredStage])
	}
	im.last = end
	im.busy.Store(false)
	return int32(end.code.ExitStatus())
}

// withImageSetup executes call like withImage, for a call that changes the state of the process. It
// returns a usage error unless the image is at exactly requiredStage.
func withImageSetup(handle int32, requiredStage stage, call func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	return withImage(handle, requiredStage, func(im *image) outcome {
		switch {
		case im.stage > requiredStage:
			return usageError(tooLate[requiredStage])
		case sealed.Load():
			return sealedOutcome
		}
		return call(im)
	})
}

// recoverPanic executes call and converts a panic to an outcome, because a panic that reaches C
// code ends the process.
func recoverPanic(im *image, call func(*image) outcome) (end outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			end = outcome{code: hal.Internal, reason: "panic: " + hal.PanicText(cause)}
		}
	}()
	return call(im)
}

// finishWithoutImage returns the status of a call without an open image. If the call failed, it
// stores the outcome for lm_last_error. If two such calls fail at the same time, it stores only one
// of the outcomes.
func finishWithoutImage(end outcome) int32 {
	if slot := &imageSlots[0]; end.code != hal.OK && slot.busy.CompareAndSwap(false, true) {
		slot.last = end
		slot.busy.Store(false)
	}
	return int32(end.code.ExitStatus())
}

// findFreeSlot returns a slot without an image, and the handle for the next image in the slot. It
// returns nil if all slots are in use. The caller must have locked setupMutex, which excludes other
// calls that use a slot without a handle. A slot reuses a handle only after 67 million images.
func findFreeSlot() (*image, int32) {
	for i := range imageSlots {
		if im := &imageSlots[i]; i > 0 && im.handle.Load() == 0 {
			return im, int32(i) + handleStride*(im.uses&(1<<26-1))
		}
	}
	return nil, 0
}

// release closes the replay, the devices and the file of an image, in this order. It returns the
// outcome for the first error.
func (im *image) release() outcome {
	var first error
	keepFirst := func(err error) {
		if first == nil {
			first = err
		}
	}
	if sealed.Load() {
		// A sealed process may only stop DMA. When the process ends, the kernel releases the rest.
		if im.replay != nil {
			keepFirst(im.replay.StopDMA())
		}
	} else {
		if im.replay != nil {
			keepFirst(im.replay.Close())
		}
		keepFirst(closeDevices(im.devices))
		if im.file != nil {
			keepFirst(im.file.Close())
		}
	}
	im.file, im.view, im.devices, im.replay, im.stage = nil, nil, nil, nil, stageOpened
	return outcomeOf(first)
}

// closeDevices closes all devices that are not nil, and returns the first error.
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

// outcomeOf returns the outcome for an error, or for success if err is nil.
func outcomeOf(err error) outcome {
	end := outcome{code: hal.CodeOf(err)}
	if fault, ok := err.(*hal.Fault); ok {
		end.reason = fault.Reason
	} else if err != nil && end.code == hal.Internal {
		end = outcome{code: hal.IO, reason: err.Error()} // err is the error of a system call
	}
	return end
}

// usageError returns the outcome of an invalid call. reason must be a constant: then an invalid
// call allocates nothing either.
func usageError(reason string) outcome { return outcome{code: hal.Usage, reason: reason} }
