package main

// #include "lightmetal.h"
import "C"

import (
	"lightmetal/hal"
	"lightmetal/runtime/report"
)

// lm_last_error allocates nothing, so that a sealed process may call it.
//
//export lm_last_error
func lm_last_error(handle int32, info *C.struct_lm_error, text *C.char, size C.size_t) int32 {
	im, buffer := &imageSlots[0], bufferOf(text, size)
	addFinalZero(buffer, 0)
	if handle != 0 {
		var end outcome
		if im, end = acquireImage(handle); im == nil {
			return int32(end.code.ExitStatus())
		}
	} else if !im.busy.CompareAndSwap(false, true) {
		return int32(hal.Usage.ExitStatus())
	}
	if info != nil {
		*info = im.lastOutcome.toLmError()
	}
	im.writeOutcomeText(buffer)
	im.busy.Store(false)
	return 0
}

func (o *outcome) toLmError() C.struct_lm_error {
	e := C.struct_lm_error{
		status: C.int32_t(o.code.ExitStatus()), code: C.int32_t(o.code),
		command: -1, safe: -1,
	}
	if !o.hasResult {
		return e
	}
	r := &o.result
	e.got, e.want, e.mask = C.uint64_t(r.Got), C.uint64_t(r.Want), C.uint64_t(r.Mask)
	e.element = C.uint64_t(r.ElementIndex)
	e.ignored = C.uint32_t(r.IgnoredFailures)
	if o.code != hal.OK {
		e.command = C.int32_t(r.Command)
	}
	if r.SafeRan {
		e.safe = C.int32_t(r.SafeSequenceCode)
	}
	return e
}

// writeOutcomeText writes one line in the words of lmrun, or as much of it as fits.
func (im *image) writeOutcomeText(buffer []byte) {
	end, length := &im.lastOutcome, 0
	add := func(text string) { length += copy(buffer[length:], text) }
	add(end.code.Error())
	if end.reason != "" {
		add(": ")
		add(end.reason)
	}
	if end.hasResult && end.code != hal.OK {
		var storage [report.FailureTextMax]byte
		if text := report.AppendFailure(storage[:0], im.view, &end.result, ""); len(text) > 0 {
			add(": ")
			length += copy(buffer[length:], text)
		}
		if end.code == hal.InputMissing {
			add(": call lm_input for every input without default data")
		}
		if end.result.SafeRan {
			add("; then sequence safe ran: ")
			add(end.result.SafeSequenceCode.Error())
		}
	}
	replaceNonPrintable(buffer[:length])
	addFinalZero(buffer, length)
}

// replaceNonPrintable replaces, for example, a non-ASCII character of a name.
func replaceNonPrintable(text []byte) {
	for i, b := range text {
		if b < ' ' || b >= 0x7f {
			text[i] = '?'
		}
	}
}

// addFinalZero ends a text of this length; if it fills the buffer, its last byte is lost.
func addFinalZero(buffer []byte, length int) {
	if len(buffer) > 0 {
		buffer[min(length, len(buffer)-1)] = 0
	}
}
