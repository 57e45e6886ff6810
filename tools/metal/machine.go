package metal

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// machine executes calls during a capture. It makes an image of the commands of all pending calls,
// loads the image and runs it, so that a capture and a replay use a device in the same way.
type machine struct {
	device  *Device
	on      *mapped // device that computes
	pending *stream // commands that have not been executed
	reads   []read  // outputs of the pending commands
	broken  error   // error of a run; later calls return it, as the state of the device is unknown
}

// read is an output of the pending commands, with the destinations of its data.
type read struct {
	tensor  lmb.Tensor
	data    []byte   // buffer of the caller; nil: none
	capture *capture // capture whose image gets the data as golden data; nil: none
	golden  int      // index of the tensor in capture.tensors; -1: none
}

// mapped is a device that keeps its apertures for all images, instead of mapping windows for each
// run.
type mapped struct {
	hal.Device
	apertures []hal.Aperture // by the index of the window
	next      int            // index of the next window in the image that is being loaded
}

// Map implements hal.Device. All images have the same windows.
func (m *mapped) Map(w fbs.Window) (hal.Aperture, error) {
	m.next++
	if m.next <= len(m.apertures) {
		return m.apertures[m.next-1], nil
	}
	a, err := m.Device.Map(w)
	if err == nil {
		m.apertures = append(m.apertures, a)
	}
	return a, err
}

func newMachine(d *Device, on hal.Device) *machine {
	return &machine{device: d, on: &mapped{Device: on}, pending: newStream()}
}

// read adds a read of the buffer b to the pending reads, and returns the index of its tensor in the
// image of the pending commands.
func (m *machine) read(c *capture, golden int, b *Buffer, data []byte) uint16 {
	m.reads = append(m.reads, read{outputTensor(b, fmt.Sprint(len(m.reads))), data, c, golden})
	return uint16(len(m.reads) - 1)
}

// run executes the pending commands. If this or an earlier run failed, the current call fails.
func (m *machine) run() {
	if m.broken == nil && len(m.pending.commands) > 0 {
		m.broken = fail.Try(m.try)
		m.pending.commands, m.reads = nil, nil
		m.pending.lost()
	}
	fail.On(m.broken)
}

// try loads and runs an image of the pending commands, and copies the outputs.
func (m *machine) try() {
	image := &lmb.Image{Devices: targets(m.device.board), Windows: windows(),
		Sequences: append([]lmb.Sequence{{Name: "main", Commands: m.pending.commands}},
			m.pending.safe(&m.device.grid)...)}
	for _, r := range m.reads {
		image.Tensors = append(image.Tensors, r.tensor)
	}
	file := fail.Must(lmb.Encode(image))
	view := fail.Must(fbs.Verify(file))
	m.on.next = 0
	replay := fail.Must(runtime.Load(view, runtime.AnyTLBWindow, m.on))
	defer replay.Close()
	if result := replay.Run(0); result.Code != hal.OK {
		m.failed(image, result)
	}
	for i, r := range m.reads {
		copy(r.data, replay.Output(i))
		if r.golden >= 0 {
			r.capture.tensors[r.golden].Data = append([]byte{}, replay.Output(i)...)
		}
	}
}

// failed ends the current call with an error that names the command and the call that failed.
func (m *machine) failed(image *lmb.Image, r runtime.Result) {
	text := m.on.Identity().Name + ": "
	commands := image.Sequences[0].Commands
	if r.Command >= 0 && int(r.Command) < len(commands) {
		at := marksOut(commands, int(r.Command))
		c := &commands[at]
		text += fmt.Sprintf("command %d (%s)", r.Command, gen.EnumNamesOpcode[c.Opcode])
		for i := at; i >= 0; i-- {
			if commands[i].Opcode == lmb.OpcodeMark {
				text += " of " + string(commands[i].Data)
				break
			}
		}
		if c.Opcode == gen.OpcodeExpect && c.Amount != 0 {
			text += fmt.Sprintf(": a kernel failed or did not finish; the kernel's done word is "+
				"%#x, not %#x", r.Got, r.Want)
		}
	}
	if d, ok := m.on.Device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
		text += ": " + d.Refusal()
	}
	fail.With(r.Code, "%s", text)
}

// marksOut returns the index in commands of command n, where marks do not count.
func marksOut(commands []lmb.Command, n int) int {
	for i := range commands {
		if commands[i].Opcode == lmb.OpcodeMark {
			continue
		}
		if n--; n < 0 {
			return i
		}
	}
	return len(commands) - 1
}
