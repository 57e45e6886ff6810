package main

import (
	"lightmetal/hal"
	"lightmetal/runtime/report"
)

// lastErrorOf tells how the last call on an image ended. It allocates nothing, so
// that it may be asked for in a sealed process.
func lastErrorOf(handle int32, info *lastError, buffer []byte) int32 {
	im := &images[0]
	if handle != 0 {
		var end outcome
		if im, end = enter(handle); im == nil {
			return int32(end.code.Exit())
		}
	} else if !im.busy.CompareAndSwap(false, true) {
		return int32(hal.Usage.Exit())
	}
	if info != nil {
		*info = im.last.numbers()
	}
	im.tell(buffer)
	im.busy.Store(false)
	return 0
}

func (o *outcome) numbers() lastError {
	e := lastError{status: int32(o.code.Exit()), code: int32(o.code), command: -1, safe: -1}
	if !o.ran {
		return e
	}
	r := &o.result
	e.got, e.want, e.mask, e.element, e.ignored = r.Got, r.Want, r.Mask, r.Element, r.Ignored
	if o.code != hal.OK {
		e.command = r.Command
	}
	if r.SafeRan {
		e.safe = int32(r.Safe)
	}
	return e
}

// tell says it in words, as lmrun does: a line in the caller's buffer, cut where that
// ends.
func (im *image) tell(buffer []byte) {
	end, length := &im.last, 0
	add := func(text string) { length += copy(buffer[length:], text) }
	add(end.code.Error())
	if end.reason != "" {
		add(": ")
		add(end.reason)
	}
	if end.ran && end.code != hal.OK {
		var room [128 + nameMax]byte
		if text := report.Append(room[:0], im.view, &end.result); len(text) > 0 {
			add(": ")
			length += copy(buffer[length:], text)
		}
		if end.code == hal.InputMissing {
			add(": an input without recorded data needs lm_input")
		}
		if end.result.SafeRan {
			add("; sequence safe: ")
			add(end.result.Safe.Error())
		}
	}
	clean(buffer[:length])
	terminate(buffer, length)
}

// clean leaves printable ASCII: a name in an image may hold control characters of both sets, C0 and C1.
func clean(text []byte) {
	for i, b := range text {
		if b < ' ' || b >= 0x7f {
			text[i] = '?'
		}
	}
}
