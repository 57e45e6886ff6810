package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"lightmetal/boards/chips"
)

// TestProgramOnTheVendorsLibraryIsRecorded runs a program that uses tt-umd and Tenstorrent's
// driver, under the recorder and without it. LM_TTUMD names the program, which must be static and
// for arm64. The record must have the accesses that reached the device. The imported image is
// replayed without the driver, because the library sets static virtual channels, which the driver
// does not.
func TestProgramOnTheVendorsLibraryIsRecorded(t *testing.T) {
	t.Parallel()
	program, driver := os.Getenv("LM_TTUMD"), os.Getenv("LM_TTKMD")
	if program == "" || driver == "" {
		t.Skip("needs Tenstorrent's driver and a program on tt-umd, static, for arm64 (LM_TTKMD " +
			"or LM_TTUMD is not set); tools/capture/recorder/README.md says how to build one")
	}
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board, func(t *testing.T) {
			m, console := runInside(t, func(m *machine) {
				m.kernel = fromEnv(t, "LM_GUEST_FULL_KERNEL")
				m.addFile(t, "/modules/tenstorrent.ko", driver)
				m.addServed(t, "mock:"+board)
				addRecorder(t, m)
				m.addFile(t, "/client", program)
			}, "tt", "ready\nfolders /dev/shm\nrecord /client\nrun 0 \"\" /client\n")
			if m.serversErr != nil {
				t.Error(m.serversErr)
			}
			records, file := recordsOnConsole(t, console)
			trace := m.accessesOfClient(t, board)
			count, err := countEqualAccesses(records, region{}, trace)
			if err != nil || count >= len(trace) {
				t.Fatalf("%d accesses recorded; %d reached the device with and without the "+
					"recorder; %v", count, len(trace), err)
			}
			// Ignore the scratch register: it has a message of the driver.
			path, image := makeImage(t, "import", "--from", "record", "--ignore",
				"0x1ff30074-0x1ff30077", writeTempImage(t, file))
			t.Logf("evidence: %d commands", len(image.Sequences[0].Commands))
			replayMachine, _ := runInside(t, func(m *machine) {
				m.addServed(t, "mock:"+board)
				m.addFile(t, "/images/client.lmb", path)
			}, "pci", "golden $"+board+" /images/client.lmb\n")
			if replayMachine.serversErr != nil {
				t.Error(replayMachine.serversErr)
			}
		})
	}
}

// accessesOfClient returns the accesses to BAR 0 of the served chip that the driver did not make.
// The driver accesses a TLB window that it reserves, and on Wormhole otherwise only BAR 4. On
// Blackhole it also reads the id of the PCIe tile once, before the client starts.
func (m *machine) accessesOfClient(t *testing.T, board string) []access {
	t.Helper()
	log, err := os.ReadFile(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseServedTrace(bytes.NewReader(log), servedRegionName(m.socketPaths[0], 0))
	if err != nil {
		t.Fatal(err)
	}
	l := chips.BoardByName(board).TLB
	all = slices.DeleteFunc(all, func(a access) bool {
		slot, _, ok := chips.SlotAt(l, 0, a.offset)
		if !ok {
			slot, _, ok = chips.SlotOfRegister(l, 0, a.offset)
		}
		return ok && l.GroupOf(slot).IsOwnedByKernel(slot)
	})
	const nodeID = 0x1fd04044
	if board == "blackhole" && len(all) > 0 && all[0].offset == nodeID {
		all = all[1:]
	}
	return all
}
