package importer

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// withMSIX returns a recording of edu whose configuration space has an MSI-X capability behind
// another one: 3 entries from 0x40 of BAR 0 on. Its accesses begin in line 9.
func withMSIX(list ...string) string {
	return recordText(append([]string{"DEVICE 0 1234 11e8 file", "BAR 0 0 0 0 100000",
		"CR 0 34 1 40", "CR 0 40 4 05500000", "CR 0 50 4 11000200", "CR 0 54 4 40000000",
		"CW 0 6 2 ffff"}, list...))
}

func TestEnabledVectorsAreDeclared(t *testing.T) {
	o := Options{From: FromRecord, Board: &boards.Edu}
	for store, want := range map[string]lmb.Device{
		"CW 0 52 2 0280": {Interrupts: gen.InterruptKindMsix, Vectors: 3}, // and cleared below
		"CW 0 42 2 3100": {Interrupts: gen.InterruptKindMsi, Vectors: 8},
		"CW 0 42 2 3000": {},
		"CW 0 52 2 0240": {},
	} {
		image, _ := mustImport(t, withMSIX(store, "CW 0 52 2 0200", "W 0 0 4 01000000"), o)
		if d := image.Devices[0]; d.Interrupts != want.Interrupts || d.Vectors != want.Vectors {
			t.Errorf("%s: %d vectors of kind %d, want %d of kind %d", store, d.Vectors,
				d.Interrupts, want.Vectors, want.Interrupts)
		}
	}
}

func TestStoresToTheMSIXTableOfTheCapabilityAreRejected(t *testing.T) {
	o := Options{From: FromRecord, Board: &boards.Edu}
	const remedies = ": in a replay, the device would store to the interrupt controller of the " +
		"recorded machine; --omit %[1]s leaves out these accesses with what masks the vectors; " +
		"--as-data %[1]s keeps the values"
	// The address of Arm's GIC is in no known range.
	wantError(t, withMSIX("W 0 5c 4 01000000", "W 0 50 4 40000208", "W 0 68 4 11000000",
		"W 0 6c 4 00000000"), o, "line 10: 0x8020040, stored to bar0+0x50, is in the device's "+
		"MSI-X table (BAR 0, 0x40 to 0x6f)"+fmt.Sprintf(remedies, "0x50-0x6f"))
	o.Omit = []Range{mustRange(t, "0x40-0x6f")}
	image, _ := mustImport(t, withMSIX("W 0 5c 4 01000000", "W 0 50 4 40000208",
		"W 0 10 4 01000000"), o)
	checkCommands(t, image, "write bar0+0x10 w4 0x1\n")
}

// Other stores are zeros, the vector control, and what is behind the table.
func TestOtherStoresBesideTheMSIXTableAreImported(t *testing.T) {
	image, report := mustImport(t, withMSIX("W 0 40 4 00000000", "W 0 4c 4 01000000",
		"W 0 70 4 01000000"), Options{From: FromRecord, Board: &boards.Edu})
	checkCommands(t, image, "write bar0+0x40 w4 0x0\nwrite bar0+0x4c w4 0x1\n"+
		"write bar0+0x70 w4 0x1\n")
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0].Text, "configuration") {
		t.Errorf("warnings: %v", report.Warnings)
	}
}

func TestUnknownCapabilitiesShowNoMSIXTable(t *testing.T) {
	for name, config := range map[string][]string{
		"none":      {"CR 0 34 1 00"},
		"a circle":  {"CR 0 34 1 40", "CR 0 40 4 05400000"},
		"cut":       {"CR 0 34 1 40", "CR 0 40 4 11000200"},
		"BAR 7":     {"CR 0 34 1 40", "CR 0 40 8 1100020047000000"},
		"extended":  {"CR 0 34 1 fc", "CR 0 fc 8 1100020040000000"},
		"not shown": {"CR 0 34 1 40"},
	} {
		lines := append([]string{"DEVICE 0 1234 11e8 file", "BAR 0 0 0 0 100000"}, config...)
		_, _, err := Import(strings.NewReader(recordText(append(lines, "W 0 40 4 10000208"))),
			Options{From: FromRecord, Board: &boards.Edu})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
