package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards/hosts"
	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
)

// TestCheckBoardAndBootimageAgreeWhetherBarsFit checks images with `lm check-board` and with
// bootimage, for every host.
func TestCheckBoardAndBootimageAgreeWhetherBarsFit(t *testing.T) {
	lm := filepath.Join(t.TempDir(), "lm")
	text, err := exec.Command("go", "build", "-o", lm, "lightmetal/tools/lm").CombinedOutput()
	if err != nil {
		t.Fatalf("go build of lm: %v\n%s", err, text)
	}
	const window = "window w bar%d offset 0 size 1MiB\nmain:\n  read.4 w+0x121b0\n"
	image := func(target, bars string, bar int) string {
		rule := ""
		if strings.HasPrefix(target, "x ") {
			rule = fmt.Sprintf("rule all bar%d\n", bar)
		}
		return assembleListing(t, "x.lmb", "lightmetal 1\ntarget "+target+" "+bars+"\n"+rule+
			fmt.Sprintf(window, bar))
	}
	const (
		all       = "qemu-virt rpi5 cm4 imx8mp s32g3 orin-agx orin-nx j721e altra"
		mostHosts = "qemu-virt rpi5 cm4 s32g3 orin-agx orin-nx j721e altra" // imx8mp has 127 MiB
	)
	for _, c := range []struct{ name, path, want string }{
		{"wormhole", image("wormhole 1e52:401e", "bar0 512MiB", 0), mostHosts},
		// The image needs little, but the kernel places all 32 GiB of BAR 4.
		{"blackhole", image("blackhole 1e52:b140", "bar0 512MiB", 0), "qemu-virt altra"},
		{"edu", image("edu 1234:11e8", "bar0 1MiB", 0), all},
		{"unknown, small", image("x 1234:4321", "bar0 1MiB", 0), all},
		{"unknown, large", image("x 1234:4321", "bar0 16GiB", 0), "qemu-virt s32g3 altra"},
		{"unknown, mixed", image("x 1234:4321", "bar0 64MiB bar2 256MiB", 2), mostHosts},
		{"unknown, too large", image("x 1234:4321", "bar0 4096GiB", 0), ""},
	} {
		view, err := fbs.Verify([]byte(readFile(t, c.path)))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fitting := ""
		for _, h := range hosts.All() {
			r := request{board: h}
			rejected := fail.Try(func() { r.checkPortRoom(c.path, view) }) != nil
			if state := checkBoardState(t, lm, h.Name, c.path); (state == "missing") != rejected {
				t.Errorf("%s on %s: check-board reports %q, bootimage rejects: %v", c.name, h.Name,
					state, rejected)
			}
			if !rejected {
				fitting += " " + h.Name
			}
		}
		if fitting = strings.TrimSpace(fitting); fitting != c.want {
			t.Errorf("%s: the BARs fit on hosts %q, want %q", c.name, fitting, c.want)
		}
	}
}

// checkBoardState returns the state that `lm check-board` reports for the BARs of device 0.
func checkBoardState(t *testing.T, lm, board, image string) string {
	t.Helper()
	text, err := exec.Command(lm, "check-board", board, "--image", image, "--json").Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report struct {
		Checks []struct{ Check, State string }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("output of check-board: %v: %s", err, text)
	}
	for _, c := range report.Checks {
		if matched, _ := filepath.Match("device 0, * fits", c.Check); matched {
			return c.State
		}
	}
	t.Fatalf("check-board reports no check \"device 0, ... fits\": %s", text)
	return ""
}
