//go:build world

package main

import (
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"slices"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/check/simulate/kernel"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// errand is a world in which the runner lives from its command line to its exit
// status, and opens the devices itself, on a machine behind its system calls.
// Everything is foretold.
type errand struct {
	w        *world
	machine  *machine
	public   ed25519.PublicKey
	number   int // every mishap has its turn
	mishaps  []mishap
	mistakes []string // in the command line
	turns    []turn
	model    *model
	shadow   *shadow
	told     foretold
	received int // runs of main that began
	pipe     int // the reader's end of an output, -1: none
	piped    []byte
	status   int
}

// turn is what happens before run at of the main sequence, counted from 1.
type turn struct {
	at, kind, function int
}

// Kinds of turns.
const (
	turnGone = iota
	turnBroken
	turnDMA
	turnMasterOff
	turnStop
	turnPause
	turns
)

func (e *errand) random() *rand.Rand { return e.w.random }

// errand plays one of a number, and says what was wrong and how it ended.
func (w *world) errand(number int) (wrong string, hash uint64, ended int) {
	e := &errand{w: w, pipe: -1, status: -1, number: number}
	if err := e.prepare(); err != nil {
		return err.Error(), 0, 0
	}
	w.now = 1e12
	w.born, w.maps = w.now, map[uintptr]uintptr{}
	kernel.Path, kernel.Opened, kernel.Clock, kernel.End = e.machine.path, e.opened, e.clock, e.end
	kernel.Entered, kernel.Between, kernel.Line = e.step, e.between, e.words()
	w.say("%q, lane %s, turns %v", kernel.Line, e.machine.lane, e.turns)
	w.live(func() {
		stopRequested.Store(0)
		w.asleep = false
		runner()
	})
	kernel.Path, kernel.Opened, kernel.Clock, kernel.End = nil, nil, nil, nil
	e.judge()
	e.bury()
	return w.wrong, w.hash, e.status
}

func (e *errand) clock() time.Duration {
	e.w.now += accessNs
	return time.Duration(e.w.now)
}

func (e *errand) end(status int) {
	e.status = status
	goruntime.Goexit()
}

func (e *errand) opened(path string, fd int) {
	e.machine.files[fd] = path
	e.w.open = append(e.w.open, fd)
}

// prepare makes image, machine, command line, and what goes wrong.
func (e *errand) prepare() error {
	w, random := e.w, e.w.random
	lane := []string{"pci", "vfio", "tt"}[random.IntN(3)]
	e.machine = &machine{w: w, lane: lane, files: map[int]string{}, errors: map[string]unix.Errno{},
		requests: map[uintptr]unix.Errno{}, pages: 1 << 32}
	image, err := lmb.Encode(e.image(lane))
	if err != nil {
		return err
	}
	public, private, _ := ed25519.GenerateKey(rand.NewChaCha8([32]byte{byte(random.Uint32())}))
	digest := sha512.Sum512(image)
	e.public = public
	w.image = append(image, lmb.SignatureBlock(0, public, ed25519.Sign(private, digest[:]))...)
	if w.view, err = fbs.Verify(slices.Clone(w.image)); err != nil {
		return err
	}
	w.payload = slices.Clone(w.view.Payload)
	for i := range w.view.Devices {
		e.machine.add(w.view.Devices[i].Vendor, w.view.Devices[i].Device,
			*w.view.Devices[i].MinBarSizes())
	}
	e.machine.write("/sys/bus/pci/devices/0000:00:00.0/modalias", modalias(0x1b36, 8, 0))
	e.machine.write("/proc/self/pagemap", "")
	_ = os.WriteFile(w.file("image"), w.image, 0o600)
	_ = os.WriteFile(w.file("watchdog"), nil, 0o600)
	_ = os.WriteFile(w.file("out"), []byte("old"), 0o640)
	e.options()
	for range []int{1, 1, 0}[random.IntN(3)] {
		m := mishaps[e.number%len(mishaps)]
		if e.number += 1 + random.IntN(len(mishaps)); !m.make(e) {
			return e.again()
		}
		e.mishaps = append(e.mishaps, m)
	}
	e.foretell()
	return nil
}

// again begins anew, where a mishap is none on this machine.
func (e *errand) again() error {
	_ = os.RemoveAll(e.w.dir)
	_ = os.Mkdir(e.w.dir, 0o700)
	e.w.calls, e.w.frames = nil, nil
	if e.pipe >= 0 {
		unix.Close(e.pipe)
	}
	*e = errand{w: e.w, pipe: -1, status: -1, number: e.number}
	return e.prepare()
}

// options decides how the runner is called.
func (e *errand) options() {
	w, random := e.w, e.w.random
	w.options = args.Options{Image: w.file("image"), Sequence: "main",
		Loop: uint64(1 + random.IntN(6)), Longest: 3600e9, Window: runtime.AnyTLBWindow,
		JSON: random.IntN(2) == 0,
		Seal: random.IntN(3) == 0, Check: random.IntN(20) == 0}
	o := &w.options
	if random.IntN(4) == 0 {
		e.keys("")
	}
	for _, name := range []struct {
		to   *string
		name string
	}{{&o.Before, "before"}, {&o.After, "after"}} {
		if random.IntN(2) == 0 {
			*name.to = name.name
		}
	}
	for _, f := range e.machine.functions {
		o.Devices = append(o.Devices, e.machine.name(f.address))
	}
	if random.IntN(2) == 0 {
		frame := make([]byte, images.TensorBytes)
		for i := range frame {
			frame[i] = byte(random.Uint32())
		}
		_ = os.WriteFile(w.file("in"), frame, 0o600)
		w.frames = [][]byte{frame}
		o.Inputs = []args.Binding{{Name: "in", Path: w.file("in")}}
	}
	switch random.IntN(4) {
	case 0:
		o.Outputs = []args.Binding{{Name: "out", Path: w.file("out")}}
	case 2:
		o.Outputs = []args.Binding{{Name: "out", Path: w.file("out")},
			{Name: "out", Path: w.file("again")}}
	case 1:
		path := w.file("out.pipe")
		_ = unix.Mkfifo(path, 0o600)
		e.pipe, _ = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		_, _ = unix.FcntlInt(uintptr(e.pipe), unix.F_SETPIPE_SZ, 4096)
		o.Outputs = []args.Binding{{Name: "out", Path: path}}
	}
	if random.IntN(3) == 0 {
		e.watched()
		e.machine.feeds.timeout = 1
		if random.IntN(2) == 0 {
			e.machine.feeds.wanted = int64(1 + random.IntN(60))
			o.Watchdog = fmt.Sprintf("%s=%d", o.Watchdog, e.machine.feeds.wanted)
		}
		e.machine.feeds.timeout = []int64{1, 4, 60}[random.IntN(3)] * 1e9
	}
	for random.IntN(2) == 0 {
		e.turns = append(e.turns, turn{1 + random.IntN(6), random.IntN(turns),
			random.IntN(len(e.machine.functions))})
	}
}

// name is that of a device, by its address.
func (m *machine) name(address string) string {
	if m.lane == "tt" {
		index := 77
		for _, f := range m.functions {
			if f.address == address {
				index = f.index
			}
		}
		return fmt.Sprintf("tt:/dev/tenstorrent/%d", index)
	}
	return m.lane + ":" + address
}

// otherKey is one that signed nothing.
func (e *errand) otherKey() string {
	public, _, _ := ed25519.GenerateKey(rand.NewChaCha8([32]byte{1, 2}))
	return fmt.Sprintf("%x\n", public)
}

// forge has the block of a signature hold another signature, and be whole.
func (e *errand) forge() {
	e.patch(func(image []byte) []byte {
		value := slices.Clone(image[len(image)-64:])
		value[e.random().IntN(32)] ^= 1
		return append(image[:len(image)-128], lmb.SignatureBlock(0, e.public, value)...)
	})
}

// owner has a driver of the kernel's own the first function.
func (e *errand) owner(driver string) {
	link := e.first().folder() + "/driver"
	os.Remove(e.w.file("machine" + link))
	e.machine.link(link, "../../drivers/"+driver)
}

// twins adds a function like the first, which is named by what both are.
func (e *errand) twins() {
	f := e.first()
	e.machine.write("/sys/bus/pci/devices/0000:55:00.0/modalias", modalias(f.vendor, f.device, 0))
	e.w.options.Devices[0] = fmt.Sprintf("%s:%04x:%04x", e.machine.lane, f.vendor, f.device)
}

// smaller takes half of BAR 0 away.
func (e *errand) smaller() {
	f := e.first()
	f.bars[0] /= 2
	text, _ := os.ReadFile(e.w.file("machine" + f.folder() + "/resource"))
	line := fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", uint64(1)<<44, uint64(1)<<44+f.bars[0]-1,
		0x14220c)
	e.machine.write(f.folder()+"/resource", line+string(text[len(line):]))
}

// words is the command line, in one of the ways to write it.
func (e *errand) words() (list []string) {
	o, random := &e.w.options, e.random()
	set := func(name, value string) {
		switch dash := []string{"-", "--"}[random.IntN(2)]; {
		case value == "":
		case random.IntN(2) == 0:
			list = append(list, dash+name+"="+value)
		default:
			list = append(list, dash+name, value)
		}
	}
	on := func(name string, is bool) {
		if is {
			list = append(list, "-"+name)
		}
	}
	on("json", o.JSON)
	on("seal", o.Seal)
	for _, b := range o.Inputs {
		set("input", b.Name+"="+b.Path)
	}
	list = append(list, o.Image)
	for _, b := range o.Outputs {
		set("output", b.Name+"="+b.Path)
	}
	// else by the ids in the image
	if e.machine.lane != "pci" || len(e.mishaps) > 0 || random.IntN(2) == 0 {
		for _, name := range o.Devices {
			set("device", name)
		}
	}
	if o.Sequence != "main" || random.IntN(2) == 0 {
		set("sequence", o.Sequence)
	}
	set("before", o.Before)
	set("after", o.After)
	set("watchdog", o.Watchdog)
	set("key", o.KeyFile)
	if o.Loop != 1 {
		set("loop", fmt.Sprint(o.Loop))
	}
	if o.Deadline != 0 {
		set("deadline", fmt.Sprintf("%dus", o.Deadline/1000))
	}
	if o.Longest != 3600e9 {
		set("longest", fmt.Sprintf("%dus", o.Longest/1000))
	}
	on("check", o.Check)
	return append(list, e.mistakes...)
}

// bury gives back what the process left.
func (e *errand) bury() {
	for _, fd := range e.w.open {
		unix.Close(fd)
	}
	for _, h := range e.machine.mapped {
		_ = unix.Munmap(bytesOf(h.address, h.size))
	}
	for address, size := range e.w.maps {
		_ = unix.Munmap(bytesOf(address, size))
	}
	if e.pipe >= 0 {
		unix.Close(e.pipe)
	}
	hal.Forget()
}
