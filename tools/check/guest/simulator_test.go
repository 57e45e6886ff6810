package main

import (
	"fmt"
	"os"
	"testing"
)

// TestGuestReplaysOnAServedSimulator replays every capture and workload in a guest, on the vendor's
// simulator of each chip, which is served as a device. The simulator is named by LM_TTSIM_WH or
// LM_TTSIM_BH. The test uses each backend: without and behind an IOMMU, and with the vendor's
// driver.
func TestGuestReplaysOnAServedSimulator(t *testing.T) {
	t.Parallel()
	for i, variable := range []string{"LM_TTSIM_WH", "LM_TTSIM_BH"} {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			library := os.Getenv(variable)
			if library == "" {
				t.Skip("needs the vendor's simulator (" + variable + " is not set)")
			}
			for _, backend := range append(servedBackends, vendorDriverBackend) {
				t.Run(backend.name, func(t *testing.T) {
					m, console := runInside(t, func(m *machine) {
						backend.setUp(t, m)
						m.addServed(t, "ttsim:"+library)
						m.addAllImages(t, c)
					}, backend.name, fmt.Sprintf("ready %s\ngolden $%[1]s /images/%[1]s/*.lmb\n",
						c.board))
					t.Log(console)
					if m.serversErr != nil {
						t.Error(m.serversErr)
					}
				})
			}
		})
	}
}
