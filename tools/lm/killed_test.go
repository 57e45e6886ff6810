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
	"lightmetal/tools/image/synced"
)

// servedAccesses returns what the recording that a server was writing to the file trace has of
// BAR 0, as text, and an error if nothing is there or it cannot be read.
func servedAccesses() (list []string, err error) {
	left := unfinishedRecording("trace")
	if left == "" {
		return nil, os.ErrNotExist
	}
	data, err := os.ReadFile(left)
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

// startServer starts lm serve in another process, and connects to it.
func startServer(t *testing.T, program string) (server *exec.Cmd, c net.Conn) {
	t.Helper()
	for _, left := range []string{"s", "trace"} {
		_ = os.Remove(left)
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

// TestServerThatIsKilledLeavesAPrefixOfWhatTheClientDid, and all that was in the file before:
// after a random number of accesses, 200 times.
func TestServerThatIsKilledLeavesAPrefixOfWhatTheClientDid(t *testing.T) {
	program, rounds := built(t, "."), 200
	if testing.Short() {
		rounds = 20
	}
	t.Chdir(t.TempDir())
	lost := 0
	for seed := range int64(rounds) {
		random := rand.New(rand.NewSource(seed))
		server, c := startServer(t, program)
		var made, before []string
		some := func(count int) {
			for range count {
				value := binary.LittleEndian.AppendUint32(nil, uint32(random.Int31()))
				access(t, c, 4, 4, value...)
				loaded := access(t, c, 4, 4)
				made = append(made, fmt.Sprintf("store %x", value), fmt.Sprintf("load %x", loaded))
			}
		}
		some(1 + random.Intn(300))
		before, _ = servedAccesses()
		some(1 + random.Intn(100))
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		c.Close()
		list, err := servedAccesses()
		if errors.Is(err, os.ErrNotExist) && before == nil {
			err = record.ErrCut // it was killed before its first sync
		}
		if !errors.Is(err, record.ErrCut) || len(list) < len(before) || len(list) > len(made) ||
			!slices.Equal(list, made[:len(list)]) {
			t.Errorf("seed %d: %d accesses are recorded of %d, %d were before: %v", seed,
				len(list), len(made), len(before), err)
		}
		lost += len(made) - len(list)
		parts, _ := filepath.Glob(".trace.*.part")
		for _, part := range parts {
			_ = os.Remove(part)
		}
	}
	t.Logf("evidence: killed %d times, %.1f accesses lost on average", rounds,
		float64(lost)/float64(rounds))
}

// TestRecordingThatIsCutAnywhereGetsAClearVerdict: at each byte of a small one. The verdict says
// what is missing, and --incomplete imports the rest.
func TestRecordingThatIsCutAnywhereGetsAClearVerdict(t *testing.T) {
	var whole bytes.Buffer
	w := synced.NewWriter(&whole, time.Hour, nil)
	fmt.Fprint(w, "LMRECORD 2\nDEVICE 0 1234 11e8 file\nBAR 0 0 0 0 100000\n"+
		"CLK 2000\nW 0 4 4 78563412\nR 0 4 4 87a9cbed\nEND 5\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	imported := 0
	for cut := range whole.Len() + 1 {
		if err := os.WriteFile("cut.record", whole.Bytes()[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"import", "--from", "record", "cut.record", "-o", "cut.lmb"}
		exit, _, refused := lm(t, args...)
		if cut == whole.Len() {
			if exit != 0 {
				t.Errorf("whole: exit %d: %s", exit, refused)
			}
			continue
		}
		known := (strings.Contains(refused, "has no END line") ||
			strings.Contains(refused, "after the END line: the compressed text is cut")) &&
			strings.Contains(refused, "--incomplete imports what was recorded") ||
			strings.Contains(refused, "the recording has no mapping of a device: record again") ||
			strings.Contains(refused, "the recording is empty") ||
			strings.Contains(refused, "the recording ends in its header")
		if exit != 65 || !known {
			t.Errorf("cut at %d: exit %d: %s", cut, exit, refused)
		}
		exit, said, refused := lm(t, append(args, "--incomplete")...)
		switch {
		case exit == 0 && (strings.Contains(said, "2µs, without an END line") ||
			strings.Contains(said, "nothing is missing")):
			imported++
		case exit != 65:
			t.Errorf("cut at %d: exit %d: %s", cut, exit, said+refused)
		}
	}
	if imported == 0 {
		t.Error("no cut is imported with --incomplete")
	}
}

// TestUnfinishedRecordingIsNamed if its final name is not there.
func TestUnfinishedRecordingIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{".run.record.0.part": "", ".run.record.1.part": "x",
		".other.record.2.part": "x"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exit, _, refused := lm(t, "import", "run.record", "-o", "run.lmb")
	if exit != 66 || !strings.Contains(refused, "lm import --incomplete .run.record.1.part") {
		t.Errorf("exit %d: %s", exit, refused)
	}
	exit, _, refused = lm(t, "import", "none.record", "-o", "run.lmb")
	if exit != 66 || strings.Contains(refused, "--incomplete") {
		t.Errorf("exit %d: %s", exit, refused)
	}
}

// TestSyncIsAnInterval of both commands that write recordings.
func TestSyncIsAnInterval(t *testing.T) {
	for _, args := range [][]string{
		{"record", "--sync", "0", "-o", "x.record", "--", "true"},
		{"serve", "--sync", "1us", "--device", "mock:edu", "--socket", "s"},
	} {
		exit, _, refused := lm(t, args...)
		if exit != 64 || !strings.Contains(refused, "--sync must be at least 1ms") {
			t.Errorf("%q: exit %d: %s", args, exit, refused)
		}
	}
}
