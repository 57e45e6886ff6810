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

// networkCard is a network card of QEMU and the driver of DPDK for it.
type networkCard struct {
	traced      region   // BAR with the card's registers
	device      string   // QEMU's options for the card
	plugin      string   // DPDK's plugin with the driver
	usesUIO     bool     // the driver uses UIO, and the card is not behind an IOMMU
	ringOptions []string // options of testpmd for the sizes of queues
	ignore      []string // registers whose values depend on the time at which the link comes up
	rules       []string // values of the flag --rule of lm import
}

var (
	// shortRings makes queues that have space for two bursts.
	shortRings = []string{"--txd=64", "--rxd=64"}
	// linkRegisters are the registers CTRL, STATUS, MDIC and ICR of Intel's 8254x and 8257x.
	linkRegisters = []string{"0x0-0xb", "0x20-0x23", "0xc0-0xc3"}
)

var (
	e1000 = networkCard{traced: region{"e1000-mmio", 0x8086, 0x100e, 0, 128 << 10},
		device: "e1000", plugin: "net_e1000", ringOptions: shortRings, ignore: linkRegisters}
	e1000e = networkCard{traced: region{"e1000e-mmio", 0x8086, 0x10d3, 0, 128 << 10},
		device: "e1000e", plugin: "net_e1000", ringOptions: shortRings, ignore: linkRegisters}
	vmxnet3 = networkCard{traced: region{"vmxnet3-b1", 0x15ad, 0x07b0, 1, 4 << 10},
		device: "vmxnet3", plugin: "net_vmxnet3"}
	virtio = networkCard{traced: region{"virtio-pci-*", 0x1af4, 0x1041, 4, 16 << 10},
		plugin: "net_virtio",
		device: "virtio-net-pci,iommu_platform=on,disable-legacy=on,ioeventfd=off",
		rules: []string{"4+0x14..0x16=1", "4+0x10..0x14=2", "4+0x16..0x20=2", "4+0x2000..0x2006=1",
			"4+0x2006..0x2010=1,2", "4+0x3000..0x4000=2"}}
)

// TestPacketsOfDPDKAreRecordedAndSentAgain uses a card with 4-byte registers, and a card with
// registers of 1, 2 and 4 bytes.
func TestPacketsOfDPDKAreRecordedAndSentAgain(t *testing.T) {
	t.Parallel()
	recordPackets(t, e1000e)
	recordPackets(t, virtio)
}

// recordPackets records DPDK's testpmd, which sends packets through a card of QEMU. It imports the
// record for a card that has no board file in this repository. The record includes host memory, so
// a replay on QEMU's card must send the same packets.
func recordPackets(t *testing.T, card networkCard) {
	name, _, _ := strings.Cut(card.device, ",")
	backend := "vfio"
	if card.usesUIO {
		name, backend = name+" by UIO", "uio_pci_generic"
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		dumpPath := filepath.Join(t.TempDir(), "sent")
		// Use pages of 4 KiB: the kernel reports which process writes to them.
		memoryOptions := []string{"--no-huge", "-m", "24"}
		if card.usesUIO { // the driver needs physical addresses, so it needs huge pages
			memoryOptions = []string{"-m", "8"}
		}
		arguments := slices.Concat([]string{"--host-memory", "32M", "--", "/usr/bin/dpdk-testpmd",
			"-l", "0,1", "-n", "1"}, memoryOptions,
			[]string{"--no-telemetry", "--", "-i", "--cmdline-file=/commands",
				"--total-num-mbufs=1088"}, card.ringOptions)
		file, _ := recordPrograms(t, card.traced, backend, func(m *machine) {
			if !card.usesUIO {
				m.machineType = iommuMachine
			}
			// Do not start Linux's own driver: the trace would have its accesses.
			m.kernel, m.kernelArgs = fromEnv(t, "LM_GUEST_NEW_KERNEL"),
				" hugepagesz=2M hugepages=64 initcall_blacklist=virtio_pci_driver_init"
			m.addNetworkCard(card, dumpPath)
			m.addModules(t, "LM_GUEST_NEW_MODULES")
			m.addDebianPrograms(t, "/usr/bin/dpdk-testpmd", "/lib/aarch64-linux-gnu/libgcc_s.so.1")
			for _, plugin := range []string{card.plugin, "mempool_ring"} {
				m.addPlugins(t, libraryDir+"/dpdk/pmds-23.0/librte_"+plugin+".so.23.0")
			}
			m.files["/commands"] = []byte("set fwd rxonly\n" +
				strings.Repeat("start tx_first 1\nstop\n", 4) + "show port stats all\nquit\n")
		}, arguments...)
		record := writeTempImage(t, file)
		image := importRecord(t, card, record)
		findFrames(t, record)
		replayPackets(t, card, image, readPcap(t, dumpPath))
	})
}

// withUIO returns the card with usesUIO set.
func (c networkCard) withUIO() networkCard {
	c.usesUIO = true
	return c
}

// addNetworkCard adds the card to the machine. QEMU writes its packets to the file dump, and sends
// them nowhere else.
func (m *machine) addNetworkCard(card networkCard, dump string) {
	m.extraArgs = append(m.extraArgs, "-device", card.device+",addr=6,netdev=n0,romfile=",
		"-netdev", "user,id=n0,restrict=on,ipv6=off",
		"-object", "filter-dump,id=f0,netdev=n0,file="+escapeCommas(dump))
}

// importRecord imports a record twice: with a board file generated from the record, and with rules.
// Both images must have the same number of commands. It returns the path of the first one.
func importRecord(t *testing.T, card networkCard, record string) string {
	t.Helper()
	board := filepath.Join(filepath.Dir(record), "card.board")
	if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "board-file", "-o", board,
		record).CombinedOutput(); err != nil {
		t.Fatalf("lm board-file: %v\n%s", err, out)
	}
	flags := []string{"import", "--from", "record"}
	for _, registers := range card.ignore {
		flags = append(flags, "--ignore", registers)
	}
	path, image := makeImage(t, append(slices.Clone(flags), "--board", board, record)...)
	ruleFlags := append(flags, "--board", "generic")
	for _, rule := range card.rules {
		ruleFlags = append(ruleFlags, "--rule", rule)
	}
	_, other := makeImage(t, append(ruleFlags, record)...)
	commands, others := image.Sequences[0].Commands, other.Sequences[0].Commands
	if len(commands) != len(others) || image.Devices[0].Vendor != card.traced.vendor ||
		other.Devices[0].Device != card.traced.device {
		t.Errorf("%d commands with the board file, %d with rules; devices %v and %v", len(commands),
			len(others), image.Devices, other.Devices)
	}
	return path
}

// findFrames runs `lm import --find-frames`. A driver repeats accesses while it sets a card up, but
// these are not frames. The command must explain its result.
func findFrames(t *testing.T, record string) {
	t.Helper()
	dir := filepath.Dir(record)
	text, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "import", "--find-frames",
		"--from", "record", "--board", filepath.Join(dir, "card.board"),
		"-o", filepath.Join(dir, "frames.lmb"), record).CombinedOutput()
	var exit *exec.ExitError
	if noFrames := errors.As(err, &exit) && exit.ExitCode() == 65; err != nil && !noFrames ||
		noFrames != bytes.Contains(text, []byte("\nno frame ")) ||
		!noFrames && !bytes.Contains(text, []byte("\nby hand ")) {
		t.Errorf("lm import --find-frames: error %v, or the result is not explained:\n%s", err,
			text)
	}
	t.Logf("frames: %.600s", text)
}

// replayPackets replays an image on QEMU's card, and compares the sent packets. Some of the last
// burst may be missing, because testpmd stops the card without waiting until the card has sent
// them.
func replayPackets(t *testing.T, card networkCard, image string, recorded [][]byte) {
	t.Helper()
	const burst, bursts = 32, 4
	dumpPath := filepath.Join(t.TempDir(), "again")
	replayBehindIOMMU(t, image, "vfio:0000:00:06.0", func(m *machine) {
		m.addNetworkCard(card, dumpPath)
	})
	got := readPcap(t, dumpPath)
	if len(recorded) != burst*bursts || len(got) < burst*(bursts-1) || len(got) > len(recorded) {
		t.Fatalf("%d packets were sent under the recorder, %d by the replay", len(recorded),
			len(got))
	}
	for i := range got {
		if !bytes.Equal(got[i], recorded[i]) {
			t.Fatalf("packet %d is %x, want %x", i, got[i], recorded[i])
		}
	}
	t.Logf("evidence: %d packets that a replay of a recording sends (of %d)", len(got),
		len(recorded))
}

// readPcap returns the packets of a file in the format pcap. The file has a header of 24 bytes.
// Each packet has a header of 16 bytes, whose third word is the length of the packet.
func readPcap(t *testing.T, path string) (list [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 24 {
		t.Fatalf("the packet file has %d bytes, error %v", len(data), err)
	}
	for data = data[24:]; len(data) >= 16; {
		n := 16 + int(binary.NativeEndian.Uint32(data[8:]))
		list, data = append(list, data[16:n]), data[n:]
	}
	return list
}
