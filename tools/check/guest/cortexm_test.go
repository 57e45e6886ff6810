package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCortexMReplaysThroughHooks boots the firmware of testdata/firmware/cortex-m: 32 bits, no C
// library, the device behind the hooks of the player.
func TestCortexMReplaysThroughHooks(t *testing.T) {
	t.Parallel()
	folder := fromEnv(t, "LM_GUEST_CORTEX_M")
	machines, err := exec.Command("qemu-system-arm", "-M", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(machines), "\nmps2-an385 ") {
		t.Skip("this qemu-system-arm has no machine mps2-an385")
	}
	for _, test := range []struct {
		program string
		exit    int
		printed string
	}{
		{"edu-factorial", 0, "result: 479001600\ncode 0, command 0: main\n"},
		{"edu-dma", 0, "code 0, command 0: main\n"},
		// Without hooks, the first of the 8-byte accesses is refused when the image is loaded.
		{"mapped", 78, "code 13, command 5: this processor cannot make accesses of 8 bytes\n"},
	} {
		t.Run(test.program, func(t *testing.T) {
			qemu := exec.Command("qemu-system-arm", "-M", "mps2-an385", "-nographic", "-kernel",
				filepath.Join(folder, test.program+".elf"), "-semihosting-config",
				"enable=on,target=native")
			stop := time.AfterFunc(10*time.Minute, func() { qemu.Process.Kill() })
			defer stop.Stop()
			printed, err := qemu.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if status := qemu.ProcessState.ExitCode(); status != test.exit ||
				!strings.Contains(strings.ReplaceAll(string(printed), "\r", ""), test.printed) {
				t.Errorf("the firmware ends with %d and prints %q, want %d and %q", status,
					printed, test.exit, test.printed)
			}
		})
	}
}
