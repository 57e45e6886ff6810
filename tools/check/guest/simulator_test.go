package main

import (
	"fmt"
	"os"
	"testing"
)

// TestGuestReplaysOnAServedSimulator: every capture and workload, on the
// maker's own simulator where there is one (LM_TTSIM_WH, LM_TTSIM_BH), through
// a real kernel: without and behind an IOMMU, and under the maker's driver.
func TestGuestReplaysOnAServedSimulator(t *testing.T) {
	t.Parallel()
	for i, variable := range []string{"LM_TTSIM_WH", "LM_TTSIM_BH"} {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			library := os.Getenv(variable)
			if library == "" {
				t.Skip("needs the vendor's simulator (" + variable + " is not set)")
			}
			for _, way := range append(onServed, onServedByDriver) {
				t.Run(way.lane, func(t *testing.T) {
					m, console := inside(t, func(m *machine) {
						way.setUp(t, m)
						m.serveTo(t, "ttsim:"+library)
						m.addAll(t, c)
					}, way.lane, fmt.Sprintf("ready %s\ngolden $%[1]s /images/%[1]s/*.lmb\n",
						c.board))
					t.Log(console)
					if m.served != nil {
						t.Error(m.served)
					}
				})
			}
		})
	}
}
