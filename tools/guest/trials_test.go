package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// trial skips what takes minutes.
func trial(t *testing.T) {
	t.Helper()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("trials of minutes: ./build.sh record-trials")
	}
}

// TestRecordedTrialsOfMemtool, Debian's, which maps its resource to read only, or
// physical memory: on registers of edu and of the NVMe controller. What is
// imported of what it reads last, edu's identification, holds on the mock.
func TestRecordedTrialsOfMemtool(t *testing.T) {
	trial(t)
	for name, runs := range map[string][]string{
		"edu":  {"mw -l ADDRESS+4 0x12345678", "md -l ADDRESS+8", "mw -l -d PATH 4 0x9abcdef0", "md -l -s PATH 0+8", "mw -q -d PATH 0x80 0x1122334455667788", "md -q -s PATH 0x80+8", "md -l ADDRESS+4"},
		"nvme": {"md -q ADDRESS+8", "md -l -s PATH 0+64", "mw -l ADDRESS+0x24 0x000f000f", "md -w -s PATH 0x24+4"},
	} {
		t.Run(name, func(t *testing.T) {
			of := map[string]region{"edu": edu, "nvme": nvmeBar}[name]
			file, _ := recordedIn(t, of, "resource0", func(m *machine) { m.addDebian(t, "/usr/bin/memtool") },
				strings.ReplaceAll("/usr/bin/memtool "+strings.Join(runs, "\n\n/usr/bin/memtool "), " ", "\n"))
			if name == "nvme" {
				return
			}
			path, _ := made(t, "import", "--from", "record", saved(t, file))
			if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu", path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
