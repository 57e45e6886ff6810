// Package vector reads and writes test vectors of the image format, and compares what a reader of
// images does with a vector. testdata/vectors/README.md describes the text of a vector.
package vector

import "fmt"

// Vector is an image, a machine that replays it, and what a reader must do with them.
type Vector struct {
	Name      string
	Sentences []string // sentences of fbs/FORMAT.md that the vector tests

	Image   string  // path of the image file, relative to the vector
	Size    int     // the file is cut, or extended with zeros, to so many bytes; -1: it is not
	Patches []Patch // bytes that replace those of the file

	AccessNs int64    // time of each access in nanoseconds
	LateNs   int64    // each wait takes so many nanoseconds longer than requested
	LimitUs  uint64   // longest time of a sequence in microseconds; 0: the limit of FORMAT.md
	Devices  []Device // devices of the machine that are not as the image needs them
	Windows  []Window // windows that have a bus address

	Reject *Verdict // the reader rejects the image; nil: it executes Steps
	Steps  []Step   // inputs, runs, accesses and results, in order
}

// Patch replaces bytes of the image file.
type Patch struct {
	Offset int
	Data   []byte
}

// Device is a device of the machine.
type Device struct {
	Index          int // index of the device in the image
	Vendor, Device uint16
	Subsystem      uint32
	Bars           [6]uint64 // size of each BAR in bytes
}

// WithLargeBARs returns the device with BARs that have space for all TLB windows, even if an image
// does not need these BARs.
func (d Device) WithLargeBARs() Device {
	for i := range d.Bars {
		d.Bars[i] = max(d.Bars[i], 1<<40)
	}
	return d
}

// Window is a window of the image that devices reach by DMA.
type Window struct {
	Index int
	Bus   uint64 // bus address of its first byte
}

// Verdict is a result code and the place that it is about.
type Verdict struct{ Code, Place string }

// Kind is the kind of a Step.
type Kind uint8

// Kinds of steps. The comments list the fields that a kind uses, besides those in parentheses.
const (
	Input      Kind = iota + 1 // the caller sets the data of a tensor (Index, Data)
	Run                        // the caller runs a sequence (Index)
	Store                      // the reader stores (Space, Offset, Width, Value, Fails)
	Load                       // the reader loads (Space, Offset, Width, Value, Until, Fails)
	StoreBytes                 // the reader stores bytes in any order (Space, Offset, Data)
	LoadBytes                  // the reader loads bytes in any order (Space, Offset, Data)
	Fence                      // the reader executes a full barrier
	Query                      // the reader queries whether a device is present (Index)
	Gone                       // a device goes away (Index)
	Elapsed                    // at least Value nanoseconds have passed since the run began
	End                        // the run ends (Code, Index: command, or -1)
	Seen                       // what a failed Expect or Compare loaded (Got, Want, Mask, Element)
	Safe                       // the sequence safe ended (Code)
	Ignored                    // number of failures after which the run continued (Value)
	Output                     // bytes of an output tensor after the run (Index, Data)
	Unload                     // the caller ends the use of the image
)

// Step is one step of a Vector.
type Step struct {
	Kind   Kind
	Space  Space
	Offset uint64
	Width  uint8
	Value  uint64
	Until  int64 // not 0: the load repeats, and returns Value until this time in nanoseconds
	Fails  bool  // the access is answered with an error
	Index  int
	Data   []byte
	Code   string

	Got, Want, Mask, Element uint64
}

// Result describes how a run ended.
type Result struct {
	Code    string
	Command int    // index in the image of the failed command; -1: none
	SafeRan bool   // the sequence "safe" ran after the failure
	Safe    string // code of that sequence
	Ignored uint32 // failures after which the run continued
	HasSeen bool   // the run ended with an Expect or a Compare that does not hold

	Got, Want, Mask, Element uint64 // what that command loaded and expected
}

// Steps returns the result as steps of a vector.
func (r *Result) Steps() []Step {
	steps := []Step{{Kind: End, Code: r.Code, Index: r.Command}}
	if r.HasSeen {
		steps = append(steps, Step{Kind: Seen, Got: r.Got, Want: r.Want, Mask: r.Mask,
			Element: r.Element})
	}
	if r.SafeRan {
		steps = append(steps, Step{Kind: Safe, Code: r.Safe})
	}
	if r.Ignored != 0 {
		steps = append(steps, Step{Kind: Ignored, Value: uint64(r.Ignored)})
	}
	return steps
}

// Space is a range of addresses that a reader accesses.
type Space struct {
	Kind   SpaceKind
	Device int // of a BAR or of configuration space: index of the device in the image
	Bar    int // of a BAR: its number
	Window int // of host memory: index of the window in the image
}

// SpaceKind is the kind of a Space.
type SpaceKind uint8

// Kinds of spaces.
const (
	BarSpace    SpaceKind = iota + 1 // a BAR; offsets count from its first byte
	ConfigSpace                      // PCI configuration space
	HostSpace                        // the memory of a Host window
)

// OfBar returns the space of a BAR.
func OfBar(device, bar int) Space { return Space{Kind: BarSpace, Device: device, Bar: bar} }

// OfConfig returns the space of a device's configuration registers.
func OfConfig(device int) Space { return Space{Kind: ConfigSpace, Device: device} }

// OfHost returns the space of a Host window.
func OfHost(window int) Space { return Space{Kind: HostSpace, Window: window} }

// String returns the text of a space.
func (s Space) String() string {
	switch s.Kind {
	case BarSpace:
		return fmt.Sprintf("device%d.bar%d", s.Device, s.Bar)
	case ConfigSpace:
		return fmt.Sprintf("device%d.config", s.Device)
	}
	return fmt.Sprintf("host%d", s.Window)
}

// File returns the bytes of the image, from the bytes of the file that Vector.Image names.
func (v *Vector) File(base []byte) ([]byte, error) {
	size := len(base)
	if v.Size >= 0 {
		size = v.Size
	}
	// The address of an image in memory is a multiple of 8: allocate whole words.
	file := make([]byte, size, (size+15)/8*8)
	copy(file, base)
	for _, p := range v.Patches {
		if p.Offset < 0 || p.Offset+len(p.Data) > size {
			return nil, fmt.Errorf("%s: patch at %d lies outside the file of %d bytes", v.Name,
				p.Offset, size)
		}
		copy(file[p.Offset:], p.Data)
	}
	return file, nil
}

// LittleEndian returns the lowest `width` bytes of a value.
func LittleEndian(value uint64, width uint8) (data []byte) {
	for i := range width {
		data = append(data, byte(value>>(8*i)))
	}
	return data
}

// Aligned returns a copy whose address is a multiple of 8.
func Aligned(data []byte) []byte {
	return append(make([]byte, 0, (len(data)+15)/8*8), data...)
}
