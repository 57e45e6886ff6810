package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// known writes what the C reader is told: the hash of the schema, as FORMAT.md
// has it made, and the rules of boards.
func known(t *testing.T) string {
	t.Helper()
	schema, err := os.ReadFile("../../../fbs/image.fbs")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(schema)) {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
	var b strings.Builder
	rules := 0
	for _, board := range boards.All {
		rules += len(board.Rules)
	}
	fmt.Fprintf(&b, "schema %x rules %x\n", binary.LittleEndian.Uint64(sum[:]), rules)
	for _, board := range boards.All {
		for _, r := range board.Rules {
			memory, loadOnly := 0, 0
			if r.Memory {
				memory = 1
			}
			if r.LoadOnly {
				loadOnly = 1
			}
			fmt.Fprintf(&b, "%x %x %x %x %x %x %x %x\n", board.Vendor, board.Device, r.Bar, r.First,
				r.Last, r.Widths, memory, loadOnly)
		}
	}
	for _, board := range boards.All {
		for _, c := range board.Closed {
			fmt.Fprintf(&b, "%x %x %x %x %x %x %x\n", board.Vendor, board.Device, c.Routes,
				c.X, c.Y, c.First, c.Last)
		}
	}
	path := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// judged has the C reader verify files, and gives what it says of each.
func judged(t *testing.T, program string, paths []string) []string {
	t.Helper()
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(strings.Join(paths, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, known(t), list).Output()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(lines) != len(paths) {
		t.Fatalf("%v; %d lines for %d files", err, len(lines), len(paths))
	}
	return lines
}

var places = regexp.MustCompile(
	`^(preamble|reservation|sequences|segments|` +
		`(device|rule|window|sequence|segment|tensor|command) \d+)$`)

// place is where the runtime finds a file wrong; what a FlatBuffer's tables are
// made of has no place of its own.
func place(data []byte) (place, why string) {
	_, err := fbs.Verify(data)
	var e *fbs.Error
	switch {
	case err == nil:
		return "good", ""
	case !errors.As(err, &e):
		return "no place", err.Error()
	case e.Place == "sequences" && !strings.HasPrefix(e.Reason, "cover"), e.Place == "segments" &&
		!strings.HasPrefix(e.Reason, "end"):
		return "envelope", err.Error() // the vector, not what it says
	case places.MatchString(e.Place):
		return e.Place, e.Reason
	}
	return "envelope", err.Error()
}

// agree holds what both readers say of files against each other, and counts the
// good ones.
func agree(t *testing.T, program string, paths []string) (good int) {
	t.Helper()
	for i, said := range judged(t, program, paths) {
		data, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		theirs, reason, _ := strings.Cut(said, ": ")
		if theirs == "image" {
			theirs = "envelope"
		}
		ours, why := place(data)
		if ours == "good" {
			good++
		}
		if ours != theirs {
			t.Errorf("%s: the runtime says %s (%s), C says %s (%s)", filepath.Base(paths[i]), ours,
				why, theirs, reason)
		}
	}
	return good
}

// everyImage is the images of testdata, good and bad, and those of the listings.
func everyImage(t *testing.T) (good, bad []string) {
	t.Helper()
	good, _ = filepath.Glob(filepath.Join(samples, "images", "*.lmb"))
	bad, _ = filepath.Glob(filepath.Join(samples, "bad", "*.lmb"))
	listings, _ := filepath.Glob(filepath.Join(samples, "listings", "*.lms"))
	for _, path := range listings {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		image, err := listing.Parse(path, source, nil)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, encode(t, image))
	}
	if len(good) < 8 || len(bad) < 15 {
		t.Fatalf("%d good and %d bad images", len(good), len(bad))
	}
	return good, bad
}

// Two readers of one specification: what the C reader, written from FORMAT.md,
// finds wrong with an image, and where, is what the runtime finds.
func TestCRefusesWhatTheRuntimeRefusesAtTheSamePlace(t *testing.T) {
	program := compileC(t)
	good, bad := everyImage(t)
	if n := agree(t, program, good); n != len(good) {
		t.Errorf("%d of %d images of testdata are good", n, len(good))
	}
	// a good file
	bad = slices.DeleteFunc(bad,
		func(path string) bool { return strings.HasSuffix(path, "larger-than-the-machine.lmb") })
	if n := agree(t, program, bad); n != 0 {
		t.Errorf("%d images that should be bad are good", n)
	}
}

// spoil changes a number or a few bits somewhere in the vectors of an image, and
// gives it a checksum that is right.
func spoil(random *rand.Rand, file []byte) []byte {
	data := bytes.Clone(file)
	view, err := fbs.Verify(data)
	if err != nil {
		return data
	}
	commands := 32 * len(view.Commands)
	from, size := 72, int(len(view.Envelope))-72
	if random.IntN(3) > 0 { // mostly in the commands
		from = bytes.Index(data, asBytes(view.Commands[0]))
		size = commands
	}
	if random.IntN(4) == 0 {
		spoilCommand(random, view)
		binary.LittleEndian.PutUint32(data[12:], fbs.EnvelopeChecksum(data[:len(view.Envelope)]))
		return data
	}
	for range 1 + random.IntN(2) {
		at := from + random.IntN(size)
		switch random.IntN(4) {
		case 0:
			data[at] ^= 1 << random.IntN(8)
		case 1:
			data[at] = byte(random.Uint32())
		case 2:
			data[at] = byte(random.Uint32N(16))
		case 3:
			if at&^3 >= from {
				binary.LittleEndian.PutUint32(data[at&^3:],
					[]uint32{0, 1, 4, 4096, 1 << 31, 1<<32 - 1, 1<<32 - 4}[random.IntN(7)])
			}
		}
	}
	binary.LittleEndian.PutUint32(data[12:], fbs.EnvelopeChecksum(data[:len(view.Envelope)]))
	return data
}

// spoilCommand changes one command, where it lies, to what only a rule about more
// than one of its fields tells from a good one.
func spoilCommand(random *rand.Rand, view *fbs.View) {
	c := &view.Commands[random.IntN(len(view.Commands))]
	switch random.IntN(5) {
	case 4: // what a board closes, and what is beside it
		if c.Opcode == gen.OpcodePoint {
			coordinates := []uint64{0, 2, 3, 8, 9, 10, 11, 16, 17, 19, 24}
			one := func() uint64 { return coordinates[random.IntN(len(coordinates))] }
			c.Mask = c.Mask&^0xffff | one() | one()<<8
			if c.Mask>>56 == 1 {
				c.Mask = c.Mask&^0xffffffff | one() | one()<<8 | one()<<16 | one()<<24
			}
			size := view.Windows[c.Window].Size
			c.Value = []uint64{0, 0x8_8003_0078, 0x8_9000_0000, 0x9000_0000,
				1<<64 - 1}[random.IntN(5)] &^ (size - 1)
		}
	case 0: // calls that may nest
		if c.Opcode != gen.OpcodeEnd {
			*c = fbs.Command{Opcode: gen.OpcodeCall,
				Index: uint16(random.IntN(len(view.Sequences)))}
		}
	case 1: // what only bulk may begin at
		c.Offset ^= 1 + random.Uint32N(7)
	case 2:
		c.Amount ^= 1 + random.Uint32N(7)
	case 3:
		c.Window = uint16(random.IntN(len(view.Windows)))
	}
}

func asBytes(c fbs.Command) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, c)
	return b.Bytes()
}

// spoiled writes images with something changed: of testdata, and of random
// commands.
func spoiled(t *testing.T, random *rand.Rand, count int) (paths []string) {
	t.Helper()
	good, _ := everyImage(t)
	dir := t.TempDir()
	for n := range count {
		var file []byte
		var err error
		if n%2 == 0 {
			file, err = os.ReadFile(good[n/2%len(good)])
		} else {
			file, err = lmb.Encode(images.Any(random))
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(file) > 1<<20 {
			continue
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.lmb", n))
		if err := os.WriteFile(path, spoil(random, file), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Images of which a few bits are changed, with checksums that are right.
func TestCAndTheRuntimeAgreeOnSpoiledImages(t *testing.T) {
	program := compileC(t)
	paths := spoiled(t, rand.New(rand.NewPCG(16, 3)), 3000)
	good := agree(t, program, paths)
	if good < len(paths)/50 || good > len(paths)*9/10 {
		t.Errorf("%d of %d are good: too few or too many to tell", good, len(paths))
	}
	t.Logf("evidence: %d images, %d of them good, judged alike", len(paths), good)
}
