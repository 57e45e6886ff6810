package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

const testdata = "../../testdata"

// recipes has, for each image in testdata/images, the arguments of lm that make it. Paths are
// relative to testdata.
var recipes = map[string][]string{
	"edu.lmb": {"import", "--reproducible", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu", "captures/edu.qemutrace"},
	"edu-factorial.lmb": {"asm", "listings/edu-factorial.lms"},
	"edu-dma.lmb":       {"asm", "listings/edu-dma.lms"},
	"wh.twoop.lmb": {"import", "--reproducible", "--from", "mmiotrace",
		"--input", "a=1,1,0x20000,int32,256",
		"--input", "b=1,1,0x21000,int32,256",
		"--output", "d=1,1,0x23000,int32,256", "captures/wh.twoop.mmiotrace"},
	"bh.twoop.lmb": {"import", "--reproducible", "--from", "mmiotrace",
		"--input", "a=1,2,0x20000,int32,256",
		"--input", "b=1,2,0x21000,int32,256",
		"--output", "d=1,2,0x23000,int32,256", "captures/bh.twoop.mmiotrace"},
	"wh.mlp.lmb": {"import", "--reproducible", "--from", "mmiotrace",
		"--input", "x=1,1,0x20000,int8,64", "--output",
		"y=1,1,0x25000,int32,10",
		"captures/wh.mlp.mmiotrace"},
}

// runSilently runs lm, discards its output and returns the exit status.
func runSilently(t *testing.T, args ...string) int {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = null, null
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	return run(args)
}

func TestImagesMatchTheirRecipes(t *testing.T) {
	for name, recipe := range recipes {
		out := filepath.Join(t.TempDir(), name)
		args := append([]string{}, recipe...)
		args[len(args)-1] = filepath.Join(testdata, args[len(args)-1])
		if exit := runSilently(t, append(args, "-o", out)...); exit != 0 {
			t.Errorf("%s: lm %v exits %d, want 0", name, args, exit)
			continue
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(testdata, "images", name)
		if *golden.Update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what its recipe makes (%v); go test ./tools/lm -update "+
				"writes it again", path, err)
		}
	}
}

// imagePaths returns the paths of all images in testdata.
func imagePaths(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testdata, "images", "*.lmb"))
	if err != nil || len(paths) < len(recipes) {
		t.Fatalf("testdata has %d images (%v), want at least %d", len(paths), err, len(recipes))
	}
	return paths
}

// loadOnMock loads an image on the mock of its board.
func loadOnMock(t *testing.T, path string) (*runtime.Replay, *fbs.View) {
	t.Helper()
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	view, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	device := mock.New(chips.BoardByName(view.Name(view.Devices[0].Board)))
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatalf("loading %s: %v", path, err)
	}
	t.Cleanup(func() {
		replay.Close()
		file.Close()
	})
	return replay, view
}

// heapCounters are counters of the Go runtime. They also count what AllocsPerRun may not attribute
// to a function: every object, every byte, every collection.
var heapCounters = []metrics.Sample{
	{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"},
	{Name: "/gc/heap/tiny/allocs:objects"},
	{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/total:bytes"},
}

// readCounters returns the current values of heapCounters.
func readCounters() (values [5]uint64) {
	metrics.Read(heapCounters)
	for i := range heapCounters {
		values[i] = heapCounters[i].Value.Uint64()
	}
	return values
}

func TestRunningAnImageAllocatesNothing(t *testing.T) {
	for _, path := range imagePaths(t) {
		replay, view := loadOnMock(t, path)
		index := view.SequenceByName("main")
		code := hal.OK
		runOnce := func() {
			if result := replay.Run(index); result.Code != hal.OK {
				code = result.Code
			}
		}
		runOnce() // the mock allocates its pages at the first access
		if n := testing.AllocsPerRun(20, runOnce); n != 0 {
			t.Errorf("%s: %v allocations per run, want 0", path, n)
		}
		goruntime.GC()
		readCounters()
		// The counters sometimes also count work that Go starts after a collection, and threads
		// that it creates on a busy machine. A run that allocates would count in every attempt.
		var before, after [5]uint64
		for range 10 {
			before = readCounters()
			for range 20 {
				runOnce()
			}
			if after = readCounters(); after == before {
				break
			}
		}
		if after != before {
			t.Errorf("%s: heap counters were %v before and %v after 20 runs, want no change", path,
				before, after)
		}
		if code != hal.OK {
			t.Errorf("%s: a run ended with %v", path, code)
		}
	}
}

// badImage describes a file of testdata/bad: the error that it causes, and how it is made from a
// valid image.
type badImage struct {
	want string // part of the message
	make func(t *testing.T) []byte
}

// badImages has all files of testdata/bad by name.
var badImages = map[string]badImage{
	"empty.lmb": {"the file is empty", func(*testing.T) []byte { return nil }},
	"short.lmb": {"the file is 60 bytes long",
		func(t *testing.T) []byte { return goodImage(t)[:60] }},
	"truncated.lmb": {"but its preamble says",
		func(t *testing.T) []byte { file := goodImage(t); return file[:len(file)-1] }},
	"random.lmb": {"not a Light Metal image", randomBytes},
	"flipped-bit.lmb": {"envelope checksum is",
		func(t *testing.T) []byte { file := goodImage(t); file[500] ^= 4; return file }},
	"wrong-schema.lmb": {"another version of lm made the image",
		func(t *testing.T) []byte { file := goodImage(t); file[16]++; return file }},
	"newer-format.lmb": {"(format 4.0, this program reads 3.0)",
		func(t *testing.T) []byte { file := goodImage(t); file[8]++; return file }},

	"unknown-opcode.lmb": {"command 1: unknown opcode 99",
		func(t *testing.T) []byte {
			return patchedCommand(t, func(c *fbs.Command) { c.Opcode = 99 })
		}},
	"outside-window.lmb": {"command 1: write: 0x4 bytes at offset 0x100000 reach outside " +
		"the window",
		func(t *testing.T) []byte {
			return patchedCommand(t, func(c *fbs.Command) { c.Offset = 0x100000 })
		}},
	"misaligned.lmb": {"command 1: write: offset 0x6 is not a multiple of the width",
		func(t *testing.T) []byte {
			return patchedCommand(t, func(c *fbs.Command) { c.Offset = 6 })
		}},
	"poll-without-deadline.lmb": {"command 1: expect: index sets an interval, but amount sets " +
		"no deadline",
		func(t *testing.T) []byte {
			return patchedCommand(t, func(c *fbs.Command) {
				*c = fbs.Command{Opcode: gen.OpcodeExpect, Width: 4,
					Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail), Index: 5,
					Mask: 1}
			})
		}},
	"payload-outside-segment.lmb": {"command 1: copy in: 0x40 bytes at offset 0x1000 reach " +
		"outside the payload", func(t *testing.T) []byte {
		return patchedCommand(t, func(c *fbs.Command) {
			*c = fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: uint8(gen.AccessExact),
				Amount: 64, Value: 0x1000}
		})
	}},
	"width-not-of-the-board.lmb": {"command 1: write: width 8 is not accepted by edu's " +
		"BAR 0 at offset 0x8",
		func(t *testing.T) []byte {
			return patchedCommand(t, func(c *fbs.Command) { c.Width, c.Offset = 8, 8 })
		}},
	"rules-overlap.lmb": {"rule 1: bytes 0x7c to 0xfff overlap the previous rule",
		func(t *testing.T) []byte {
			return patchedRule(t, 1, func(r *fbs.AccessRule) { r.First = 0x7c })
		}},
	"rules-out-of-order.lmb": {"rule 1: bytes 0x80 to 0xfff overlap the previous rule, or " +
		"rules are not in order", func(t *testing.T) []byte {
		return patchedRule(t, 0, func(r *fbs.AccessRule) { r.Bar, r.Last = 2, 0xf })
	}},
	"rule-outside-bar.lmb": {"rule 1: bytes 0x80 to 0x2fff do not lie in BAR 0",
		func(t *testing.T) []byte {
			return patchedRule(t, 1, func(r *fbs.AccessRule) { r.Last = 0x2fff })
		}},
	"rule-misaligned.lmb": {"rule 1: bytes 0x82 to 0xfff are not aligned to the smallest width",
		func(t *testing.T) []byte {
			return patchedRule(t, 1, func(r *fbs.AccessRule) { r.First = 0x82 })
		}},
	"rule-without-widths.lmb": {"rule 0: invalid widths 0x0; must be one or more",
		func(t *testing.T) []byte {
			return patchedRule(t, 0, func(r *fbs.AccessRule) { r.Widths = 0 })
		}},
	"rule-of-no-target.lmb": {"rule 0: the image has no device 7", func(t *testing.T) []byte {
		return patchedRule(t, 0, func(r *fbs.AccessRule) { r.Device = 7 })
	}},
	"rule-of-a-known-board.lmb": {"rule 0: device 0 has a known board",
		func(t *testing.T) []byte {
			file, view := imageWithRules(t)
			view.Devices[0].Vendor, view.Devices[0].Device = 0x1234, 0x11e8
			lmb.Stamp(file, uint64(len(file)))
			return file
		}},
	"too-many-rules.lmb": {"rules: count 4000 is over the limit of 256", func(t *testing.T) []byte {
		file, view := imageWithRules(t)
		// The count of rules precedes the first rule.
		at := bytes.Index(file, binary.LittleEndian.AppendUint64(nil, view.Rules[0].Last)) - 8 - 4
		binary.LittleEndian.PutUint32(file[at:], 4000)
		lmb.Stamp(file, uint64(len(file)))
		return file
	}},
	"outside-the-rules.lmb": {"command 0: write: stranger has no memory or register at " +
		"offset 0x1000 of BAR 0",
		func(t *testing.T) []byte {
			file, view := imageWithRules(t)
			view.Commands[0].Offset = 0x1000
			lmb.Stamp(file, uint64(len(file)))
			return file
		}},
	"width-not-of-the-rules.lmb": {"command 0: write: width 8 is not accepted by " +
		"stranger's BAR 0 at offset 0x0 (registers)", func(t *testing.T) []byte {
		file, view := imageWithRules(t)
		view.Commands[0].Width = 8
		lmb.Stamp(file, uint64(len(file)))
		return file
	}},
	"name-with-a-newline.lmb": {"sequence 0: name of 4 bytes at",
		func(t *testing.T) []byte { return imageWithName(t, "m\nin") }},
	"name-with-an-escape.lmb": {"sequence 0: name of 4 bytes at",
		func(t *testing.T) []byte { return imageWithName(t, "\x1b[2J") }},
	"name-with-a-c1-control.lmb": {"sequence 0: name of 4 bytes at",
		func(t *testing.T) []byte { return imageWithName(t, "m\u0085n") }},
	"name-with-a-bidi-override.lmb": {"sequence 0: name of 4 bytes at",
		func(t *testing.T) []byte { return imageWithName(t, "m\u202e") }},
	"name-that-is-not-utf8.lmb": {"sequence 0: name of 4 bytes at",
		func(t *testing.T) []byte { return imageWithName(t, "ma\xffn") }},
	"too-many-commands.lmb": {"commands: count 4294967295 is over the limit",
		func(t *testing.T) []byte {
			return patchedCount(t, 0xffffffff)
		}},
	"reservation-of-another.lmb": {"command count is 77, but the image", func(t *testing.T) []byte {
		return patchedReservation(t, 24, 77)
	}},
	"arena-overflow.lmb": {"arena_bytes is ",
		func(t *testing.T) []byte { return patchedReservation(t, 7, 0xff) }},
	"larger-than-the-machine.lmb": {"are available", func(t *testing.T) []byte {
		return assembleEdu(t, "tensor a input uint8[1048576x1048576]\nmain:\n  write.4 r+0x4 0x1\n")
	}},
}

// assembleEdu returns the image of a listing for the board edu. body is the listing without its
// header.
func assembleEdu(t *testing.T, body string) []byte {
	t.Helper()
	return assembleBytes(t,
		"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"+body)
}

func assembleBytes(t *testing.T, text string) []byte { return lmbtest.File(t, text) }

// imageWithRules returns an image that has its own access rules, and a view of it. A change in the
// view changes the file.
func imageWithRules(t *testing.T) (file []byte, view *fbs.View) {
	t.Helper()
	file = assembleBytes(t, `lightmetal 1
target stranger ffff:0001 bar0 8KiB bar2 16
rule registers bar0 size 128
rule doorbells bar0 offset 128 size 3968 widths 4 8
window r bar0 offset 0 size 8KiB
main:
  write.4 r+0x0 0x1
`)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, view
}

// patchedRule returns the image of imageWithRules with a changed rule and a valid checksum.
func patchedRule(t *testing.T, index int, change func(*fbs.AccessRule)) []byte {
	file, view := imageWithRules(t)
	change(&view.Rules[index])
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// goodImage returns a valid image for edu.
func goodImage(t *testing.T) []byte {
	return assembleEdu(t, "main:\n  expect.4 r+0x0 == 0x010000ed\n  write.4 r+0x4 0x1\n"+
		"  expect.4 r+0x4 == 0xfffffffe\n")
}

// randomBytes returns 5000 random bytes, the same in each call.
func randomBytes(*testing.T) []byte {
	data := make([]byte, 5000)
	rand.New(rand.NewSource(1)).Read(data)
	return data
}

// patchedCommand returns goodImage with a changed command 1 and a valid checksum.
func patchedCommand(t *testing.T, change func(*fbs.Command)) []byte {
	file := goodImage(t)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	change(&view.Commands[1]) // this changes the file: the view refers to its bytes
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// imageWithName returns goodImage with another name of four bytes for the sequence main, and a
// valid checksum.
func imageWithName(t *testing.T, name string) []byte {
	file := goodImage(t)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	copy(view.NameBytes(view.Sequences[0].Name), name) // this changes the file too
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// TestNotesWithControlCharactersAreRejected also checks that lm does not print the notes.
func TestNotesWithControlCharactersAreRejected(t *testing.T) {
	const marked = "lightmetal 1\norigin tool \"QXZA\" source \"QXZB\"\ntarget edu 1234:11e8 " +
		"bar0 1MiB\n" +
		"window QXZC bar0 offset 0 size 1MiB\nmain:\n  mark \"QXZD\"\n  write.4 QXZC+0x4 0x1\n"
	for _, name := range []string{"QXZA", "QXZB", "QXZC", "QXZD"} {
		file := assembleBytes(t, marked)
		copy(file[bytes.Index(file, []byte(name)):], "\nsa\x1b")
		lmb.Stamp(file, uint64(len(file)))
		path := filepath.Join(t.TempDir(), "x.lmb")
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"info", "verify", "dump"} {
			exit, stdout, stderr := lm(t, command, path)
			if exit != 65 || stdout != "" || !strings.Contains(stderr, "control character") ||
				strings.Contains(stderr, "\nsa") {
				t.Errorf("%s of %s: exit status %d, want 65; %q, %q", command, name, exit, stdout,
					stderr)
			}
		}
	}
}

// patchedCount returns goodImage with another count in the vector of commands.
func patchedCount(t *testing.T, count uint32) []byte {
	file := goodImage(t)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	// Value is at byte 16 of a command. The count precedes the first command.
	at := bytes.Index(file, binary.LittleEndian.AppendUint64(nil, view.Commands[0].Value)) - 16 - 4
	binary.LittleEndian.PutUint32(file[at:], count)
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// patchedReservation returns goodImage with one byte of the reservation changed.
func patchedReservation(t *testing.T, offset int, value byte) []byte {
	file := goodImage(t)
	position := gen.GetRootAsImage(file, 0).Reservation(nil).Table().Pos
	file[int(position)+offset] = value
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// TestBadImagesAreRefusedBeforeTheFirstAccess writes the files of testdata/bad if the flag -update
// is set.
func TestBadImagesAreRefusedBeforeTheFirstAccess(t *testing.T) {
	for name, w := range badImages {
		path := filepath.Join(testdata, "bad", name)
		if *golden.Update {
			if err := os.WriteFile(path, w.make(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		device := mock.New(&boards.Edu)
		err := replayFile(path, device)
		if codeOf(err) != hal.BadImage || !strings.Contains(fmt.Sprint(err), w.want) {
			t.Errorf("%s: error %v, want %q", name, err, w.want)
		}
		if n := device.Operations(); n != 0 {
			t.Errorf("%s: %d accesses to the device, want 0", name, n)
		}
		if exit := runSilently(t, "replay", "--device", "mock:edu", path); exit != 65 {
			t.Errorf("%s: lm replay exits %d, want 65", name, exit)
		}
	}
}

// replayFile opens, verifies, loads and runs an image on a device, and returns the first error.
func replayFile(path string, device hal.Device) error {
	file, err := runtime.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	view, err := file.Verify()
	if err != nil {
		return err
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		return err
	}
	defer replay.Close()
	if result := replay.Run(0); result.Code != hal.OK {
		return result.Code
	}
	return nil
}
