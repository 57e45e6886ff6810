package main

import (
	"strings"
	"testing"
)

// TestVerifyWarnsOfChannelsThatTheDriverCannotSelect: any channel on a Wormhole, every channel
// except 0 on a Blackhole. The tests in guests show that the backend tt rejects the same points.
func TestVerifyWarnsOfChannelsThatTheDriverCannotSelect(t *testing.T) {
	const wormhole = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n" +
		"window t tlb size 1MiB\nmain:\n  point t tile 1,1 address 0x0\n"
	const blackhole = "lightmetal 1\ntarget blackhole 1e52:b140 bar0 512MiB\n" +
		"window t tlb size 2MiB\nmain:\n  point t tile 1,2 address 0x0\n"
	const cannot = "lm: warning: device 0: the backend tt rejects the image, " +
		"because tt-kmd cannot select the static virtual channel (vc) of "
	for source, want := range map[string]string{
		wormhole: "",
		wormhole + "  point t tile 1,1 address 0x0 vc 0\n": cannot +
			"1 point command; the first is command 1 of main\n",
		wormhole + "next:\n  point t tile 1,1 address 0x0 vc 0\n" +
			"  point t tile 2,2 address 0x0 vc 0\n": cannot +
			"2 point commands; the first is command 0 of next\n",
		blackhole + "  point t tile 1,2 address 0x0 vc 0\n": "",
		blackhole + "  point t tile 1,2 address 0x0 vc 1\n": cannot +
			"1 point command; the first is command 1 of main\n",
	} {
		image := assembleToFile(t, source+safeSequence)
		exit, stdout, stderr := lm(t, "verify", image)
		if exit != 0 || stderr != want || !strings.Contains(stdout, "valid") {
			t.Errorf("%s: exit status %d, stderr %q, want 0 and %q", source, exit, stderr, want)
		}
	}
}
