package importer

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

const captureFolder = "../../../testdata/captures"

// captureText returns the text of a capture in testdata/captures.
func captureText(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(captureFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// captures lists the recordings of real programs that can be replayed, each with the inputs and
// outputs of its program (testdata/captures/README.md).
var captures = []struct {
	name            string
	inputs, outputs []string
	options         Options
	loads, stores   int // accesses through windows, or to the region
	commands        int
}{
	{"wh.twoop.mmiotrace", []string{"a=1,1,0x20000,int32,256", "b=1,1,0x21000,int32,256"},
		[]string{"d=1,1,0x23000,int32,256"},
		Options{From: FromMmiotrace}, 174, 285, 26},
	{"bh.twoop.mmiotrace", []string{"a=1,2,0x20000,int32,256", "b=1,2,0x21000,int32,256"},
		[]string{"d=1,2,0x23000,int32,256"},
		Options{From: FromMmiotrace}, 174, 285, 26},
	{"wh.mlp.mmiotrace", []string{"x=1,1,0x20000,int8,64", "w1=1,1,0x21000,int8,32x64",
		"b1=1,1,0x22000,int32,32", "w2=1,1,0x23000,int8,10x32", "b2=1,1,0x24000,int32,10"},
		[]string{"y=1,1,0x25000,int32,10"}, Options{From: FromMmiotrace}, 42, 369, 29},
	{"edu.qemutrace", nil, nil, Options{From: FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}}}, 425, 6, 16},
}

// captureOptions returns the options that import captures[index].
func captureOptions(t testing.TB, index int) Options {
	o := captures[index].options
	for _, s := range captures[index].inputs {
		o.Inputs = append(o.Inputs, mustTensor(t, s))
	}
	for _, s := range captures[index].outputs {
		o.Outputs = append(o.Outputs, mustTensor(t, s))
	}
	return o
}

func TestReportsOfCapturesMatchGoldenFiles(t *testing.T) {
	for i, c := range captures {
		t.Run(c.name, func(t *testing.T) {
			image, report := mustImport(t, captureText(t, c.name), captureOptions(t, i))
			if n := len(image.Sequences[0].Commands); n != c.commands {
				t.Errorf("the image has %d commands, want %d", n, c.commands)
			}
			golden.File(t, filepath.Join("testdata", c.name+".report"), report.String())
		})
	}
}

// TestImagesMakeTheAccessesOfTheirCaptures: whichever passes run, an image makes the recorded
// accesses in the same order, with the same width and value, at the same place.
func TestImagesMakeTheAccessesOfTheirCaptures(t *testing.T) {
	withouts := [][]string{nil, {"fold"}, {"drop"}, {"coalesce"}, {"fence"}, {"mark"}, Passes[1:]}
	for i, c := range captures {
		for _, without := range withouts {
			t.Run(c.name+" without "+strings.Join(without, ","), func(t *testing.T) {
				o := captureOptions(t, i)
				o.Without = without
				image, _ := mustImport(t, captureText(t, c.name), o)
				want := recordedEvents(t, captureText(t, c.name), c.name, o.runsPass("mark"))
				loads, stores := 0, 0
				for _, e := range want {
					if e.op == 'R' {
						loads++
					} else if e.op == 'W' {
						stores++
					}
				}
				if loads != c.loads || stores != c.stores {
					t.Fatalf("the test reads %d loads and %d stores from the trace, want %d and %d",
						loads, stores, c.loads, c.stores)
				}
				checkSameAccesses(t, image, want)
			})
		}
	}
}

func (o *Options) runsPass(pass string) bool {
	return (&program{options: *o}).isPassEnabled(pass)
}

// event is one access or mark as this test reads it from a trace. Reading it shares no code with
// the importer that it tests.
type event struct {
	line    int
	op      byte   // R, W or M
	place   string // "(1,1) strict" or "bar0"
	address uint64
	width   int
	value   uint64
	text    string
}

// recordedEvents reads the accesses and, if marks is true, the marks of a capture.
func recordedEvents(t *testing.T, text, name string, marks bool) (list []event) {
	t.Helper()
	config := map[uint64]uint64{} // 32-bit words by offset
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		e, ok := parseEvent(t, line)
		e.line = i + 1
		switch {
		case !ok || e.op == 'M' && !marks:
		case e.op == 'M':
			list = append(list, e)
		case strings.HasSuffix(name, ".mmiotrace"):
			if e.address >= 0x1fc00000 {
				config[e.address] = e.value & 0xffffffff
				if e.width == 8 {
					config[e.address+4] = e.value >> 32
				}
				continue
			}
			if strings.HasPrefix(name, "wh") {
				e.place, e.address = wormholeWindow166(config, e.address)
			} else {
				e.place, e.address = blackholeWindow0(config, e.address)
			}
			list = append(list, e)
		default:
			list = append(list, e)
		}
	}
	return list
}

// parseEvent reads a line of a capture. ok is false if the line is no access or mark.
func parseEvent(t *testing.T, line string) (e event, ok bool) {
	f := strings.Fields(line)
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch f[0] {
	case "R", "W":
		return event{op: f[0][0], place: "bar0", address: number(f[4]) - 0x100000000,
			width: int(number(f[1])), value: number(f[5])}, true
	case "MARK":
		return event{op: 'M', text: strings.Join(f[2:], " ")}, true
	case "memory_region_ops_read", "memory_region_ops_write":
		if f[12] != "'edu-mmio'" {
			return e, false
		}
		e = event{op: 'R', place: "bar0", address: number(f[6]) - 0x10000000,
			width: int(number(f[10])), value: number(f[8])}
		if f[0] == "memory_region_ops_write" {
			e.op = 'W'
		}
		e.value &= 1<<(8*e.width) - 1
		return e, true
	}
	return e, false
}

// wormholeWindow166 returns tile and address of an offset in window 166. It decodes the registers
// by the table of tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md: for 16 MiB windows 12
// address bits, then x, y, start x, start y of 6 bits each, NoC, multicast, ordering of 2 bits.
func wormholeWindow166(config map[uint64]uint64, offset uint64) (string, uint64) {
	q := config[0x1fc00530] | config[0x1fc00534]<<32
	return fmt.Sprintf("(%d,%d) start (%d,%d) noc %d multicast %d ordering %d rest %d",
			q>>12&63, q>>18&63, q>>24&63, q>>30&63, q>>36&1, q>>37&1, q>>38&3, q>>40),
		q&0xfff<<24 + offset - 0x0b000000
}

// blackholeWindow0 returns tile and address of an offset in window 0. It decodes the registers by
// TLB_2M_REG in blackhole.c of tt-kmd.
func blackholeWindow0(config map[uint64]uint64, offset uint64) (string, uint64) {
	lo, mid, hi := config[0x1fc00000], config[0x1fc00004], config[0x1fc00008]
	yStart := mid>>29 | hi&7<<3
	return fmt.Sprintf("(%d,%d) start (%d,%d) noc %d multicast %d ordering %d rest %d",
			mid>>11&63, mid>>17&63, mid>>23&63, yStart, hi>>3&3, hi>>5&1, hi>>6&3, hi>>8),
		(lo|mid&0x7ff<<32)<<21 + offset
}

// checkSameAccesses checks that the commands of an image make the recorded accesses, in order.
func checkSameAccesses(t *testing.T, image *lmb.Image, want []event) {
	t.Helper()
	w := imageWalker{t: t, image: image, remaining: want,
		points: make([]*fbs.Command, len(image.Windows))}
	for i := range image.Sequences[0].Commands {
		w.checkCommand(i, &image.Sequences[0].Commands[i])
		if t.Failed() {
			return
		}
	}
	if len(w.remaining) > 0 {
		t.Errorf("the image lacks the last %d accesses, the first in line %d", len(w.remaining),
			w.remaining[0].line)
	}
}

// imageWalker compares commands with recorded accesses.
type imageWalker struct {
	t         *testing.T
	image     *lmb.Image
	remaining []event        // accesses that no command has made yet
	points    []*fbs.Command // latest point of each window
	index     int            // of the command, for failures
}

// checkCommand compares a command with the next recorded accesses.
func (w *imageWalker) checkCommand(index int, c *lmb.Command) {
	w.index = index
	switch c.Opcode {
	case gen.OpcodePoint:
		w.points[c.Window] = &c.Command
	case gen.OpcodeFence:
	case lmb.OpcodeMark:
		if e := w.next(); e.op != 'M' || e.text != string(c.Data) {
			w.t.Errorf("command %d: mark %q, but line %d has %q", index, string(c.Data), e.line,
				e.text)
		}
	case gen.OpcodeWrite:
		e := w.nextAccess('W', c, uint64(c.Offset), int(c.Width))
		w.checkValue(e, c.Value)
	case gen.OpcodeExpect:
		e := w.nextAccess('R', c, uint64(c.Offset), int(c.Width))
		if c.Amount == 0 {
			w.checkValue(e, e.value&^c.Mask|c.Value)
			return
		}
		for e.value&c.Mask != c.Value && !w.t.Failed() {
			e = w.nextAccess('R', c, uint64(c.Offset), int(c.Width))
		}
	case gen.OpcodeCopyIn, gen.OpcodeFill:
		w.checkCopy('W', c, w.storedBytes(c))
	case gen.OpcodeCopyOut:
		w.checkCopy('R', c, w.image.Tensors[c.Index-1].Data[c.Value:][:c.Amount])
	case gen.OpcodeCompare:
		w.checkCopy('R', c, c.Data)
	default:
		w.t.Errorf("command %d: unexpected opcode %v", index, c.Opcode)
	}
}

// storedBytes returns the bytes that a copyin or fill stores.
func (w *imageWalker) storedBytes(c *lmb.Command) []byte {
	switch {
	case c.Opcode == gen.OpcodeCopyIn && c.Index == 0:
		return c.Data
	case c.Opcode == gen.OpcodeCopyIn:
		return w.image.Tensors[c.Index-1].Data[c.Value:][:c.Amount]
	}
	one := make([]byte, c.Width)
	for i := range one {
		one[i] = byte(c.Value >> (8 * i))
	}
	return bytes.Repeat(one, int(c.Amount)/int(c.Width))
}

// checkCopy compares a copy with the next recorded accesses. They have the width of the command; a
// fill or a bulk copy may replace accesses of any width.
func (w *imageWalker) checkCopy(op byte, c *lmb.Command, data []byte) {
	offset := uint64(c.Offset)
	for len(data) > 0 && len(w.remaining) > 0 && !w.t.Failed() {
		width := int(c.Width)
		if c.Opcode == gen.OpcodeFill || c.Opcode != gen.OpcodeCompare &&
			gen.Access(c.Mode) == gen.AccessBulk {
			width = w.remaining[0].width
		}
		if width > len(data) {
			w.t.Errorf("command %d ends inside the access of line %d", w.index, w.remaining[0].line)
			return
		}
		e := w.nextAccess(op, c, offset, width)
		value := uint64(0)
		for i, b := range data[:width] {
			value |= uint64(b) << (8 * i)
		}
		w.checkValue(e, value)
		data, offset = data[width:], offset+uint64(width)
	}
	if len(data) > 0 {
		w.t.Errorf("command %d: %d bytes more than were recorded", w.index, len(data))
	}
}

func (w *imageWalker) next() (e event) {
	if len(w.remaining) > 0 {
		e, w.remaining = w.remaining[0], w.remaining[1:]
	}
	return e
}

// nextAccess removes the next recorded access and returns it. Operation, place and width must be
// those of the command.
func (w *imageWalker) nextAccess(op byte, c *lmb.Command, offset uint64, width int) event {
	e := w.next()
	place, address := "bar0", offset
	if p := w.points[c.Window]; p != nil {
		m := p.Mask
		place = fmt.Sprintf("(%d,%d) start (%d,%d) noc %d multicast %d ordering %d rest %d",
			m&255, m>>8&255, m>>16&255, m>>24&255, m>>32&255, m>>56&255, m>>40&255-1, m>>48&255)
		address += p.Value
	}
	if e.op != op || e.place != place || e.address != address || e.width != width {
		w.t.Errorf("command %d: %c of %d bytes at %s 0x%x; line %d has %c of %d bytes at %s 0x%x",
			w.index, op, width, place, address, e.line, e.op, e.width, e.place, e.address)
	}
	return e
}

func (w *imageWalker) checkValue(e event, value uint64) {
	if e.value != value {
		w.t.Errorf("command %d: value 0x%x; line %d has 0x%x", w.index, value, e.line, e.value)
	}
}

func TestControllerWithQueuesInHostMemoryIsRejectedAndSummarised(t *testing.T) {
	text := captureText(t, "linux-nvme.qemutrace")
	o := Options{From: FromQemu, Board: &boards.Nvme,
		Regions: []traces.Region{{Name: "nvme", Base: 0x8001004000}}}
	wantError(t, text, o, "line 31: store of 0x43081000 to ASQ (admin submission queue base "+
		"address): a replay needs host memory there, which the trace lacks; "+
		"add a file of this memory with --host")

	trace, list, err := traces.Read(strings.NewReader(text), o.traceSource())
	if err != nil || len(list) != 73 || trace.Lines != 200 {
		t.Errorf("%d accesses in %d lines, error %v; want 73 in 200", len(list), trace.Lines, err)
	}
	const region = `"nvme" at 0x8001004000..0x800100500f (16 loads, 57 stores)`
	for name, change := range map[string]func(*Options){
		"all known":     func(*Options) {},
		"no base":       func(o *Options) { o.Regions = []traces.Region{{Name: "nvme"}} },
		"no region":     func(o *Options) { o.Regions = []traces.Region{{Base: 0x8001004000}} },
		"nothing known": func(o *Options) { *o = Options{From: FromQemu} },
	} {
		o := o
		change(&o)
		s, err := Summarize(strings.NewReader(text), o)
		if err != nil || len(s.Regions) != 1 || s.Regions[0].String() != region ||
			s.Regions[0].Widths != [4]int{2: 73} || len(s.Other) != 12 || s.Lines != 200 {
			t.Fatalf("%s: summary %+v, error %v; want region %s", name, s, err, region)
		}
		want := "line 31: store of 0x43081000 to ASQ (admin submission queue base address): a " +
			"replay needs host memory there, which the trace " +
			"lacks; add a file of this memory with --host\n" +
			"line 37: store of 0x43080000 to ACQ (admin completion queue base address): a replay " +
			"needs host memory there, which the trace " +
			"lacks; add a file of this memory with --host\n"
		got := ""
		for _, w := range s.Blocked {
			got += w.String() + "\n"
		}
		if o.Board == nil {
			want = ""
		}
		if got != want {
			t.Errorf("%s: blocked accesses:\n%swant:\n%s", name, got, want)
		}
	}
}

func TestSummaryOfMmiotrace(t *testing.T) {
	s, err := Summarize(strings.NewReader(captureText(t, "wh.mlp.mmiotrace")),
		Options{From: FromMmiotrace})
	if err != nil || len(s.Regions) != 1 || s.Lines != 428 {
		t.Fatalf("summary %+v, error %v; want 1 region and 428 lines", s, err)
	}
	const region = `"01:00.0 1e52:401e BAR 0" at 0xb000000..0x1fc00537 (42 loads, 375 stores)`
	if r := s.Regions[0]; r.String() != region || r.Widths != [4]int{2: 42, 3: 375} {
		t.Errorf("region %v, widths %v; want %s, 42 of 4 bytes and 375 of 8", r, r.Widths, region)
	}
	if len(s.Other) != 1 || s.Other[0] != (traces.Count{Name: "marks", N: 8}) {
		t.Errorf("other lines %v, want 8 marks", s.Other)
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEncodingsOfACaptureImportTheSame(t *testing.T) {
	for i, c := range captures {
		text, o := captureText(t, c.name), captureOptions(t, i)
		zipped := gzipped(t, text)
		a, _ := mustImport(t, text, o)
		b, _ := mustImport(t, zipped, o)
		if imageText(a) != imageText(b) {
			t.Errorf("%s: compression changes the commands", c.name)
		}
		// With the byte order mark that some editors write before UTF-8, and with CRLF line ends.
		for _, same := range []string{"\xef\xbb\xbf" + text, gzipped(t, "\xef\xbb\xbf"+text),
			strings.ReplaceAll(text, "\n", "\r\n")} {
			if b, _ := mustImport(t, same, o); imageText(a) != imageText(b) {
				t.Errorf("%s: a byte order mark or CRLF line ends change the commands", c.name)
			}
		}
		damaged := []byte(zipped)
		damaged[len(zipped)-6] ^= 1
		for want, broken := range map[string]string{"cut": zipped[:len(zipped)/2],
			"damaged": string(damaged)} {
			if _, _, err := Import(strings.NewReader(broken), o); hal.CodeOf(err) != hal.BadImage ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, want)
			}
		}
	}
}

func TestOtherCompressionAndUTF16AreRejectedWithARemedy(t *testing.T) {
	for head, want := range map[string]string{"\xfd7zXZ\x00\x00\x04": "xz -dc",
		"\x28\xb5\x2f\xfd\x24\x00": "zstd -dc", "BZh91AY&SY": "bzip2 -dc",
		"\xff\xfeV\x00E\x00": "text in UTF-16, but must be text, " +
			"or text compressed by gzip; use iconv", "\xfe\xff\x00V\x00E": "iconv -f UTF-16",
		gzipped(t, "\xff\xfeV\x00E\x00"): "iconv -f UTF-16 -t UTF-8 FILE |"} {
		for _, from := range []string{FromMmiotrace, FromQemu, FromRecord} {
			_, _, err := Import(strings.NewReader(head+"\n"),
				Options{From: from, Board: chips.BoardByName("edu")})
			if hal.CodeOf(err) != hal.BadImage || !strings.Contains(err.Error(), want) {
				t.Errorf("import of %q as %s: error %v, want one with %q", head, from, err, want)
			}
		}
	}
}
