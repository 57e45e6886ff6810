package listing

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

// listings is the directory with listings that several packages test.
const listings = "../../../testdata/listings/"

// readTestFile returns the contents of the only file that the listings of tests may name.
func readTestFile(path string) ([]byte, error) {
	if path != "bytes.bin" {
		return nil, errors.New("open " + path + ": no such file")
	}
	return []byte("0123456789abcdef"), nil
}

func mustParse(t *testing.T, source string) *lmb.Image {
	t.Helper()
	image, err := Parse("test.lms", []byte(source), readTestFile)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func mustPrint(t *testing.T, image *lmb.Image) string {
	t.Helper()
	var out bytes.Buffer
	if err := Print(&out, image); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// readListing returns the text of a file in listings.
func readListing(t testing.TB, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(listings + name)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// header is the first part of the listings of tests, including those of errors.txtar.
const header = `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 4KiB
window odd bar0 offset 0x2 size 16
window l1 tlb size 1MiB
window twin config size 256
window twin host size 4KiB
window huge host size 4GiB
tensor a input int32[256]
tensor d output uint8[64]
`

// TestMistakesAreReportedWithPlaceAndReason compares the errors of Parse with errors.txtar, which
// describes its entries.
func TestMistakesAreReportedWithPlaceAndReason(t *testing.T) {
	golden.Table(t, "testdata/errors.txtar", func(mistake, _ string) string {
		text := strings.ReplaceAll(mistake, "|", "\n")
		source, isWhole := strings.CutPrefix(text, "whole:")
		if !isWhole {
			source = header + text + "\n"
		}
		_, err := Parse("x.lms", []byte(source), readTestFile)
		if err == nil {
			return "no mistake at all"
		}
		return err.Error()
	})
}

func TestEveryMistakeIsReportedUpToTwenty(t *testing.T) {
	source := header + "main:\n" + strings.Repeat("  nonsense\n", 30)
	_, err := Parse("x.lms", []byte(source), nil)
	list := err.(interface{ Unwrap() []error }).Unwrap()
	if len(list) != 20 {
		t.Fatalf("%d errors, want 20", len(list))
	}
	var last *Error
	if !errors.As(list[19], &last) || last.Line != 31 || last.Column != 3 || last.File != "x.lms" {
		t.Errorf("the last error is %v, want one at x.lms:31:3", list[19])
	}
}

func TestOneMistakeInADeclarationIsReportedOnce(t *testing.T) {
	_, err := Parse("x.lms", []byte(`lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 2MiB
tensor a input int23[4]
main:
  write.4 regs+0x0 1
  copy.4 regs+0x0 <- a[:]
  write.4 w0+0x300000 1
`), nil)
	want := "x.lms:3:34: a window of 2 MiB at offset 0x0 ends outside bar0 of edu, whose size " +
		"is 1 MiB\n" +
		"x.lms:4:16: expected a type such as float32, found \"int23\"; did you mean int32?"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestPrintWritesTheCanonicalListing(t *testing.T) {
	image, err := Parse("all-opcodes.lms", readListing(t, "all-opcodes.lms"), nil)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/all-opcodes.golden", mustPrint(t, image))
}

func TestListingsEncodeAndPrint(t *testing.T) {
	paths, err := filepath.Glob(listings + "*.lms")
	if err != nil || len(paths) < 3 {
		t.Fatalf("testdata/listings has %v (%v), want at least 3 listings", paths, err)
	}
	for _, path := range paths {
		image, err := Parse(path, readListing(t, filepath.Base(path)), nil)
		if err != nil {
			t.Fatal(err)
		}
		file, err := lmb.Encode(image)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		again, err := lmb.Encode(mustParse(t, mustPrint(t, image)))
		if err != nil || !bytes.Equal(file, again) {
			t.Errorf("%s encodes to another file after Print and Parse (%v)", path, err)
		}
	}
}

func TestLanguageReferenceIsAValidListing(t *testing.T) {
	text, err := os.ReadFile("LANGUAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for i, part := range strings.Split(string(text), "```") {
		if example, ok := strings.CutPrefix(part, "lms\n"); ok && i%2 == 1 {
			source.WriteString(example)
		}
	}
	if _, err := lmb.Encode(mustParse(t, source.String())); err != nil {
		t.Error(err)
	}
}

// TestLanguageReferenceHasTheCommandsOfTheTable parses each form of a command in LANGUAGE.md, and
// compares the words of the forms with the table of commands.
func TestLanguageReferenceHasTheCommandsOfTheTable(t *testing.T) {
	page, err := os.ReadFile("LANGUAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n| command | means |\n|---|---|\n")
	text, _, _ = strings.Cut(text, "\n\n")
	example := strings.NewReplacer("ring n", "q 1", "ring value", "q value", "ring", "q",
		".W", ".4", "ref", "regs+0x0", "bus(window)", "bus(regs)", "window", "l1",
		"tensor[first:end] <-", "d[0:4] <-", "tensor[first:end]", "a[0:4]",
		"<- data", "<- hex 00112233", "== data", "== hex 00112233", "type", "float32",
		"condition", "== 1", "<- value", "<- 1", " value", " 1", "mask m", "mask 1",
		"size n", "size 64", "+n", "+4", "address n", "address 0x100000", " x", " 1", ",y", ",1",
		" y", " 1", " [every time]", " every 1us", "time", "1ms", "sequence", "other")
	onPage := map[string]bool{}
	for line := range strings.Lines(text) {
		for _, form := range strings.Split(strings.Split(line, "|")[1], ", `") {
			form = strings.Trim(form, " `")
			word, _, _ := strings.Cut(form, " ")
			word, _, _ = strings.Cut(word, ".")
			onPage[word] = true
			source := header + "ring q begin 0 end 64\nmain:\n  " + example.Replace(form) +
				"\nother:\n"
			if _, err := Parse("page", []byte(source), nil); err != nil {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
	if words := slices.Sorted(maps.Keys(onPage)); !slices.Equal(words, commandWords()) {
		t.Errorf("LANGUAGE.md has the commands %v, want %v", words, commandWords())
	}
}

func TestParseSetsTheFieldsOfEveryCommand(t *testing.T) {
	type c = fbs.Command
	for _, test := range []struct {
		text string
		want c
	}{
		{"write.4 regs+0x4 0x1", c{Opcode: gen.OpcodeWrite, Width: 4, Offset: 4, Value: 1}},
		{"write.8 regs+0x10 bus(w4)+0x1000", c{Opcode: gen.OpcodeRelocate, Width: 8, Index: 4,
			Offset: 16, Value: 0x1000}},
		{"write.2 regs+0x2 0x100 mask 0x700",
			c{Opcode: gen.OpcodeModify, Width: 2, Offset: 2, Value: 0x100, Mask: 0x700}},
		{"read.1 regs+0x3 else ignore", c{Opcode: gen.OpcodeExpect, Width: 1, Mode: 1, Option: 2,
			Offset: 3}},
		{"expect.4 regs+0x0 & 0xf == 7 else ignore",
			c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 1, Option: 2, Value: 7, Mask: 15}},
		{"poll.4 regs+0x0 any-clear 6 else fail every 10us within 1s",
			c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 2, Option: 1, Index: 10, Amount: 1000000,
				Value: 6, Mask: 6}},
		{"expect.4 regs+0x0 reached 6", c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 3, Option: 1,
			Value: 6, Mask: 0xffffffff}},
		{"poll.2 regs+0x0 & 0xff reached 0x10 within 1s else ignore",
			c{Opcode: gen.OpcodeExpect, Width: 2, Mode: 3, Option: 2, Amount: 1000000, Value: 16,
				Mask: 0xff}},
		{"expect.4 regs+0x0 any-set 6", c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 2, Option: 1,
			Mask: 6}},
		{"expect.4 regs+0x0 != 6", c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 2, Option: 1,
			Value: 6, Mask: 0xffffffff}},
		{"copy.4 regs+0x8 <- hex 0011223344556677 fifo",
			c{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: 2, Offset: 8, Amount: 8}},
		{"copy.8 regs+0x8 <- a[8:] bulk", c{Opcode: gen.OpcodeCopyIn, Width: 8, Mode: 3, Index: 1,
			Offset: 8, Amount: 1016, Value: 8}},
		{"copy.1 d[:5] <- l1+1KiB", c{Opcode: gen.OpcodeCopyOut, Width: 1, Mode: 1, Window: 2,
			Index: 2, Offset: 1024, Amount: 5}},
		{"fill.2 regs+0x8 <- 0xbeef size 32",
			c{Opcode: gen.OpcodeFill, Width: 2, Mode: 1, Offset: 8, Amount: 32, Value: 0xbeef}},
		{"compare.4 regs+0x0 float32 == file \"bytes.bin\" from 4 size 8 relative 1",
			c{Opcode: gen.OpcodeCopyOut, Width: 4, Mode: 1, Index: 3, Amount: 8}},
		{"compare.4 regs+0x0 float32 == file \"bytes.bin\" from 4 size 8",
			c{Opcode: gen.OpcodeCompare, Width: 4, Option: 1, Amount: 8}},
		{"compare.4 regs+0x0 int32 == a[8:16] else ignore",
			c{Opcode: gen.OpcodeCompare, Width: 4, Option: 2, Index: 1, Amount: 8, Value: 8}},
		{"compare.4 regs+0x0 float16 == float16 1e+0 2 correlation -1e+0",
			c{Opcode: gen.OpcodeCopyOut, Width: 4, Mode: 1, Index: 3, Amount: 4}},
		{"point l1 tiles 1,2 to 3,4 address 0x100000 vc 0 noc 1 ordering posted",
			c{Opcode: gen.OpcodePoint, Window: 2, Value: 1 << 20, Mask: 0x0101030102010403}},
		{"fence", c{Opcode: gen.OpcodeFence}},
		{"read.4 regs+0xc", c{Opcode: gen.OpcodeExpect, Width: 4, Mode: 1, Option: 1, Offset: 12}},
		{"delay 1ms", c{Opcode: gen.OpcodeDelay, Amount: 1000}},
		{"call other", c{Opcode: gen.OpcodeCall, Index: 1}},
		{"reset p", c{Opcode: gen.OpcodeReset}},
		{"advance q 1KiB", c{Opcode: gen.OpcodeAdvance, Index: 1, Value: 1024}},
		{"with q offset shift 2", c{Opcode: gen.OpcodeWith, Mode: 2, Index: 1, Amount: 2}},
		{"with q value parity 0x10 shift 63",
			c{Opcode: gen.OpcodeWith, Mode: 1, Index: 1, Amount: 63, Mask: 16}},
		{"end \"x\"", c{Opcode: lmb.OpcodeMark, Mode: 3}},
	} {
		image := mustParse(t, header+"ring p begin 4 end 8 first 6\nring q begin 0 end 1KiB\n"+
			"main:\n  "+test.text+"\nother:\n")
		if got := image.Sequences[0].Commands[0].Command; got != test.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", test.text, got, test.want)
		}
	}
}

// TestOneLineMayBecomeSeveralCommands compares the commands of a line as text.
func TestOneLineMayBecomeSeveralCommands(t *testing.T) {
	for source, want := range map[string]string{
		"flush.4 regs+0xc": "fence; read.4 regs+0xc",
		"fill.4 regs+0x10 <- 0x11223344 size 64 bulk": "fill.8 regs+0x10 <- " +
			"0x1122334411223344 size 64",
		"fill.2 regs+0x6 <- 0xabcd size 20 bulk": "write.2 regs+0x6 0xabcd; " +
			"fill.8 regs+0x8 <- 0xabcdabcdabcdabcd size 16; write.2 regs+0x18 0xabcd",
		"fill.1 regs+0x1 <- 0x5 size 6 bulk": "write.1 regs+0x1 0x5; " +
			"write.2 regs+0x2 0x505; write.2 regs+0x4 0x505; write.1 regs+0x6 0x5",
		"fill.2 odd+0x0 <- 0x1234 size 8 bulk": "fill.2 odd+0x0 <- 0x1234 size 8",
		"fill.8 regs+0x0 <- 0x1 size 8 bulk":   "write.8 regs+0x0 0x1",
		"fill.4 regs+0x0 <- 0x1 size 8":        "fill.4 regs+0x0 <- 0x1 size 8",
		"write.4 regs+0x0 0x5 mask 0xffffffff": "write.4 regs+0x0 0x5 mask " +
			"0xffffffff",
		"expect.2 regs+0x0 any-clear 0x6": "expect.2 regs+0x0 & 0x6 != 0x6",
		"compare.4 regs+0x0 float32 == float32 1.5": "compare.4 regs+0x0 uint32 == " +
			"hex 0000c03f",
		"compare.4 regs+0x0 float32 == float32 1 correlation 0.5": "compare.4 regs+0x0 float32 " +
			"== hex 0000803f correlation 0.5",
	} {
		image := mustParse(t, header+"main:\n  "+source+"\n")
		var got []string
		for i := range image.Sequences[0].Commands {
			got = append(got,
				strings.Join(strings.Fields(CommandText(image, &image.Sequences[0].Commands[i])),
					" "))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", source, text, want)
		}
	}
}

// TestJudgementsOfOtherOutputsSurvivePrintAndParse changes an image so that no compare command with
// a tolerance can declare its output. The output must keep its judgement.
func TestJudgementsOfOtherOutputsSurvivePrintAndParse(t *testing.T) {
	for _, change := range []func(*lmb.Image){
		func(*lmb.Image) {},
		func(i *lmb.Image) { i.Tensors[2].Name = "golden:7" },
		func(i *lmb.Image) { i.Sequences[0].Commands[0].Mode = uint8(gen.AccessBulk) },
		func(i *lmb.Image) {
			i.Sequences[0].Commands = append(i.Sequences[0].Commands, i.Sequences[0].Commands[0])
		},
		func(i *lmb.Image) {
			i.Tensors = append(i.Tensors, lmb.Tensor{Name: "x", Role: gen.RoleInput, DType: 1})
		},
		func(i *lmb.Image) { i.Tensors[2].Shape = []uint32{1, 1} },
		func(i *lmb.Image) { i.Sequences[0].Commands = nil },
	} {
		image := mustParse(t,
			header+"main:\n  compare.4 regs+0x0 float32 == hex 0000803f absolute 0.5\n")
		change(image)
		if text := mustPrint(t, image); !reflect.DeepEqual(mustParse(t, text), image) {
			t.Errorf("the image has changed after Print and Parse; the listing:\n%s", text)
		}
	}
}

func TestParseSetsTheFieldsOfDeclarations(t *testing.T) {
	image := mustParse(t, `lightmetal 1
origin tool "t" source "s" time 5 git "g"
target edu 1234:11e8 bar0 1MiB bar5 3
device "two words" ffff:0001
window regs bar0 offset 0x10 size 4KiB wc target 0
window w1 tlb size 16MiB slot 3 device 1
tensor a input int8[] = hex ff
tensor d output bfloat16[2x3]
main:
`)
	want := &lmb.Image{
		Origin: lmb.Origin{Tool: "t", Source: "s", Time: 5, Git: "g"},
		Devices: []lmb.Device{{Board: "edu", Vendor: 0x1234, Device: 0x11e8,
			Bars: [6]uint64{0: 1 << 20, 5: 3}}, {Board: "two words", Vendor: 0xffff, Device: 1}},
		Windows: []lmb.Window{
			{Name: "regs", Window: fbs.Window{Kind: gen.WindowKindBar,
				Flags: fbs.FlagWriteCombining, Slot: fbs.AnySlot, Offset: 16, Size: 4096}},
			{Window: fbs.Window{Kind: gen.WindowKindTlb, Device: 1, Slot: 3, Size: 16 << 20}},
		},
		Tensors: []lmb.Tensor{
			{Name: "a", Role: gen.RoleInput, DType: gen.DTypeInt8, Data: []byte{255}},
			{Name: "d", Role: gen.RoleOutput, DType: gen.DTypeBfloat16, Shape: []uint32{2, 3}},
		},
		Sequences: []lmb.Sequence{{Name: "main"}},
	}
	if !reflect.DeepEqual(image, want) {
		t.Errorf("got\n%+v\nwant\n%+v", image, want)
	}
}

func TestPatternIsXorshift32(t *testing.T) {
	// The first numbers of xorshift32 from 1 are 270369, 67634689 and 2647435461.
	want := []byte{0x21, 0x20, 4, 0, 1, 6, 8, 4, 0xc5, 0xa8}
	if got := Pattern(1, 10); !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

func TestCommandTextIsOneLine(t *testing.T) {
	image := mustParse(t,
		header+"main:\n  copy.4 regs+0x0 <- pattern 1 size 64 bulk\n  fence\nother:\n")
	commands := image.Sequences[0].Commands
	if got, want := CommandText(image, &commands[0]),
		"copy.4 regs+0x0 <- hex 21200400 01060804 c5a8cc9d 4f995512 ... (64 bytes) "+
			"bulk"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := CommandText(image, &commands[1]); got != "fence" {
		t.Errorf("text of a fence: got %q", got)
	}
}

func TestTextOfAnInvalidCommandDoesNotParse(t *testing.T) {
	image := mustParse(t, header+"main:\n")
	for opcode := range 256 {
		c := &lmb.Command{Command: fbs.Command{
			Opcode: gen.Opcode(opcode), Width: 255, Mode: 77, Option: 78, Window: 999,
			Index: 0xffff, Offset: 1 << 31, Amount: 1 << 31, Value: 1 << 63, Mask: 1 << 63,
		}}
		if c.Opcode == gen.OpcodeFence {
			continue // a fence has no fields, so it is always valid
		}
		text := CommandText(image, c)
		if _, err := Parse("x", []byte(header+"main:\n"+text), nil); err == nil ||
			strings.Contains(text, "\n") {
			t.Errorf("invalid command with opcode %d: text %q, error of Parse %v; want one line "+
				"that does not parse", opcode, text, err)
		}
	}
}

func TestPrintRejectsWhatAListingCannotExpress(t *testing.T) {
	base := header + "main:\n"
	for _, test := range []struct {
		name   string
		change func(*lmb.Image)
		want   string
	}{
		{"stray field", func(i *lmb.Image) { i.Sequences[0].Commands[0].Mask = 5 },
			"listing: command 0 of main cannot be written: a listing cannot express " +
				"one of the values"},
		{"stray data", func(i *lmb.Image) { i.Sequences[0].Commands[0].Data = []byte{1} },
			"listing: command 0 of main cannot be written: a listing cannot express " +
				"one of the values"},
		{"unknown opcode", func(i *lmb.Image) { i.Sequences[0].Commands[0].Opcode = 99 },
			"listing: command 0 of main cannot be written: unexpected character '?'"},
		{"call of nothing", func(i *lmb.Image) {
			i.Sequences[0].Commands[0] = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCall,
				Index: 7}}
		}, "listing: command 0 of main cannot be written: unexpected character '?'"},
		{"unknown flag", func(i *lmb.Image) { i.Windows[0].Flags = 2 },
			"listing: the declarations cannot be written: a listing cannot express " +
				"one of the values"},
		{"two of a name", func(i *lmb.Image) { i.Sequences = append(i.Sequences, i.Sequences[0]) },
			"listing: sequence 1 cannot be written: sequence main already starts in line 2"},
		{"no name", func(i *lmb.Image) { i.Tensors[0].Name = "" },
			"listing: tensor 0 cannot be written: a name must have 1 to 255 bytes, but has 0"},
	} {
		image := mustParse(t, base+"  fence\n")
		test.change(image)
		if err := Print(&bytes.Buffer{}, image); err == nil || err.Error() != test.want {
			t.Errorf("%s: got  %v\nwant %s", test.name, err, test.want)
		}
	}
}

func TestLimitsOfTheFormatAreReported(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"device edu%d 1234:11e8 bar0 1MiB\n", "x.lms:18:1: too many devices: a listing may " +
			"have at most 8"},
		{"window n%d host size 4\n", "x.lms:4101:1: too many windows: a listing may have at " +
			"most 4096"},
		{"tensor t%d input int8[]\n", "x.lms:4105:1: too many tensors: a listing may have at " +
			"most 4096"},
		{"s%d:\n", "x.lms:4107:1: too many sequences: a listing may have at most 4096"},
	} {
		var source strings.Builder
		source.WriteString(header)
		for i := range 4097 {
			fmt.Fprintf(&source, test.line, i)
		}
		_, err := Parse("x.lms", []byte(source.String()), nil)
		if err == nil || !strings.HasPrefix(err.Error()+"\n", test.want+"\n") {
			t.Errorf("got  %.80v\nwant %s", err, test.want)
		}
	}
}

func TestListingWithoutAReaderOpensNoFile(t *testing.T) {
	_, err := Parse("x.lms", []byte(header+"main:\n  copy.4 regs+0x0 <- file \"bytes.bin\"\n"), nil)
	const want = "x.lms:12:27: this listing must not name files; write the data as hex"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// failingWriter returns an error for each Write.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestPrintReportsAFailingWriter(t *testing.T) {
	if err := Print(failingWriter{}, mustParse(t, header+"main:\n")); err == nil ||
		err.Error() != "disk full" {
		t.Errorf("Print to a failing writer: error %v, want disk full", err)
	}
}
