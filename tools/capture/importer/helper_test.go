package importer

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
)

// The PCIDEV lines of the boards, BAR 0 at 0x100000000.
const (
	whDevice = "PCIDEV 0100 1e52401e 0 10000000c 0 c0000000 0 200000004 0 0 20000000 0 100000 0 " +
		"2000000 0 0 tenstorrent"
	bhDevice = "PCIDEV 0100 1e52b140 0 10000000c 0 0 0 80000000c 0 0 20000000 0 0 0 800000000 0 " +
		"0 tenstorrent"
	eduDevice = "PCIDEV 0010 123411e8 b 100000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 "
	shmDevice = "PCIDEV 0018 1af41110 b 100000000 0 20000000c 0 0 0 0 100 0 400000 0 0 0 0 "
)

// Windows of Wormhole that the tests use: offsets in BAR 0 of the window and of its configuration
// register.
const (
	wh166       = 0x0b000000 // 16 MiB
	wh166Config = 0x1fc00530
	wh167       = 0x0c000000
	wh167Config = 0x1fc00538
)

// mmiotrace returns the text of an mmiotrace. A line `W 4 0x10 0x5` is a store of 4 bytes to that
// offset of BAR 0, `R 4 4:0x10 0x5` a load from BAR 4; `@2.5` before it sets the time in seconds,
// which otherwise advances by a microsecond a line. Other lines are copied unchanged. The first of
// list is line 3 of the trace.
func mmiotrace(device string, list ...string) string {
	bars := [6]uint64{0: 0x100000000, 2: 0x200000000, 4: 0x200000000}
	if device == bhDevice {
		bars[4] = 0x800000000
	}
	var b strings.Builder
	fmt.Fprintf(&b, "VERSION 20070824\n%s\n", device)
	now := 1.0
	for _, line := range list {
		if rest, ok := strings.CutPrefix(line, "@"); ok {
			fmt.Sscanf(rest, "%f", &now)
			_, line, _ = strings.Cut(rest, " ")
		}
		f := strings.Fields(line)
		if len(f) == 4 && (f[0] == "R" || f[0] == "W") {
			bar, offset := 0, uint64(0)
			if strings.Contains(f[2], ":") {
				fmt.Sscanf(f[2], "%d:0x%x", &bar, &offset)
			} else {
				fmt.Sscanf(f[2], "0x%x", &offset)
			}
			line = fmt.Sprintf("%s %s %.6f 1 0x%x %s 0x0 0", f[0], f[1], now, bars[bar]+offset,
				f[3])
		}
		fmt.Fprintf(&b, "%s\n", line)
		now += 1e-6
	}
	return b.String()
}

// whPoint returns the store that points window 166 or 167 to an address of a tile.
func whPoint(register, x, y uint64, address uint64) string {
	return fmt.Sprintf("W 8 0x%x 0x%x", register, address>>24|x<<12|y<<18)
}

// whMulticast returns the store that points a window to a rectangle of tiles.
func whMulticast(register, x0, y0, x1, y1, address uint64) string {
	return fmt.Sprintf("W 8 0x%x 0x%x", register, address>>24|x1<<12|y1<<18|x0<<24|y0<<30|1<<37)
}

// recordText returns a recording with these lines between its first line and its END line.
func recordText(list []string) string {
	return "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
}

// access returns a line for mmiotrace: a load "R" or store "W" at an offset in BAR 0.
func access(op string, width int, offset, value uint64) string {
	return fmt.Sprintf("%s %d 0x%x 0x%x", op, width, offset, value)
}

func mustTensor(t testing.TB, spec string) TensorSpec {
	t.Helper()
	s, err := ParseTensor(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustRange(t testing.TB, spec string) Range {
	t.Helper()
	r, err := ParseRange(spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustImport imports a trace, of mmiotrace unless o says otherwise, and checks that the image can
// be encoded.
func mustImport(t testing.TB, text string, o Options) (*lmb.Image, *Report) {
	t.Helper()
	if o.From == "" {
		o.From = FromMmiotrace
	}
	image, report, err := Import(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lmb.Encode(image); err != nil {
		t.Fatalf("the imported image cannot be encoded: %v", err)
	}
	return image, report
}

// wantError imports a trace that must be rejected, and compares the error with want.
func wantError(t *testing.T, text string, o Options, want string) {
	t.Helper()
	if o.From == "" {
		o.From = FromMmiotrace
	}
	_, _, err := Import(strings.NewReader(text), o)
	if err == nil {
		t.Errorf("imported without an error, want: %s", want)
	} else if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if c := hal.CodeOf(err); err != nil && c != hal.BadImage && c != hal.Usage {
		t.Errorf("error code %v, want BadImage or Usage", c)
	}
}

// imageText returns the commands of the first sequence of an image, one a line.
func imageText(image *lmb.Image) string {
	var b strings.Builder
	for _, c := range image.Sequences[0].Commands {
		fmt.Fprintln(&b, commandText(image, &c))
	}
	return b.String()
}

// commandText returns a command as the tests of this package write it.
func commandText(image *lmb.Image, c *lmb.Command) string {
	place := ""
	if int(c.Window) < len(image.Windows) {
		place = fmt.Sprintf("%s+0x%x w%d", image.Windows[c.Window].Name, c.Offset, c.Width)
	}
	option := strings.ToLower(gen.Access(c.Mode).String())
	switch c.Opcode {
	case gen.OpcodePoint:
		t, _ := boards.UnpackTileRoute(c.Mask)
		text := fmt.Sprintf("point %s (%d,%d) 0x%x", image.Windows[c.Window].Name, t.X, t.Y,
			c.Value)
		if t.Multicast {
			text += fmt.Sprintf(" from (%d,%d)", t.XStart, t.YStart)
		}
		if t.Ordering != boards.OrderingDefault {
			text += " " + strings.ToLower(gen.Ordering(t.Ordering).String())
		}
		return text
	case gen.OpcodeWrite, gen.OpcodeRelocate:
		return fmt.Sprintf("write %s 0x%x", place, c.Value)
	case gen.OpcodeCopyIn:
		if c.Index != 0 {
			return fmt.Sprintf("copyin %s %s %s[%d:%d]", option, place,
				image.Tensors[c.Index-1].Name, c.Value, c.Value+uint64(c.Amount))
		}
		return fmt.Sprintf("copyin %s %s %s", option, place, bytesText(c.Data))
	case gen.OpcodeFill:
		return fmt.Sprintf("fill %s %s %d bytes 0x%x", option, place, c.Amount, c.Value)
	case gen.OpcodeCopyOut:
		return fmt.Sprintf("copyout %s %s %s[%d:%d]", option, place, image.Tensors[c.Index-1].Name,
			c.Value, c.Value+uint64(c.Amount))
	case gen.OpcodeExpect:
		if gen.Condition(c.Mode) == gen.ConditionReached {
			return fmt.Sprintf("poll %s reached 0x%x mask 0x%x", place, c.Value, c.Mask)
		}
		if c.Amount != 0 {
			return fmt.Sprintf("poll %s 0x%x mask 0x%x for %d us", place, c.Value, c.Mask, c.Amount)
		}
		return fmt.Sprintf("expect %s 0x%x mask 0x%x", place, c.Value, c.Mask)
	case gen.OpcodeCompare:
		return fmt.Sprintf("compare %s %s", place, bytesText(c.Data))
	case gen.OpcodeFence:
		return "fence"
	case gen.OpcodeDelay:
		return fmt.Sprintf("delay %d us", c.Amount)
	case lmb.OpcodeMark:
		return "mark " + string(c.Data)
	}
	return c.Opcode.String()
}

// bytesText returns up to 24 bytes in hexadecimal, and of more bytes only their number.
func bytesText(b []byte) string {
	if len(b) > 24 {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return fmt.Sprintf("%x", b)
}

// checkCommands compares the commands of the first sequence of an image with want, which may begin
// with a newline.
func checkCommands(t *testing.T, image *lmb.Image, want string) {
	t.Helper()
	if got := imageText(image); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("commands:\n%swant:%s", got, want)
	}
}

// passSummary returns the summary of a pass in the report, or "" if the pass did nothing.
func passSummary(r *Report, pass string) string {
	for _, p := range r.Passes {
		if p.Name == pass {
			return p.Summary
		}
	}
	return ""
}

func wantSummary(t *testing.T, r *Report, pass, want string) {
	t.Helper()
	if got := passSummary(r, pass); got != want {
		t.Errorf("summary of the pass %s: %q, want %q", pass, got, want)
	}
}

// forEdu returns o for a trace that QEMU wrote of its edu device.
func forEdu(o Options) Options {
	o.From, o.Board = FromQemu, &boards.Edu
	return o
}
