package importer

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/check/effort"
)

// storeLines returns lines for mmiotrace: n stores of one width from an offset on, with the values
// 1, 2, ...
func storeLines(n, width int, offset uint64) (list []string) {
	for i := range n {
		list = append(list, access("W", width, offset+uint64(i*width), uint64(i+1)))
	}
	return list
}

// l1Trace returns an mmiotrace of Wormhole that first points window 166 to L1 of tile (1,1).
func l1Trace(list ...string) string {
	return mmiotrace(whDevice, append([]string{whPoint(wh166Config, 1, 1, 0)}, list...)...)
}

func TestStoresToRegistersKeepWidthOrderAndCount(t *testing.T) {
	image, _ := mustImport(t, mmiotrace(eduDevice, storeLines(7, 4, 0x40)...), Options{})
	if got := imageText(image); strings.Count(got, "write") != 7 {
		t.Errorf("7 stores to registers became %d write commands, want 7; commands:\n%s",
			strings.Count(got, "write"), got)
	}
	image, _ = mustImport(t, mmiotrace(eduDevice, storeLines(8, 4, 0x40)...), Options{})
	checkCommands(t, image, "\ncopyin exact bar0+0x40 w4 32 bytes\n")
	// 8 stores of 4 bytes, then 8 of 8 bytes: two copies, because the widths must not change.
	image, _ = mustImport(t, mmiotrace(eduDevice,
		append(storeLines(8, 4, 0x100), storeLines(8, 8, 0x120)...)...), Options{})
	checkCommands(t, image, "\ncopyin exact bar0+0x100 w4 32 bytes\n"+
		"copyin exact bar0+0x120 w8 64 bytes\n")
}

// TestCopyStaysInsideOneRule: a loader compares each command with one rule of the board.
func TestCopyStaysInsideOneRule(t *testing.T) {
	device := "PCIDEV 0020 1b360010 b 100000000 0 0 0 0 0 0 4000 0 0 0 0 0 0 nvme"
	image, _ := mustImport(t, mmiotrace(device, storeLines(16, 4, 0xfe0)...), Options{})
	checkCommands(t, image, "\ncopyin exact bar0+0xfe0 w4 32 bytes\n"+
		"copyin exact bar0+0x1000 w4 32 bytes\n")
}

// TestMemoryIsCopiedInTheWidthsThatItAccepts: a loader accepts bulk copies only to memory that
// accepts every width. Memory that accepts only 4 bytes gets copies with that exact width.
func TestMemoryIsCopiedInTheWidthsThatItAccepts(t *testing.T) {
	b := &boards.Board{Name: "narrow", Vendor: 0x1234, Device: 0x11e8,
		BarSizes: [6]uint64{4096}}
	b.Rules = []boards.AccessRule{{Last: 4095, Widths: 4, IsMemory: true, Name: "memory"}}
	image, _ := mustImport(t, mmiotrace(eduDevice,
		append(storeLines(8, 4, 0x100), storeLines(3, 4, 0x200)...)...), Options{Board: b})
	checkCommands(t, image, "\ncopyin exact bar0+0x100 w4 32 bytes\nwrite bar0+0x200 w4 0x1\n"+
		"write bar0+0x204 w4 0x2\nwrite bar0+0x208 w4 0x3\n")
}

func TestFencePrecedesCommandsThatMayDependOnACopy(t *testing.T) {
	pair := []string{access("W", 4, wh166, 1), access("W", 4, wh166+4, 2)}
	for _, c := range []struct{ name, next, want string }{
		{"reset release", whPoint(wh166Config, 1, 1, 0xff000000) + "\n" +
			access("W", 4, wh166+0xb121b0, 0x47000),
			"fence\npoint tlb0 (1,1) 0xffb00000\nwrite tlb0+0x121b0 w4 0x47000\n"},
		{"flag in memory", access("W", 4, wh166+0x100, 1), "fence\nwrite tlb0+0x100 w4 0x1\n"},
		{"read back", access("R", 4, wh166, 1), "fence\nexpect tlb0+0x0 w4 0x1 mask 0xffffffff\n"},
		{"register of the BAR", "W 4 0x1ff30060 0x1", "fence\nwrite bar0+0x1ff30060 w4 0x1\n"},
		{"another copy", access("W", 4, wh166+0x100, 3) + "\n" + access("W", 4, wh166+0x104, 4),
			"copyin bulk tlb0+0x100 w4 0300000004000000\nfence\n"},
		{"mark, then a store", "MARK 1.5 go\n" + access("W", 4, wh166+0x100, 1),
			"mark go\nfence\nwrite tlb0+0x100 w4 0x1\n"},
		{"nothing", "MARK 1.5 end", "mark end\nfence\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := l1Trace(append(pair, strings.Split(c.next, "\n")...)...)
			image, _ := mustImport(t, text, Options{})
			checkCommands(t, image, "point tlb0 (1,1) 0x0\n"+
				"copyin bulk tlb0+0x0 w4 0100000002000000\n"+c.want)
			image, _ = mustImport(t, text, Options{Without: []string{"fence"}})
			if strings.Contains(imageText(image), "fence") {
				t.Errorf("without the pass fence, the image has a fence, want none; commands:\n%s",
					imageText(image))
			}
		})
	}
}

func TestEqualStoresBecomeAFillIfThatIsShorter(t *testing.T) {
	same := func(n, width int, offset, value uint64) (list []string) {
		for i := range n {
			list = append(list, access("W", width, wh166+offset+uint64(i*width), value))
		}
		return list
	}
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for _, c := range []struct {
		name  string
		trace []string
		want  string
	}{
		{"8 are not enough", same(8, 4, 0, 7), "copyin bulk tlb0+0x0 w4 32 bytes\nfence\n"},
		{"9 are", same(9, 4, 0, 7), "fill exact tlb0+0x0 w4 36 bytes 0x7\nfence\n"},
		{"one differs", join(same(9, 4, 0, 7), same(1, 4, 36, 8)),
			"copyin bulk tlb0+0x0 w4 40 bytes\nfence\n"},
		{"many, then others", join(same(64, 4, 0, 7), same(1, 4, 256, 8), same(1, 4, 260, 9)),
			"fill exact tlb0+0x0 w8 256 bytes 0x700000007\n" +
				"copyin bulk tlb0+0x100 w4 0800000009000000\nfence\n"},
		{"others, then many", join(same(1, 4, 0, 8), same(1, 4, 4, 9), same(64, 4, 8, 7)),
			"copyin bulk tlb0+0x0 w4 0800000009000000\n" +
				"fill exact tlb0+0x8 w8 256 bytes 0x700000007\nfence\n"},
		{"one other, then many", join(same(1, 8, 0, 8), same(64, 8, 8, 7)),
			"write tlb0+0x0 w8 0x8\nfill exact tlb0+0x8 w8 512 bytes 0x7\nfence\n"},
		{"other widths are other values", join(same(9, 8, 0, 0), same(1, 4, 72, 0)),
			"copyin bulk tlb0+0x0 w8 76 bytes\nfence\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image, _ := mustImport(t, l1Trace(c.trace...), Options{})
			checkCommands(t, image, "point tlb0 (1,1) 0x0\n"+c.want)
		})
	}
}

// TestEachFillOfALongRunIsFound imports 200000 adjacent stores with 3125 ranges of equal values.
// The test does not measure the time.
func TestEachFillOfALongRunIsFound(t *testing.T) {
	var b strings.Builder
	b.WriteString(l1Trace())
	for i := range 200_000 {
		value := 0
		if i%64 < 20 {
			value = i
		}
		fmt.Fprintf(&b, "W 8 1.000000 1 0x%x 0x%x 0x0 0\n", 0x100000000+wh166+8*i, value)
	}
	text := strings.ReplaceAll(b.String(), "0x41000 ", "0x0 ") // DRAM: large enough
	image, _ := mustImport(t, text, Options{})
	if n := strings.Count(imageText(image), "fill"); n != 200_000/64 {
		t.Errorf("the image has %d fill commands, want %d", n, 200_000/64)
	}
}

// TestEachOf300000RegisterLoadsBecomesACommand: the importer does not compare each load with all
// later ones, which would be 45 billion steps. The test does not measure the time.
func TestEachOf300000RegisterLoadsBecomesACommand(t *testing.T) {
	effort.SkipShort(t)
	const n = 300_000
	text := []byte("LMRECORD 2\nDEVICE 0 abcd 0001 0000:00:04.0\nBAR 0 0 0 10000000 1000000\n")
	for i := range n {
		text = fmt.Appendf(text, "R 0 %x 4 %02x000000\n", 4*i, i&0xff)
	}
	text = fmt.Appendf(text, "END %d\n", n+2)
	device := &boards.Board{Name: "generic", BarSizes: [6]uint64{1 << 24},
		Rules: []boards.AccessRule{{Last: 1<<24 - 1, Widths: 4, Name: "registers"}}}
	image, _ := mustImport(t, string(text), Options{From: FromRecord, Board: device,
		BarSizesAreLimits: true})
	if got := len(image.Sequences[0].Commands); got != n {
		t.Errorf("the image has %d commands, want %d", got, n)
	}
}
