package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/synced"
)

// recordedAccesses returns, as text, the accesses to BAR 0 in the unfinished recording of the file
// trace. It returns an error if there is no recording or it is incomplete.
func recordedAccesses() (list []string, err error) {
	path := unfinishedRecording("trace")
	if path == "" {
		return nil, os.ErrNotExist
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	capture, err := record.Read(bytes.NewReader(data))
	if capture == nil {
		return nil, err
	}
	for _, r := range capture.Records {
		switch r.Kind {
		case record.BarWrite:
			list = append(list, fmt.Sprintf("store %x", r.Data))
		case record.BarRead:
			list = append(list, fmt.Sprintf("load %x", r.Data))
		}
	}
	return list, err
}

// startServer starts lm serve in another process and connects to it.
func startServer(t *testing.T, program string) (server *exec.Cmd, c net.Conn) {
	t.Helper()
	for _, earlier := range []string{"s", "trace"} {
		_ = os.Remove(earlier)
	}
	server = exec.Command(program, "serve", "--device", "mock:edu", "--socket", "s", "--trace",
		"trace", "--sync", "1ms")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < time.Minute; {
		if c, err := net.Dial("unix", "s"); err == nil {
			return server, c
		}
	}
	t.Fatal("the server does not listen after a minute")
	return nil, nil
}

// TestServerThatIsKilledLeavesAPrefixOfWhatTheClientDid kills the server after a random number of
// accesses, 40 times. The recording must have a prefix of the client's accesses, and at least all
// accesses that the file had before.
func TestServerThatIsKilledLeavesAPrefixOfWhatTheClientDid(t *testing.T) {
	effort.SkipShort(t)
	const rounds = 40
	program := buildMain(t, ".")
	t.Chdir(t.TempDir())
	lost := 0
	for seed := range int64(rounds) {
		random := rand.New(rand.NewSource(seed))
		server, c := startServer(t, program)
		var done, before []string
		doAccesses := func(count int) {
			for range count {
				value := binary.LittleEndian.AppendUint32(nil, uint32(random.Int31()))
				accessBAR0(t, c, 4, 4, value...)
				loaded := accessBAR0(t, c, 4, 4)
				done = append(done, fmt.Sprintf("store %x", value), fmt.Sprintf("load %x", loaded))
			}
		}
		doAccesses(1 + random.Intn(300))
		before, _ = recordedAccesses()
		doAccesses(1 + random.Intn(100))
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		c.Close()
		list, err := recordedAccesses()
		if errors.Is(err, os.ErrNotExist) && before == nil {
			err = record.ErrCut // the server was killed before its first sync
		}
		if !errors.Is(err, record.ErrCut) || len(list) < len(before) || len(list) > len(done) ||
			!slices.Equal(list, done[:len(list)]) {
			t.Errorf("seed %d: %d of %d accesses are recorded, at least the first %d must be: %v",
				seed, len(list), len(done), len(before), err)
		}
		lost += len(done) - len(list)
		parts, _ := filepath.Glob(".trace.*.part")
		for _, part := range parts {
			_ = os.Remove(part)
		}
	}
	t.Logf("evidence: killed %d times, %.1f accesses lost on average", rounds,
		float64(lost)/float64(rounds))
}

// TestRecordingThatIsCutAnywhereGetsAClearVerdict cuts a small recording at each byte. The error
// must say what is missing, and --incomplete must import the rest.
func TestRecordingThatIsCutAnywhereGetsAClearVerdict(t *testing.T) {
	var recording bytes.Buffer
	w := synced.NewWriter(&recording, time.Hour, nil)
	fmt.Fprint(w, "LMRECORD 2\nDEVICE 0 1234 11e8 file\nBAR 0 0 0 0 100000\n"+
		"CLK 2000\nW 0 4 4 78563412\nR 0 4 4 87a9cbed\nEND 5\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	imported := 0
	for cut := range recording.Len() + 1 {
		if err := os.WriteFile("cut.record", recording.Bytes()[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"import", "--from", "record", "cut.record", "-o", "cut.lmb"}
		exit, _, errorText := lm(t, args...)
		if cut == recording.Len() {
			if exit != 0 {
				t.Errorf("complete recording: exit status %d, want 0; %s", exit, errorText)
			}
			continue
		}
		known := (strings.Contains(errorText, "has no END line") ||
			strings.Contains(errorText, "after the END line: the compressed text is cut")) &&
			strings.Contains(errorText, "--incomplete imports what was recorded") ||
			strings.Contains(errorText, "the recording has no mapping of a device: record again") ||
			strings.Contains(errorText, "the recording is empty") ||
			strings.Contains(errorText, "the recording ends in its header")
		if exit != 65 || !known {
			t.Errorf("cut at byte %d: exit status %d, want 65 and a known reason; %s", cut, exit,
				errorText)
		}
		exit, output, errorText := lm(t, append(args, "--incomplete")...)
		switch {
		case exit == 0 && (strings.Contains(output, "2µs, without an END line") ||
			strings.Contains(output, "nothing is missing")):
			imported++
		case exit != 65:
			t.Errorf("cut at byte %d, --incomplete: exit status %d, want 0 or 65; %s", cut, exit,
				output+errorText)
		}
	}
	if imported == 0 {
		t.Error("--incomplete imported none of the cut recordings")
	}
}
