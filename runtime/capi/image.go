package main

// The open images, and the order of calls on them.

import (
	"sync"
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// imagesMax is how many images may be open at once.
const imagesMax = 16

// stage is the progress of an image through the calls.
type stage uint8

const (
	stageOpened stage = iota
	stageLoaded
	stageFrozen
)

// image is one open image.
type image struct {
	busy    atomic.Bool  // a call is running, which alone uses the other fields
	handle  atomic.Int32 // 0: not open
	uses    int32        // how many images were opened in this slot
	stage   stage
	file    *runtime.File // nil: the bytes are the host's
	view    *fbs.View
	devices []hal.Device
	replay  *runtime.Replay
	last    outcome
}

// outcome is how a call ended: with a reason, or with the result of a run.
type outcome struct {
	code   hal.Code
	reason string
	result runtime.Result
	ran    bool
}

var (
	// imageSlots[0] keeps the last failure of a call without an image.
	imageSlots [1 + imagesMax]image

	// setupMutex serializes the calls that change the process. lm_run does not lock it.
	setupMutex sync.Mutex

	sealed        atomic.Bool
	sealedOutcome = outcome{code: hal.Denied, reason: "the process is sealed"}
)

// handleStride is the difference of two successive handles of one slot. The handle of a closed
// image thus does not return soon.
const handleStride = 32

// acquireImage returns the image of a handle, and excludes other calls on it until busy is
// cleared.
func acquireImage(handle int32) (*image, outcome) {
	slot := handle % handleStride
	if handle <= 0 || slot == 0 || int(slot) >= len(imageSlots) {
		return nil, usageError("no image has this handle")
	}
	im := &imageSlots[slot]
	// Compared before the slot is acquired too: a call with a wrong handle must not exclude one
	// with the right handle.
	if im.handle.Load() == handle {
		if !im.busy.CompareAndSwap(false, true) {
			return nil, usageError("another thread is in a call on this image")
		}
		if im.handle.Load() == handle {
			return im, outcome{}
		}
		im.busy.Store(false)
	}
	return nil, usageError("the image of this handle was closed, or never opened")
}

// tooEarly and tooLate are the reasons of a call that comes before or after its stage.
var (
	tooEarly = [...]string{stageLoaded: "call lm_load before this",
		stageFrozen: "call lm_freeze before this"}
	tooLate = [...]string{stageOpened: "the image is loaded already",
		stageLoaded: "the image is frozen already"}
)

// withImage executes a call on an image that has reached a stage, and keeps its outcome.
func withImage(handle int32, least stage, call func(*image) outcome) int32 {
	im, end := acquireImage(handle)
	if im == nil {
		return finishWithoutImage(end)
	}
	if im.stage >= least {
		end = recoverPanic(im, call)
	} else {
		end = usageError(tooEarly[least])
	}
	im.last = end
	im.busy.Store(false)
	return int32(end.code.ExitStatus())
}

// withImageSetup executes a call that changes the process, on an image that is exactly at a stage.
func withImageSetup(handle int32, from stage, call func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	return withImage(handle, from, func(im *image) outcome {
		switch {
		case im.stage > from:
			return usageError(tooLate[from])
		case sealed.Load():
			return sealedOutcome
		}
		return call(im)
	})
}

// recoverPanic executes a call and turns a panic into an outcome: none may reach C.
func recoverPanic(im *image, call func(*image) outcome) (end outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			end = outcome{code: hal.Internal, reason: "panic: " + hal.PanicText(cause)}
		}
	}()
	return call(im)
}

// finishWithoutImage returns the status of a call that has no image, and keeps its failure. If two
// such calls fail at once, it keeps one failure.
func finishWithoutImage(end outcome) int32 {
	if none := &imageSlots[0]; end.code != hal.OK && none.busy.CompareAndSwap(false, true) {
		none.last = end
		none.busy.Store(false)
	}
	return int32(end.code.ExitStatus())
}

// findFreeSlot returns a slot without an image, and the handle for it. The caller has locked
// setupMutex, so that no other call uses a slot without a handle. A handle repeats only after 67
// million images in one slot.
func findFreeSlot() (*image, int32) {
	for i := range imageSlots {
		if im := &imageSlots[i]; i > 0 && im.handle.Load() == 0 {
			return im, int32(i) + handleStride*(im.uses&(1<<26-1))
		}
	}
	return nil, 0
}

// release closes the devices, the replay and the file of an image, and returns the first error.
func (im *image) release() outcome {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if sealed.Load() {
		// A sealed process can only end DMA. The kernel frees the rest when the process ends.
		if im.replay != nil {
			keep(im.replay.StopDMA())
		}
	} else {
		if im.replay != nil {
			keep(im.replay.Close())
		}
		keep(closeDevices(im.devices))
		if im.file != nil {
			keep(im.file.Close())
		}
	}
	im.file, im.view, im.devices, im.replay, im.stage = nil, nil, nil, nil, stageOpened
	return outcomeOf(first)
}

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

// outcomeOf returns the outcome for an error.
func outcomeOf(err error) outcome {
	end := outcome{code: hal.CodeOf(err)}
	if fault, ok := err.(*hal.Fault); ok {
		end.reason = fault.Reason
	} else if err != nil && end.code == hal.Internal {
		end = outcome{code: hal.IO, reason: err.Error()} // a system call's
	}
	return end
}

// usageError returns the outcome of an invalid call. reason is a constant, so that even misuse
// allocates nothing.
func usageError(reason string) outcome { return outcome{code: hal.Usage, reason: reason} }
