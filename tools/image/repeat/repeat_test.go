package repeat_test

import (
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/repeat"
)

const (
	// memory, registers and host memory
	own = "lightmetal 1\ntarget own 1234:5678 bar0 64KiB\n" +
		"rule registers bar0 size 4KiB\n" +
		"rule memory bar0 offset 4KiB widths 1 2 4 8 memory\n" +
		"window r bar0 offset 0 size 4KiB\nwindow m bar0 offset 0x1000 size 4KiB\n" +
		"window h host size 4KiB\n"
	wormhole = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n" +
		"window t tlb size 1MiB\nwindow u tlb size 1MiB\n"
	both = wormhole + "frame:\n  point t tile 1,1 address 0x0\n"
)

func check(t *testing.T, text string) []repeat.Poll {
	t.Helper()
	image, err := listing.Parse("test.lms", []byte(text), nil)
	if err != nil {
		t.Fatalf("the listing of the test does not parse: %v\n%s", err, text)
	}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return repeat.Check(view, view.SequenceByName("frame"))
}

// TestPollsThatTheRunBeforeHasSatisfiedAreFound has frames that wait in each run and frames that
// do not. refused and unsure are the numbers of polls of either kind.
func TestPollsThatTheRunBeforeHasSatisfiedAreFound(t *testing.T) {
	const bell = "  write.4 r+0x0 1\n"
	for _, test := range []struct {
		what, text      string
		refused, unsure int
	}{
		{"a counter in a register", own + "frame:\n" + bell +
			"  poll.4 r+0x4 reached 0x7 within 1s\n", 1, 0},
		{"a counter in memory", own + "frame:\n" + bell +
			"  poll.4 m+0x4 reached 0x7 within 1s\n", 1, 0},
		{"a counter that the sequence clears", own + "frame:\n  write.4 m+0x4 0\n" + bell +
			"  poll.4 m+0x4 reached 0x7 within 1s\n", 0, 0},
		{"a counter that comes around", own + "frame:\n" + bell +
			"  poll.4 r+0x4 & 0x7 reached 0x2 within 1s\n" + bell +
			"  poll.4 r+0x4 & 0x7 reached 0x5 within 1s\n" + bell +
			"  poll.4 r+0x4 & 0x7 reached 0x0 within 1s\n", 0, 0},
		{"a counter that does not come around", own + "frame:\n" + bell +
			"  poll.4 r+0x4 & 0xff reached 0x2 within 1s\n" + bell +
			"  poll.4 r+0x4 & 0xff reached 0x5 within 1s\n", 2, 0},
		{"a flag in memory", own + "frame:\n" + bell + "  poll.4 m+0x4 == 1 within 1s\n", 1, 0},
		{"a flag that is cleared", own + "frame:\n  write.4 m+0x4 0\n" + bell +
			"  poll.4 m+0x4 == 1 within 1s\n", 0, 0},
		{"a flag that is cleared at the end", own + "frame:\n" + bell +
			"  poll.4 m+0x4 == 1 within 1s\n  write.4 m+0x4 0\n", 0, 0},
		{"a flag of which another bit is cleared", own + "frame:\n  write.4 m+0x4 0x0 mask 0x2\n" +
			bell + "  poll.4 m+0x4 & 0x1 == 1 within 1s\n", 1, 0},
		{"a flag whose bit is cleared", own + "frame:\n  write.4 m+0x4 0x2 mask 0x3\n" +
			bell + "  poll.4 m+0x4 & 0x1 == 1 within 1s\n", 0, 0},
		{"a flag to which the same value is stored", own + "frame:\n  write.4 m+0x4 1\n" + bell +
			"  poll.4 m+0x4 == 1 within 1s\n", 1, 0},
		{"a flag in a block that is stored", own + "frame:\n" +
			"  copy.4 m+0x0 <- hex 00000000 00000000 00000000\n" + bell +
			"  poll.4 m+0x4 == 1 within 1s\n", 0, 0},
		{"a flag in a block that is filled with it", own + "frame:\n" +
			"  fill.4 m+0x0 <- 1 size 64\n" + bell + "  poll.4 m+0x4 == 1 within 1s\n", 1, 0},
		{"two values in turn", own + "frame:\n" + bell + "  poll.4 m+0x4 == 1 within 1s\n" +
			bell + "  poll.4 m+0x4 == 2 within 1s\n", 0, 0},
		{"the end of the run before", own +
			"frame:\n  poll.4 m+0x4 == 1 within 1s\n" + bell, 1, 0},
		{"a flag behind which nothing is started", own + "frame:\n" + bell +
			"  poll.4 r+0x4 & 0x7 reached 0x2 within 1s\n  write.4 m+0x4 0\n" + bell +
			"  poll.4 m+0x4 == 1 within 1s\n  poll.4 m+0x4 == 1 within 1s\n", 1, 0},
		{"a check that does not wait", own + "frame:\n" + bell + "  expect.4 m+0x4 == 1\n", 0, 0},
		{"another value in memory", own + "frame:\n" + bell +
			"  poll.4 m+0x4 != 0 within 1s\n", 1, 0},
		{"another value than a stored one", own + "frame:\n  write.4 m+0x4 0\n" + bell +
			"  poll.4 m+0x4 != 0 within 1s\n", 0, 0},
		{"a flag in a register", own + "frame:\n" + bell + "  poll.4 r+0x4 & 1 == 1 within 1s\n",
			0, 1},
		{"a flag in a register that is cleared by a one", own + "frame:\n  write.4 r+0x4 1\n" +
			bell + "  poll.4 r+0x4 & 1 == 1 within 1s\n", 0, 0},
		{"host memory", own + "frame:\n" + bell + "  poll.4 h+0x4 == 1 within 1s\n", 1, 0},
		{"host memory that is cleared", own + "frame:\n  write.4 h+0x4 0\n  fence\n" + bell +
			"  poll.4 h+0x4 == 1 within 1s\n", 0, 0},
		{"host memory that is cleared too late", own + "frame:\n" + bell +
			"  write.4 h+0x4 0\n  poll.4 h+0x4 == 1 within 1s\n", 1, 0},
		{"host memory that is cleared twice, too late", own + "frame:\n" + bell +
			"  write.4 h+0x4 2\n  write.4 h+0x4 0\n  poll.4 h+0x4 == 1 within 1s\n", 1, 0},
		{"a called sequence", own + "frame:\n  call start\n  poll.4 m+0x4 == 1 within 1s\n" +
			"start:\n" + bell, 1, 0},
		{"a tile's flag", both + "  write.4 t+0x100 1\n  poll.4 t+0x200 == 1 within 1s\n", 1, 0},
		{"a tile's flag that is the doorbell", both + "  write.4 t+0x200 0x80\n" +
			"  poll.4 t+0x200 == 0 within 1s\n", 0, 0},
		{"a tile's flag that another window clears", both +
			"  point u tile 1,1 address 0x0\n  write.4 u+0x200 0\n  write.4 t+0x100 1\n" +
			"  poll.4 t+0x200 == 1 within 1s\n", 0, 0},
		{"a tile's flag that a multicast clears", both +
			"  point u tiles 1,1 to 2,2 address 0x0\n  write.4 u+0x200 0\n" +
			"  write.4 t+0x100 1\n  poll.4 t+0x200 == 1 within 1s\n", 0, 0},
		{"a tile's flag that is cleared in another tile", both +
			"  point u tile 2,1 address 0x0\n  write.4 u+0x200 0\n  write.4 t+0x100 1\n" +
			"  poll.4 t+0x200 == 1 within 1s\n", 1, 0},
		{"a flag of a bank through its second tile", wormhole + "frame:\n" +
			"  point t tile 0,0 address 0x0\n  point u tile 0,1 address 0x0\n" +
			"  write.4 u+0x200 0\n  write.4 t+0x100 1\n  poll.4 t+0x200 == 1 within 1s\n", 0, 0},
	} {
		t.Run(test.what, func(t *testing.T) {
			polls := check(t, test.text)
			unsure := 0
			for i := range polls {
				if polls[i].IsRegister {
					unsure++
				}
			}
			if unsure != test.unsure || len(polls)-unsure != test.refused {
				t.Errorf("%d polls refused, %d unsure, want %d, %d: %v\n%s", len(polls)-unsure,
					unsure, test.refused, test.unsure, polls, test.text)
			}
		})
	}
}

// TestRingsDecideWhetherALaterRunWaits has frames whose polls move with a ring, and do or do not
// find in a later lap what the lap before has left.
func TestRingsDecideWhetherALaterRunWaits(t *testing.T) {
	const head = own + "ring q begin 0 end 64\nring n begin 0 end 4\nframe:\n  advance q 16\n" +
		"  advance n 1\n  write.4 r+0x0 1\n"
	for _, test := range []struct {
		what, text string
		refused    int
	}{
		{"an awaited position", "  with q value\n  poll.4 r+0x4 reached 0x0 within 1s\n", 1},
		{"an awaited position with a lap", "  with q value parity 0x80000000\n" +
			"  poll.4 m+0x4 == 0x80000000 within 1s\n", 0},
		{"an awaited position that starts again", "  with q value\n" +
			"  poll.4 m+0x4 == 0x0 within 1s\n", 0},
		{"a phase", "  with q value shift 8 parity 0x1\n  with q offset\n" +
			"  poll.4 m+0x4 & 0x1 == 0x1 within 1s\n", 0},
		{"a phase in one place", "  with q value shift 8 parity 0x1\n" +
			"  poll.4 m+0x4 & 0x1 == 0x1 within 1s\n", 1},
		{"the same value in each lap", "  with q offset\n  poll.4 m+0x4 == 0x1 within 1s\n", 1},
		{"the same value in each lap, cleared before", "  with q offset\n" +
			"  poll.4 m+0x4 == 0x1 within 1s\n  with q offset\n  write.4 m+0x4 0\n", 0},
		{"a ring of one place", "  advance q 48\n  with q value\n" +
			"  poll.4 m+0x4 == 0x10 within 1s\n", 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			if polls := check(t, head+test.text); len(polls) != test.refused {
				t.Errorf("%d polls refused, want %d: %v\n%s", len(polls), test.refused, polls,
					head+test.text)
			}
		})
	}
}

func TestErrorsAndWarningsNameTheCommand(t *testing.T) {
	polls := check(t, own+"frame:\n  write.4 r+0x0 1\n  poll.4 r+0x8 == 1 within 1s\n"+
		"  poll.4 r+0x4 reached 0x7 within 1s\n  poll.4 m+0x4 & 0x1 == 1 within 1s\n")
	const want = "command 2 of frame, poll.4 r+0x4 reached 0x7 within 1s, waits in the first run " +
		"only: the counter stays beyond this number, so each later run reads old results (and 1 " +
		"more poll)"
	if err := repeat.Error(polls); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	const warning = "command 1 of frame, poll.4 r+0x8 == 0x1 within 1s, waits in a later run " +
		"only if the device changes this register when it starts"
	if list := repeat.Warning(polls); strings.Join(list, "\n") != warning {
		t.Errorf("got  %q\nwant %s", list, warning)
	}
	if err := repeat.Error(polls[:1]); err != nil {
		t.Errorf("a register is an error: %v", err)
	}
	if list := repeat.Warning(polls[1:]); list != nil {
		t.Errorf("memory is a warning: %q", list)
	}
}
