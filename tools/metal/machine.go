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

// machine carries out calls at capture: their commands become an image of their
// own, which is loaded and run, so that capture and replay drive a device in
// the same way.
type machine struct {
	device  *Device
	on      *mapped
	pending *stream
	reads   []read
	broken  error // a run that failed leaves the device in no known state
}

// read is an output of the pending commands and where its data go.
type read struct {
	tensor  lmb.Tensor
	data    []byte // the caller's, nil: none
	capture *capture
	golden  int // tensor of capture, -1: none
}

// mapped is a device whose windows are mapped once, not once a run.
type mapped struct {
	hal.Device
	apertures []hal.Aperture
	next      int // window of the image that is being loaded
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

// read notes a read of a buffer and gives its tensor in the pending commands.
func (m *machine) read(c *capture, golden int, b *Buffer, data []byte) uint16 {
	m.reads = append(m.reads, read{outputTensor(b, fmt.Sprint(len(m.reads))), data, c, golden})
	return uint16(len(m.reads) - 1)
}

// run carries out what is pending.
func (m *machine) run() {
	if m.broken == nil && len(m.pending.commands) > 0 {
		m.broken = fail.Try(m.try)
		m.pending.commands, m.reads = nil, nil
		m.pending.lost()
	}
	fail.On(m.broken)
}

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

// failed says which call failed and how.
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
			text += fmt.Sprintf(": a kernel's done word is %#x, not %#x", r.Got, r.Want)
		}
	}
	if d, ok := m.on.Device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
		text += ": " + d.Refusal()
	}
	fail.With(r.Code, "%s", text)
}

// marksOut is where the n-th command that is no mark stands.
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
