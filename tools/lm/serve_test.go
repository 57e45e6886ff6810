package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/devices/vfiouser"
)

// Without this interface, lm serve would serve the simulator without DMA.
var _ vfiouser.BusMaster = (*ttsim.Device)(nil)

// runServer runs lm serve, connects a client to it, and returns the exit status and the standard
// error.
func runServer(t *testing.T, client func(net.Conn), args ...string) (exit int, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir()) // its absolute path may be too long for a socket
	const socket = "s"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, _, stderr = lm(t, append([]string{"serve", "--socket", socket}, args...)...)
	}()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			client(c)
			c.Close()
			<-ended
			return exit, stderr
		}
		select {
		case <-ended:
			return exit, stderr
		case <-time.After(time.Millisecond): // it does not listen yet
		}
	}
}

// accessBAR0 sends a vfio-user request to BAR 0: a store if store has data, else a load. It returns
// the loaded data.
func accessBAR0(t *testing.T, c net.Conn, offset uint64, width uint32,
	store ...byte) (loaded []byte) {
	t.Helper()
	return accessRegion(t, c, 0, offset, width, store...)
}

// accessRegion is accessBAR0 for any region: 0 to 5 are BARs, 7 is configuration space.
func accessRegion(t *testing.T, c net.Conn, region uint32, offset uint64, width uint32,
	store ...byte) (loaded []byte) {
	t.Helper()
	le := binary.LittleEndian
	command := uint16(9) // REGION_READ
	if store != nil {
		command = 10 // REGION_WRITE
	}
	m := le.AppendUint16(le.AppendUint16(nil, 1), command)
	m = le.AppendUint32(m, uint32(32+len(store)))
	m = append(m, make([]byte, 8)...)
	m = le.AppendUint32(le.AppendUint32(le.AppendUint64(m, offset), region), width)
	if _, err := c.Write(append(m, store...)); err != nil {
		t.Error(err)
		return nil
	}
	reply := make([]byte, 32)
	if store == nil {
		reply = make([]byte, 32+width)
	}
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Error(err)
	}
	return reply[32:]
}

// TestServerExitStatusReportsTheSession: 0 if the client leaves, 70 if an access was rejected or is
// missing, 74 after an invalid message. The reason is printed.
func TestServerExitStatusReportsTheSession(t *testing.T) {
	image := assemble(t, edu+"main:\n  write.4 r+0x4 0x12345678\n  expect.4 r+0x4 == 0xedcba987\n")
	other := assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x1\n")
	doAccesses := func(c net.Conn) {
		accessBAR0(t, c, 4, 4, 0x78, 0x56, 0x34, 0x12)
		if got := accessBAR0(t, c, 4, 4); string(got) != "\x87\xa9\xcb\xed" {
			t.Errorf("loaded % x, want 87 a9 cb ed", got)
		}
	}
	nothing := func(net.Conn) {}
	for _, test := range []struct {
		device string
		client func(net.Conn)
		exit   int
		want   string
	}{
		{"mock:edu", nothing, 0, "mock:edu listens on "},
		{"mock:edu", func(c net.Conn) {
			if got := accessBAR0(t, c, 0, 1); got[0] != 0xff {
				t.Errorf("loaded % x, want ff", got)
			}
		}, 70, "load of 1 bytes at BAR 0 + 0x0: device rejected the access"},
		{"mock:edu", func(c net.Conn) { _, _ = c.Write(make([]byte, 16)); _, _ = io.ReadAll(c) },
			74, "invalid vfio-user request: the message with command 0 has 0 bytes, but must " +
				"have 16 to"},
		{"playback:" + image, doAccesses, 0, "listens on "},
		{"playback:" + image, func(c net.Conn) { doAccesses(c); accessBAR0(t, c, 4, 4) }, 70,
			"expected no access after the 2 recorded accesses"},
		{"playback:" + image, nothing, 70,
			"the client disconnected, but 2 recorded accesses were still expected"},
		{"playback:" + other, nothing, 76,
			"main, command 0: expect.4 r+0x0 == 0x1: got 0x10000ed"},
		{"playback:none.lmb", nothing, 66, "none.lmb"},
		{"pci:1234:11e8", nothing, 64, "pci:1234:11e8 cannot be served"},
		{"mock:none", nothing, 64, "no board \"none\""},
		{"ttsim:/none.so", nothing, 69, "the file of the simulator library does not exist"},
	} {
		exit, stderr := runServer(t, test.client, "--device", test.device)
		if exit != test.exit || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit status %d, want %d with %q; stderr:\n%s", test.device, exit,
				test.exit, test.want, stderr)
		}
	}
}

// TestPlaybackExpectsEveryLoadExceptThoseOfPolls: equal loads outside of a poll are all expected,
// before and after the poll, and between pauses. Of the loads of a poll itself, 16 are expected at
// most.
func TestPlaybackExpectsEveryLoadExceptThoseOfPolls(t *testing.T) {
	expects := strings.Repeat("  expect.4 r+0x0 == 0x10000ed\n", 40)
	paced := strings.ReplaceAll(expects, "  expect", "  delay 1us\n  expect")
	image := assemble(t, edu+"main:\n"+expects+"  poll.4 r+0x0 == 0x10000ed within 1ms\n"+expects+
		paced)
	if exit, _, stderr := lm(t, "replay", "--device", "playback:"+image, image); exit != 0 {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	const poll = "  write.4 r+0x8 10\n  poll.4 r+0x20 & 0x1 == 0x0 within 1s\n"
	waits := openPlayback(assemble(t, edu+"main:\n"+poll))
	if n := waits.RemainingAccesses(); n < 3 || n > 1+16+1 {
		t.Errorf("%d accesses are expected for a store and a poll, want 3 to 18", n)
	}
}

// TestTraceOfAServerIsOneFile: the file is a complete recording, and no other file is left next to
// it.
func TestTraceOfAServerIsOneFile(t *testing.T) {
	folder := t.TempDir()
	trace := filepath.Join(folder, "edu.record")
	store := func(c net.Conn) { accessBAR0(t, c, 4, 4, 0x78, 0x56, 0x34, 0x12) }
	exit, stderr := runServer(t, store, "--device", "mock:edu", "--trace", trace)
	list, err := os.ReadDir(folder)
	if exit != 0 || err != nil || len(list) != 1 {
		t.Fatalf("exit status %d, want 0; %d files, %v: %s", exit, len(list), err, stderr)
	}
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(record.NewTextReader(file))
	if want := "W 0 4 4 78563412\nEND 4\n"; err != nil ||
		!strings.HasPrefix(string(text), "LMRECORD 2\nDEVICE 0 1234 11e8 served\n") ||
		!strings.HasSuffix(string(text), want) {
		t.Errorf("error %v, want a complete recording that ends in %q:\n%s", err, want, text)
	}
}

// TestServedDeviceHangsFromTheGivenAccess until a reset. The exit status is 0: a hanging device
// does not reject accesses.
func TestServedDeviceHangsFromTheGivenAccess(t *testing.T) {
	const id, ones = "\xed\x00\x00\x01", "\xff\xff\xff\xff"
	for fault, want := range map[string][3]string{
		"wedged-until=bus": {ones, ones, ones}, "wedged-until=flr@2": {id, ones, ones},
	} {
		exit, stderr := runServer(t, func(c net.Conn) {
			for i, want := range want {
				if got := string(accessRegion(t, c, 0, 0, 4)); got != want {
					t.Errorf("%s: load %d returns % x, want % x", fault, i+1, got, want)
				}
			}
		}, "--device", "mock:edu", "--fault", fault)
		if exit != 0 {
			t.Errorf("%s: exit status %d, want 0; %s", fault, exit, stderr)
		}
	}
}

// TestServerThatDoesNotStartKeepsTheEarlierRecording: neither the file of --trace nor its directory
// changes before the server listens.
func TestServerThatDoesNotStartKeepsTheEarlierRecording(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, args := range map[string][]string{
		"no folder for the socket": {"--device", "mock:edu", "--socket", "none/s"},
		"another file there":       {"--device", "mock:edu", "--socket", "trace"},
		"no such device":           {"--device", "mock:none", "--socket", "s"},
		"no image":                 {"--device", "playback:none.lmb", "--socket", "s"},
	} {
		if err := os.WriteFile("trace", []byte("earlier"), 0o644); err != nil {
			t.Fatal(err)
		}
		exit, _, stderr := lm(t, append([]string{"serve", "--trace", "trace"}, args...)...)
		text, err := os.ReadFile("trace")
		list, _ := os.ReadDir(".")
		if exit == 0 || err != nil || string(text) != "earlier" || len(list) != 1 {
			t.Errorf("%s: exit status %d, %d files, the recording is %q (%v): %s", name, exit,
				len(list), text, err, stderr)
		}
	}
}

// TestSubsystemOfABoardIsServed: configuration space has the subsystem ids of the board file or
// image, or the device's own ids if there are none.
func TestSubsystemOfABoardIsServed(t *testing.T) {
	const rest = "bar0 4KiB\nrule regs bar0\nwindow r bar0 offset 0 size 4KiB\nmain:\n  write.4 " +
		"r+0x0 0x0\n"
	const head = "lightmetal 1\ntarget acme abcd:0001 "
	named := assemble(t, head+"subsystem 1234:5678 "+rest)
	for device, want := range map[string]string{
		"mock:" + named:                  "\x34\x12\x78\x56",
		"playback:" + named:              "\x34\x12\x78\x56",
		"mock:" + assemble(t, head+rest): "\xcd\xab\x01\x00",
		"mock:edu":                       "\x34\x12\xe8\x11",
	} {
		_, stderr := runServer(t, func(c net.Conn) {
			if got := string(accessRegion(t, c, 7, 0x2c, 4)); got != want {
				t.Errorf("%s: subsystem % x, want % x", device, got, want)
			}
		}, "--device", device)
		if !strings.Contains(stderr, "listens on") {
			t.Errorf("lm serve --device %s does not listen: %s", device, stderr)
		}
	}
}

// TestLateSignalDoesNotReplaceTheStatus sends SIGTERM after the client has left and the server has
// ended. The exit status stays that of the session.
func TestLateSignalDoesNotReplaceTheStatus(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	c := exec.Command(self, "serve", "--device", "mock:edu", "--socket", "s")
	c.Env = append(os.Environ(), lateSignalVariable+"=1")
	messages, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 256) // the line that the server prints when it listens
	if _, err := messages.Read(line); err != nil {
		t.Error(err)
	}
	if client, err := net.Dial("unix", "s"); err != nil {
		t.Error(err)
		_ = c.Process.Kill()
	} else {
		client.Close()
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
