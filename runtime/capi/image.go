package main

import (
	"sync"
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// imagesMax is how many images may be open at once.
const imagesMax = 16

// stage is how far an image has come.
type stage uint8

const (
	stageOpened stage = iota
	stageLoaded
	stageFrozen
)

// image is one open image.
type image struct {
	busy    atomic.Bool  // a call is under way; it alone touches what follows
	handle  atomic.Int32 // 0: not open
	uses    int32        // how often this place was opened
	stage   stage
	file    *runtime.File // nil: the bytes are the host's
	view    *fbs.View
	devices []hal.Device
	replay  *runtime.Replay
	last    outcome
}

// outcome is how a call ended. A reason is kept from before the first run, a
// result from a run.
type outcome struct {
	code   hal.Code
	reason string
	result runtime.Result
	ran    bool
}

var (
	// images[0] keeps the failures of calls that have no image.
	imageSlots [1 + imagesMax]image

	// setup keeps calls apart that change the process. lm_run takes no lock.
	setupMutex sync.Mutex

	sealed   atomic.Bool
	isSealed = outcome{code: hal.Denied, reason: "the process is sealed"}
)

// handleStep is the distance of two handles that one place in images has in
// turn, so that the handle of a closed image is not soon another's.
const handleStep = 32

// enter gives the image of a handle to this call alone until it leaves.
func acquireImage(handle int32) (*image, outcome) {
	place := handle % handleStep
	if handle <= 0 || place == 0 || int(place) >= len(imageSlots) {
		return nil, usageError("no image has this handle")
	}
	im := &imageSlots[place]
	// Looked at before the place is taken too: a handle that is wrong must not
	// keep the right one out.
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

// before and already say that an image has not come as far as a call needs, and that
// it has come further.
var (
	tooEarly = [...]string{stageLoaded: "lm_load comes before this call",
		stageFrozen: "lm_freeze comes before this call"}
	tooLate = [...]string{stageOpened: "the image is loaded already",
		stageLoaded: "the image is frozen already"}
)

// on carries out a call on an image that has come as far as the call needs.
func callOnImage(handle int32, least stage, call func(*image) outcome) int32 {
	im, end := acquireImage(handle)
	if im == nil {
		return recordOutcome(end)
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

// change carries out a call that changes the process, on an image that has come just
// as far as the call needs.
func callOnProcess(handle int32, from stage, call func(*image) outcome) int32 {
	setupMutex.Lock()
	defer setupMutex.Unlock()
	return callOnImage(handle, from, func(im *image) outcome {
		switch {
		case im.stage > from:
			return usageError(tooLate[from])
		case sealed.Load():
			return isSealed
		}
		return call(im)
	})
}

// contained turns a panic into an outcome: none may reach C.
func recoverPanic(im *image, call func(*image) outcome) (end outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			end = outcome{code: hal.Internal, reason: "panic: " + hal.PanicText(cause)}
		}
	}()
	return call(im)
}

// without ends a call that has no image. Where two of them fail at once, one
// failure is kept.
func recordOutcome(end outcome) int32 {
	if none := &imageSlots[0]; end.code != hal.OK && none.busy.CompareAndSwap(false, true) {
		none.last = end
		none.busy.Store(false)
	}
	return int32(end.code.ExitStatus())
}

// place finds room for another image. setup is held, so that a place without
// a handle has nobody in it. Handles of one place never come twice, short of 67
// million of them.
func freeSlot() (*image, int32) {
	for i := range imageSlots {
		if im := &imageSlots[i]; i > 0 && im.handle.Load() == 0 {
			return im, int32(i) + handleStep*(im.uses&(1<<26-1))
		}
	}
	return nil, 0
}

// release closes what an image holds.
func (im *image) release() outcome {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if sealed.Load() {
		// All of closing that a sealed process can do: no device reaches memory
		// any more. The kernel takes the rest back when the process ends.
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

// failed is the outcome for an error.
func outcomeOf(err error) outcome {
	end := outcome{code: hal.CodeOf(err)}
	if fault, ok := err.(*hal.Fault); ok {
		end.reason = fault.Reason
	} else if err != nil && end.code == hal.Internal {
		end = outcome{code: hal.IO, reason: err.Error()} // a system call's
	}
	return end
}

// usage is the outcome for a call that makes no sense. The reason is a
// constant, so that even misuse allocates nothing.
func usageError(reason string) outcome { return outcome{code: hal.Usage, reason: reason} }
