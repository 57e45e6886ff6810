package main

import (
	"strconv"

	"lightmetal/hal"
)

// report tells how the last call on an image ended. It allocates nothing, so
// that it may be asked for in a sealed process: the text is written into the
// caller's buffer piece by piece.
func report(handle int32, info *lastError, buffer []byte) int32 {
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
	if len(buffer) > 0 {
		t := text{buffer: buffer}
		im.tell(&t)
		terminate(buffer, t.length)
	}
	im.busy.Store(false)
	return 0
}

func (o *outcome) numbers() lastError {
	e := lastError{status: int32(o.code.Exit()), code: codeNumber(o.code), command: -1, safe: -1}
	if !o.ran {
		return e
	}
	r := &o.result
	e.got, e.want, e.mask, e.element, e.ignored = r.Got, r.Want, r.Mask, r.Element, r.Ignored
	if o.code != hal.OK {
		e.command = r.Command
	}
	if r.SafeRan {
		e.safe = codeNumber(r.Safe)
	}
	return e
}

// tell says it in words, as lmrun does.
func (im *image) tell(t *text) {
	end := &im.last
	t.add(end.code.Error())
	if end.reason != "" {
		t.add(": ")
		t.add(end.reason)
	}
	if !end.ran || end.code == hal.OK {
		return
	}
	im.place(t, end.result.Command)
	switch end.code {
	case hal.DeadlinePassed, hal.ExpectFailed, hal.CompareFailed, hal.DeviceGone:
		t.add(": got ")
		t.number(end.result.Got, 16)
		t.add(", wanted ")
		t.number(end.result.Want, 16)
		t.add(" under mask ")
		t.number(end.result.Mask, 16)
	case hal.InputMissing:
		t.add(": an input without recorded data needs lm_input")
	}
	if end.result.SafeRan {
		t.add("; sequence safe: ")
		t.add(end.result.Safe.Error())
	}
}

// place names a command by its index in the image and in its sequence.
func (im *image) place(t *text, command int32) {
	for i := range im.view.Sequences {
		s := &im.view.Sequences[i]
		if command >= int32(s.First) && command < int32(s.First+s.Count) {
			t.add(": command ")
			t.number(uint64(command), 10)
			t.add(" (number ")
			t.number(uint64(command)-uint64(s.First), 10)
			t.add(" of ")
			for _, b := range im.view.Bytes(s.Name) {
				t.addByte(b)
			}
			t.add(")")
		}
	}
}

// text is a line in a buffer of somebody else's, cut where that ends.
type text struct {
	buffer []byte
	length int
}

// add leaves control characters out: a name in an image may hold any.
func (t *text) add(s string) {
	for i := range len(s) {
		t.addByte(s[i])
	}
}

func (t *text) addByte(b byte) {
	if t.length == len(t.buffer) {
		return
	}
	if b < ' ' || b == 0x7f {
		b = '?'
	}
	t.buffer[t.length] = b
	t.length++
}

func (t *text) number(n uint64, base int) {
	var digits [20]byte
	if base == 16 {
		t.add("0x")
	}
	t.add(string(strconv.AppendUint(digits[:0], n, base))) // too short for the heap
}
