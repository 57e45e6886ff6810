package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb"
	"lightmetal/tools/look/report"
)

func TestReportShowsTheProfileOfAReplay(t *testing.T) {
	folder := t.TempDir()
	profile, page := filepath.Join(folder, "run.json"), filepath.Join(folder, "x.html")
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	exit, stdout, stderr := lm(t, "replay", "--device", "mock:wormhole", "--loop", "3", "--profile",
		profile, image)
	if exit != 0 || !strings.Contains(stdout, "Time by opcode") ||
		!strings.Contains(stdout, "each command's time includes 0 ns") ||
		!strings.Contains(stdout, "clock: virtual") {
		t.Fatalf("lm replay --profile: exit status %d, want 0; stdout, which must contain the "+
			"time by opcode in virtual time: %s; stderr: %s", exit, stdout, stderr)
	}
	if exit, stdout, stderr := lm(t, "report", "--profile", profile, "-o", page,
		image); exit != 0 || !strings.HasPrefix(stdout, page+": report on "+image+
		", 1 sequence, 18 commands; ") {
		t.Fatalf("lm report -o: exit status %d, want 0; stdout %q, want the path, the image, 1 "+
			"sequence and 18 commands; stderr: %s", exit, stdout, stderr)
	}
	file, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(file)); err != io.EOF; _, err = d.Token() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Contains(file, []byte("longest of 3 runs on mock:wormhole")) {
		t.Error("the page lacks the text \"longest of 3 runs on mock:wormhole\"")
	}
	if exit, stdout, _ := lm(t, "report", "--profile", profile, image); exit != 0 ||
		!strings.Contains(stdout, "soft reset") ||
		!strings.Contains(stdout, "Slowest commands") {
		t.Errorf("lm report --profile: exit status %d, want 0; stdout, which must contain \"soft "+
			"reset\" and \"Slowest commands\": %s", exit, stdout)
	}
}

func TestReportAsJSON(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "run.json")
	image := filepath.Join(testdata, "images", "edu-factorial.lmb")
	exit, stdout, _ := lm(t, "replay", "--json", "--device", "mock:edu", "--profile", profile,
		image)
	var end outcome
	if err := json.Unmarshal([]byte(stdout), &end); err != nil || exit != 0 || end.Profile == nil ||
		end.Profile.TotalNs != end.MeanNs {
		t.Errorf("lm replay --json: exit status %d, want 0; JSON with a profile of one run wanted "+
			"(error of Unmarshal: %v), stdout: %s", exit, err, stdout)
	}
	exit, stdout, _ = lm(t, "report", "--json", "--sequence", "compute", "--profile", profile,
		image)
	var r struct {
		report.Report
		Profile *report.Profile
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || exit != 0 || r.Profile == nil ||
		r.Profile.Sequence != "main" ||
		r.Counted != "one run of compute, calls included" || r.Windows[0].Written != 4 {
		t.Errorf("lm report --json: exit status %d, want 0; JSON with the profile of main and "+
			"counts of one run of compute wanted (error of Unmarshal: %v), stdout: %s", exit, err,
			stdout)
	}
}

// TestFailedRunIsProfiled: users need the profile of a failed run most.
func TestFailedRunIsProfiled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	image := assemble(t,
		edu+"main:\n  write.4 r+0x4 1\n  expect.4 r+0x0 == 0x010000ee\n  write.4 r+0x4 2\nsafe:\n"+
			"  write.4 r+0x20 0\n")
	_, _, want := lm(t, "replay", "--device", "mock:edu", image)
	exit, stdout, stderr := lm(t, "replay", "--device", "mock:edu", "--profile", path, image)
	if exit != 76 || stdout != "" || stderr != want ||
		!strings.Contains(want, "main, command 1: expect.4 r+0x0 == 0x10000ee: got") {
		t.Errorf("lm replay --profile: exit status %d, want 76; stdout %q, want none; stderr %q, "+
			"want the failed expect as without --profile: %q", exit, stdout, stderr, want)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	profile, err := report.ReadTrace(file)
	if err != nil || len(profile.Timeline[0]) != 2 || profile.Commands != 3 {
		t.Errorf("ReadTrace returns %+v, error %v; want a profile of 3 commands, 2 of main",
			profile, err)
	}
	if f := profile.Failed; f == nil || f.Code != "expect failed" || f.Command != 1 ||
		f.Ns != 200 || f.Got != 0x10000ed || f.Want != 0x10000ee || f.Mask != 1<<32-1 ||
		f.Safe != "done" || "lm: "+f.Reason+"\n" != want {
		t.Errorf("failure in the profile %+v, want expect failed at command 1 after 200 ns, got "+
			"0x10000ed, want 0x10000ee, mask 0xffffffff, safe done, and the reason that lm replay "+
			"prints: %s", f, want)
	}
	text := mustRun(t, "", "report", "--profile", path, image)
	if !strings.Contains(text, "FAILED after 200 ns: expect failed: ") ||
		!strings.Contains(text, "== 0x10000ee: got 0x10000ed (bits that differ: 0, 1)") ||
		strings.Contains(text, "of one run") {
		t.Errorf("lm report must contain that the run FAILED after 200 ns and the bits that "+
			"differ, and not \"of one run\":\n%s", text)
	}
	page := filepath.Join(t.TempDir(), "x.html")
	mustRun(t, "", "report", "--profile", path, "-o", page, image)
	text = string(mustRead(t, page))
	if n := strings.Count(text, "bits that differ"); n != 1 {
		t.Errorf("the page says %d times which bits differ, want once", n)
	}
	for _, want := range []string{"The run failed: expect failed",
		`<a href="#c1">main, command 1</a> <code>expect.4 r&#43;0x0 == 0x10000ee</code>`,
		"<dt>got</dt><dd><code>0x10000ed</code>", "<dt>wanted</dt><dd><code>0x10000ee</code>",
		"<dt>sequence safe</dt><dd>ran: done</dd>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of the failed run lacks the text %q", want)
		}
	}
}

// TestGoldenMismatchIsOnThePage: the page shows how many elements of the output differ.
func TestGoldenMismatchIsOnThePage(t *testing.T) {
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	const a = 500
	decoded, err := lmb.Decode(mustRead(t, image))
	if err != nil {
		t.Fatal(err)
	}
	b, d := decoded.Tensors[1].Data, decoded.Tensors[2].Data
	differ := 0
	for at := 0; at < len(d); at += 4 { // the kernel computes d = max(a + b - 100, 0)
		sum := a + int32(binary.LittleEndian.Uint32(b[at:]))
		if max(sum-100, 0) != int32(binary.LittleEndian.Uint32(d[at:])) {
			differ++
		}
	}
	mismatch := fmt.Sprintf("<dt>output d</dt><dd>%d of 256 differ</dd>", differ)
	for _, test := range []struct {
		name, want string
		flags      []string
		exit       int
	}{
		{"equal", ">equal<", []string{"--check-golden"}, 0},
		{"not compared", ">not compared<", nil, 0},
		{"different", mismatch, []string{"--check-golden", "--input", fmt.Sprint("a=", a)}, 76},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			path, page := filepath.Join(folder, "run.json"), filepath.Join(folder, "x.html")
			args := append([]string{"replay", "--device", "mock:wormhole", "--profile", path,
				image}, test.flags...)
			if exit, _, stderr := lm(t, args...); exit != test.exit {
				t.Fatalf("exit status %d, want %d; stderr: %s", exit, test.exit, stderr)
			}
			mustRun(t, "", "report", "--profile", path, "-o", page, image)
			if text := string(mustRead(t, page)); !strings.Contains(text, test.want) {
				t.Errorf("the page lacks the text %q", test.want)
			}
		})
	}
}

// TestPageNamesTheProgramThatMadeIt checks that a page contains the version of lm and the date.
func TestPageNamesTheProgramThatMadeIt(t *testing.T) {
	page := filepath.Join(t.TempDir(), "x.html")
	mustRun(t, "", "report", "-o", page, filepath.Join(testdata, "images", "edu.lmb"))
	text := string(mustRead(t, page))
	pattern := regexp.QuoteMeta("Report by "+version) +
		`.* on \d+ [A-Z][a-z]+ 20\d\d, \d\d:\d\d UTC`
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("the page has no text that matches %s", pattern)
	}
}

// TestFailureAfterTheRunsIsNoFailedRun: if the sequence of --after fails, the measured runs are
// still complete and count.
func TestFailureAfterTheRunsIsNoFailedRun(t *testing.T) {
	image := assemble(t, edu+"main:\n  write.4 r+0x4 1\nstop:\n  expect.4 r+0x0 == 0x010000ee\n")
	path := filepath.Join(t.TempDir(), "run.json")
	exit, stdout, stderr := lm(t, "replay", "--device", "mock:edu", "--loop", "2", "--after",
		"stop", "--profile", path, image)
	if exit != 76 || stdout != "" ||
		!strings.Contains(stderr, ": stop, command 0: expect.4 r+0x0 == 0x10000ee: got") {
		t.Errorf("lm replay --after stop: exit status %d, want 76; stdout %q, want none; stderr "+
			"%q, want the failed expect of stop", exit, stdout, stderr)
	}
	text := mustRun(t, "", "report", "--profile", path, image)
	if strings.Contains(text, "FAILED") ||
		!strings.Contains(text, ", 2 runs that took 100 ns to 100 ns each") {
		t.Errorf("lm report must contain 2 runs of 100 ns and not FAILED:\n%s", text)
	}
}

// TestVirtualTimeIsLabeled: the time of a mock is a count of accesses, not the time of a device.
func TestVirtualTimeIsLabeled(t *testing.T) {
	folder := t.TempDir()
	profile, page := filepath.Join(folder, "run.json"), filepath.Join(folder, "x.html")
	image := filepath.Join(testdata, "images", "edu.lmb")
	text := mustRun(t, "", "replay", "--device", "mock:edu", "--stats", "--profile", profile, image)
	mustRun(t, "", "report", "--profile", profile, "-o", page, image)
	pageText := string(mustRead(t, page))
	if !strings.Contains(text, "; virtual time ") || !strings.Contains(text, "\nvirtual ") ||
		strings.Contains(text+pageText, "device time") ||
		!strings.Contains(pageText, "<dt>virtual time</dt>") {
		t.Errorf("replay and page must contain virtual time and no device time; replay:\n%s\n"+
			"page:\n%s", text, pageText)
	}
	var end outcome
	text = mustRun(t, "", "replay", "--device", "mock:edu", "--json", image)
	if err := json.Unmarshal([]byte(text), &end); err != nil || !end.Virtual {
		t.Errorf("lm replay --json: %+v, error of Unmarshal: %v; want Virtual to be true", end, err)
	}
}
