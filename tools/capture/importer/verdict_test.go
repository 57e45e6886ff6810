package importer

import (
	"testing"

	"lightmetal/boards"
)

// TestVerdictCountsWhatTheTraceShowsOfEachRegister has registers with one value, with several, and
// with a single load; ignored loads, memory, and waits.
func TestVerdictCountsWhatTheTraceShowsOfEachRegister(t *testing.T) {
	text := recordText([]string{"DEVICE 0 1af4 1110 a", "BAR 0 0 0 0 100", "BAR 1 0 2 0 400000",
		"R 0 8 4 01000000", "R 0 8 4 01000000", "W 0 c 4 01000000", "R 0 8 4 01000000",
		"R 0 0 4 01000000", "W 0 c 4 01000000", "R 0 0 4 02000000",
		"R 0 4 4 01000000", "R 0 10 4 01000000",
		"RS 1 4 0 16 00000000000000000000000000000000", "W 0 c 4 01000000", "R 1 40 4 00000000",
		"IRQ 0 0", "R 0 14 4 01000000", "W 0 c 4 01000000", "R 0 14 4 01000000"})
	o := Options{From: FromRecord, Board: &boards.Ivshmem, Ignore: []Range{mustRange(t, "0x10")}}
	_, report := mustImport(t, text, o)
	const want = "8 expects: 3 on registers that never changed, 2 on registers that changed, " +
		"3 on registers seen once; 1 compare of memory; 1 value ignored; " +
		"1 wait (1 behind interrupts)"
	if report.Verdict != want {
		t.Errorf("got  %s\nwant %s", report.Verdict, want)
	}
	o.Without = []string{"expect"}
	_, report = mustImport(t, text, o)
	if want := "13 values ignored; 1 wait (1 behind interrupts)"; report.Verdict != want {
		t.Errorf("without expect: got  %s\nwant %s", report.Verdict, want)
	}
}
