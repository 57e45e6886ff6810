package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// networkCard is a network card of QEMU's, and DPDK's driver of it.
type networkCard struct {
	of             region
	device, plugin string
	uio            bool     // it is not behind an IOMMU
	rings          []string // testpmd's options for its queues
	// registers that give something else where the link comes up sooner or later
	ignore []string
	rules  []string
}

var (
	// shortRings hold two bursts.
	shortRings = []string{"--txd=64", "--rxd=64"}
	// ofLink are CTRL and STATUS, MDIC and ICR of Intel's 8254x and 8257x.
	ofLink = []string{"0x0-0xb", "0x20-0x23", "0xc0-0xc3"}
)

var (
	e1000 = networkCard{of: region{"e1000-mmio", 0x8086, 0x100e, 0, 128 << 10}, device: "e1000",
		plugin: "net_e1000", rings: shortRings, ignore: ofLink}
	e1000e = networkCard{of: region{"e1000e-mmio", 0x8086, 0x10d3, 0, 128 << 10}, device: "e1000e",
		plugin: "net_e1000", rings: shortRings, ignore: ofLink}
	vmxnet3 = networkCard{of: region{"vmxnet3-b1", 0x15ad, 0x07b0, 1, 4 << 10}, device: "vmxnet3",
		plugin: "net_vmxnet3"}
	virtio = networkCard{of: region{"virtio-pci-*", 0x1af4, 0x1041, 4, 16 << 10},
		plugin: "net_virtio",
		device: "virtio-net-pci,iommu_platform=on,disable-legacy=on,ioeventfd=off",
		rules: []string{"4+0x14..0x16=1", "4+0x10..0x14=2", "4+0x16..0x20=2", "4+0x2000..0x2006=1",
			"4+0x2006..0x2010=1,2", "4+0x3000..0x4000=2"}}
)

// TestPacketsOfDPDKAreRecorded on a card with registers, and on one whose
// accesses are of 1, 2 and 4 bytes.
func TestPacketsOfDPDKAreRecorded(t *testing.T) {
	t.Parallel()
	packets(t, e1000e)
	packets(t, virtio)
}

// packets has DPDK's testpmd send some by a device of QEMU's. The record is
// imported for a device that no board has. Host memory is followed: a replay on
// QEMU's device sends the packets too.
func packets(t *testing.T, card networkCard) {
	name, _, _ := strings.Cut(card.device, ",")
	way := "vfio"
	if card.uio {
		name, way = name+" by UIO", "uio_pci_generic"
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		sent := filepath.Join(t.TempDir(), "sent")
		// In pages of 4 KiB, of which this kernel tells who writes them.
		memory := []string{"--no-huge", "-m", "24"}
		if card.uio { // by physical addresses, which huge pages have
			memory = []string{"-m", "8"}
		}
		arguments := slices.Concat([]string{"--host-memory", "32M", "--", "/usr/bin/dpdk-testpmd",
			"-l", "0,1", "-n", "1"}, memory,
			[]string{"--no-telemetry", "--", "-i", "--cmdline-file=/commands",
				"--total-num-mbufs=1088"}, card.rings)
		file, _ := recordedIn(t, card.of, way, func(m *machine) {
			if !card.uio {
				m.virt = iommu
			}
			// The kernel's own driver would leave accesses in the trace.
			m.kernel, m.kernelArgs = tool(t, "LM_GUEST_NEW_KERNEL"),
				" hugepages=64 initcall_blacklist=virtio_pci_driver_init"
			m.plug(card, sent)
			m.addModules(t, "LM_GUEST_NEW_MODULES")
			m.addDebian(t, "/usr/bin/dpdk-testpmd", "/lib/aarch64-linux-gnu/libgcc_s.so.1")
			for _, plugin := range []string{card.plugin, "mempool_ring"} {
				m.addPlugins(t, libraries+"/dpdk/pmds-23.0/librte_"+plugin+".so.23.0")
			}
			m.files["/commands"] = []byte("set fwd rxonly\n" +
				strings.Repeat("start tx_first 1\nstop\n", 4) + "show port stats all\nquit\n")
		}, arguments...)
		record := saved(t, file)
		image := imported(t, card, record)
		looksForFrames(t, record)
		sendsAgain(t, card, image, inDump(t, sent))
	})
}

// byUIO is the card without an IOMMU in front of it.
func (c networkCard) byUIO() networkCard {
	c.uio = true
	return c
}

// plug adds the card, whose packets go into a file and nowhere else.
func (m *machine) plug(card networkCard, dump string) {
	m.extra = append(m.extra, "-device", card.device+",addr=6,netdev=n0,romfile=", "-netdev",
		"user,id=n0,restrict=on,ipv6=off",
		"-object", "filter-dump,id=f0,netdev=n0,file="+escape(dump))
}

// imported makes an image of a record, by rules and by the board file that is
// made of it, which say the same, and gives its path.
func imported(t *testing.T, card networkCard, record string) string {
	t.Helper()
	board := filepath.Join(filepath.Dir(record), "card.board")
	if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "board-file", "-o", board,
		record).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	flags := []string{"import", "--from", "record"}
	for _, registers := range card.ignore {
		flags = append(flags, "--ignore", registers)
	}
	path, image := made(t, append(slices.Clone(flags), "--board", board, record)...)
	by := append(flags, "--board", "generic")
	for _, rule := range card.rules {
		by = append(by, "--rule", rule)
	}
	_, other := made(t, append(by, record)...)
	commands, others := image.Sequences[0].Commands, other.Sequences[0].Commands
	if len(commands) != len(others) || image.Devices[0].Vendor != card.of.vendor ||
		other.Devices[0].Device != card.of.device {
		t.Errorf("%d commands by the board file, %d by rules, for %v and %v", len(commands),
			len(others), image.Devices, other.Devices)
	}
	return path
}

// looksForFrames: what a driver does to set a card up is repeated, and is no
// frame. Whatever is found is explained.
func looksForFrames(t *testing.T, record string) {
	t.Helper()
	folder := filepath.Dir(record)
	text, err := exec.Command(tool(t, "LM_GUEST_LM"), "import", "--find-frames", "--from", "record",
		"--board", filepath.Join(folder, "card.board"), "-o", filepath.Join(folder, "frames.lmb"),
		record).CombinedOutput()
	var exit *exec.ExitError
	if refused := errors.As(err, &exit) && exit.ExitCode() == 65; err != nil && !refused ||
		refused != bytes.Contains(text, []byte("\nno frame ")) ||
		!refused && !bytes.Contains(text, []byte("\nby hand ")) {
		t.Errorf("%v\n%s", err, text)
	}
	t.Logf("frames: %.600s", text)
}

// sendsAgain replays an image on QEMU's card. A program that stops a card does
// not look whether its last burst is gone, so that it may be missing.
func sendsAgain(t *testing.T, card networkCard, image string, want [][]byte) {
	t.Helper()
	const burst, bursts = 32, 4
	again := filepath.Join(t.TempDir(), "again")
	behindAnIOMMU(t, image, "vfio:0000:00:06.0", func(m *machine) { m.plug(card, again) })
	got := inDump(t, again)
	if len(want) != burst*bursts || len(got) < burst*(bursts-1) || len(got) > len(want) {
		t.Fatalf("%d packets were sent under the recorder, %d by the replay", len(want), len(got))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("packet %d is %x, was %x", i, got[i], want[i])
		}
	}
	t.Logf("evidence: %d packets that a replay of a recording sends (of %d)", len(got), len(want))
}

// inDump reads the packets of a file in the format of pcap: a head of 24 bytes,
// and 16 in front of each, of which the third word is its length.
func inDump(t *testing.T, path string) (list [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 24 {
		t.Fatalf("%d bytes of packets, %v", len(data), err)
	}
	for data = data[24:]; len(data) >= 16; {
		n := 16 + int(binary.NativeEndian.Uint32(data[8:]))
		list, data = append(list, data[16:n]), data[n:]
	}
	return list
}
