package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/tools/capture/record"
)

// TestRecordedClientOfTheVendorsLibrary: a program on tt-umd (LM_TTUMD=PROGRAM,
// static, for arm64) does by Tenstorrent's driver what it does, under the
// recorder and without it. The record is what reached the device, and what is
// imported of it replays without the driver, which sets no static virtual channel
// where the library has done so by itself.
func TestRecordedClientOfTheVendorsLibrary(t *testing.T) {
	t.Parallel()
	program := os.Getenv("LM_TTUMD")
	if program == "" {
		t.Skip("needs a program on tt-umd, static, for arm64 (LM_TTUMD is not set); " +
			"tools/capture/recorder/README.md tells how one is built")
	}
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		withRecorder(t, m)
		m.add(t, "/client", program)
	}, func(*card) string {
		return "ready\nfolders /dev/shm\nrecord /client\nrun 0 \"\" /client\n"
	},
		func(t *testing.T, m *machine, c *card, console string) {
			records, file := recordsOf(t, console)
			trace, n := m.clientsOwn(t, c), accessesTo(records, 0)
			if n >= len(trace) {
				t.Fatalf("%d accesses recorded; %d reached the device with and without the "+
					"recorder", n, len(trace))
			}
			equalToTrace(t, records, region{bar: 0}, trace[:n])
			t.Logf("evidence: %d accesses without the recorder", len(trace)-n)
			// The scratch register has the last message, which was the driver's.
			path, image := made(t, "import", "--from", "record", "--ignore",
				"0x1ff30074-0x1ff30077", saved(t, file))
			t.Logf("evidence: %d commands", len(image.Sequences[0].Commands))
			again, _ := inside(t, func(m *machine) {
				m.serveTo(t, "mock:"+c.board)
				m.add(t, "/images/client.lmb", path)
			}, "pci", "golden $"+c.board+" /images/client.lmb\n")
			if again.served != nil {
				t.Error(again.served)
			}
		})
}

// clientsOwn gives what reached BAR 0 of the served chip and was not the
// driver's: that has a window for itself, on Wormhole all else in BAR 4, and on
// Blackhole asks once, before there is a client, who the PCIe tile is.
func (m *machine) clientsOwn(t *testing.T, c *card) []access {
	t.Helper()
	log, err := os.ReadFile(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseServed(bytes.NewReader(log), servedRegion(m.sockets[0], 0))
	if err != nil {
		t.Fatal(err)
	}
	l := chips.BoardByName(c.board).TLB
	all = slices.DeleteFunc(all, func(a access) bool {
		slot, _, ok := chips.SlotAt(l, 0, a.offset)
		if !ok {
			slot, _, ok = chips.SlotOfRegister(l, 0, a.offset)
		}
		return ok && l.GroupOf(slot).IsOwnedByKernel(slot)
	})
	const nodeID = 0x1fd04044
	if c.board == "blackhole" && len(all) > 0 && all[0].offset == nodeID {
		all = all[1:]
	}
	return all
}

// accessesTo is how many accesses to a BAR are in a record, all of them aligned.
func accessesTo(records []record.Record, bar uint8) (n int) {
	for i := range records {
		if r := &records[i]; (r.Kind == record.BarRead || r.Kind == record.BarWrite) &&
			r.Bar == bar {
			n++
		}
	}
	return n
}
