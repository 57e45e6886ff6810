package report

import (
	"math"
	"strings"
	"testing"
)

// factValue returns the value of a fact of a banner, or "" if the banner has no fact of that name.
func factValue(b *failureBanner, name string) string {
	for _, f := range b.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// failureBannerOf assembles a listing, runs main and returns the banner of the failure.
func failureBannerOf(t *testing.T, text string) *failureBanner {
	t.Helper()
	view := verify(t, assemble(t, text))
	p, result := profileRuns(t, view, recordingMock(view), "main", 1)
	p.Failed = &Failure{Code: result.Code.Error(), Command: result.Command, Got: result.Got,
		Want: result.Want, Mask: result.Mask, Element: result.ElementIndex, Ns: p.MostNs}
	if result.SafeRan {
		p.Failed.Safe = result.SafeSequenceCode.Error()
	}
	r := Analyze(view, WholeFile, nil)
	return r.failureBanner(p, r.listing(p))
}

// TestBannerShowsWhatTheCommandGotAndWanted for each kind of condition.
func TestBannerShowsWhatTheCommandGotAndWanted(t *testing.T) {
	for _, test := range []struct{ name, command, got, wanted, mask string }{
		{"equal", "expect.4 r+0x0 == 0x010000ee", "0x10000ed", "0x10000ee", ""},
		{"masked", "expect.4 r+0x0 & 0xff0000ff == 0x02000000", "0x10000ed", "0x2000000",
			"0xff0000ff"},
		{"any set", "expect.4 r+0x0 any-set 0x12", "0x10000ed", "any bit of 0x12 set", "0x12"},
		{"any clear", "expect.4 r+0x0 any-clear 0x2d", "0x10000ed", "any bit of 0x2d clear",
			"0x2d"},
		{"unequal", "expect.4 r+0x0 != 0x010000ed", "0x10000ed", "anything but 0x10000ed", ""},
		{"poll", "poll.4 r+0x0 & 0xf == 0xc within 10us", "0x10000ed", "0xc", "0xf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := failureBannerOf(t, edu+"main:\n  write.4 r+0x4 1\n  "+test.command+"\n")
			for name, want := range map[string]string{"got": test.got, "wanted": test.wanted,
				"mask": test.mask, "bits that differ": "", "sequence": "main",
				"sequence safe": "the image has no sequence safe"} {
				got := factValue(b, name)
				masked := strings.Replace(got, "0x100000d", "0xd", 1)
				if got != want && masked != want {
					t.Errorf("the banner has the %s %q, want %q", name, got, want)
				}
			}
			if b.Place != "main, command 1" || b.Link != "#c1" {
				t.Errorf("the banner names %q with link %q, want main, command 1 and #c1", b.Place,
					b.Link)
			}
		})
	}
}

// TestBannerShowsWhetherSafeRan, and in which sequence the run failed.
func TestBannerShowsWhetherSafeRan(t *testing.T) {
	const call = edu + "main:\n  call sub\nsub:\n  write.4 r+0x4 1\n  expect.4 r+0x0 == 1\n"
	for _, test := range []struct{ name, safe, want string }{
		{"none", "", "the image has no sequence safe"},
		{"done", "safe:\n  write.4 r+0x20 0\n", "ran: done"},
		{"failed", "safe:\n  expect.4 r+0x0 == 2\n", "ran: expect failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := failureBannerOf(t, call+test.safe)
			if got := factValue(b, "sequence safe"); got != test.want {
				t.Errorf("the banner has the result %q of safe, want %q", got, test.want)
			}
			if b.Place != "sub, command 1" || factValue(b, "sequence") != "sub" {
				t.Errorf("the banner names %q, sequence %q; want sub, command 1", b.Place,
					factValue(b, "sequence"))
			}
		})
	}
}

// TestFailedCommandIsMarkedWhereItIsShown: in the timeline, with a flag at the time of the failure,
// in the listing and in the tables.
func TestFailedCommandIsMarkedWhereItIsShown(t *testing.T) {
	page := string(examplePage(t, "failed.lmb", assemble(t, failingListing)))
	for what, want := range map[string]string{
		"flag":     `">failed: main, command 3</b>`,
		"timeline": `<i class="tip op-poll failed" data-line="#c3"`,
		"listing":  `<p id="c3" class="line failed"><b>3</b>`,
		"sequence": `<h3 class="failed">main <span>5 commands, failed</span></h3>`,
		"table":    `<a href="#c3">3</a> <em>failed</em>`,
		"title":    "<title>FAILED: failed.lmb",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no failed command in the %s: the page has no %s", what, want)
		}
	}
	view := verify(t, assemble(t, failingListing))
	p, result := profileRuns(t, view, recordingMock(view), "main", 1)
	p.Failed = &Failure{Command: result.Command, Ns: 20_600}
	line := Analyze(view, WholeFile, nil).timelinePicture(p, &pageListing{})
	// The poll is drawn shorter: 400 ns before it and 1100 ns behind it have 80 percent.
	const want = 80*400.0/1500 + cutShare
	if line.Failed == nil || math.Abs(line.Failed.Left-want) > 0.01 {
		t.Errorf("the flag is at %+v, want %v percent", line.Failed, want)
	}
	if line.Cut == nil || math.Abs(line.Cut.Left+line.Cut.Width-want) > 0.01 ||
		!strings.Contains(line.Cut.Text, "20") {
		t.Errorf("the poll is drawn shorter at %+v, want up to %v percent", line.Cut, want)
	}
	for i, tick := range line.Ticks {
		if inside := tick.Left > line.Cut.Left && tick.Left < want; inside ||
			strings.HasPrefix(tick.Text, "+") != (tick.Left >= want) {
			t.Errorf("tick %d, %+v, is inside the break, or does not count from its end", i, tick)
		}
	}
}

// TestHostileFailureIsShownSafely: a profile may name any command and any time.
func TestHostileFailureIsShownSafely(t *testing.T) {
	view := verify(t, assemble(t, scopesListing))
	for _, command := range []int32{-2, 1 << 30, 15, 16} {
		p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
		p.Failed = &Failure{Command: command, Ns: 1 << 62, Mask: ^uint64(0), Safe: "\x1b[2J",
			Reason: "</script>"}
		r := Analyze(view, WholeFile, nil)
		var out strings.Builder
		if err := r.WritePage(&out, p, testGenerator); err != nil {
			t.Fatal(err)
		}
		checkPage(t, []byte(out.String()))
		if strings.ContainsRune(out.String(), '\x1b') {
			t.Error("a control character reaches the page")
		}
	}
}
