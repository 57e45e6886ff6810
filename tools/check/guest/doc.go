// Guest boots an arm64 machine under QEMU, whose only programs are lminit and lmrun. lmrun replays
// one image, and guest ends with lmrun's exit status.
//
//	guest -kernel VMLINUZ -lmrun LMRUN [-dir DIR] [-trace FILE] [-timeout 1m] IMAGE.lmb \
//	  [-- FLAGS OF LMRUN]
//
// The machine has three PCI devices of QEMU: edu (1234:11e8), ivshmem-plain (1af4:1110, 1 MiB) and
// nvme (1b36:0010, 16 MiB). If outputs are written to drives, the machine has a controller for
// those drives instead of this nvme device. The flags -input and -output name files of the host.
//
// `guest bare` boots a machine without an operating system, whose firmware replays the image
// (testdata/firmware/bare/README.md).
//
// System tests compare QEMU's own trace of the accesses that reached a device (trace.go) with the
// accesses that an image requires: follow.go lets the oracle (vectors/oracle) execute the image on
// the trace. Neither uses code of the runtime.
//
// Most tests are scenarios: texts in scenarios/*.txt, with the machines on which they run and the
// images that they replay (package scenario documents the syntax). The program in inside/ runs
// their steps as PID 1; inside/steps.go lists them. One boot of a machine runs all its scenarios.
// A step `host ...` runs on the host, after the boot (host_test.go); a scenario on `host` has only
// these, and boots machines by them. To add a scenario, write it into a file:
//
//	image mine
//	  device edu 1234:11e8 bar0 1MiB
//	  window r bar0 offset 0x0 size 1MiB
//	  main:
//	    expect.4 r+0x0 == 0x1
//
//	scenario NameThatSaysWhatItShows on plain iommu
//	  ready edu
//	  lmrun 76 "expect failed: main, command 0" -device $edu /images/mine.lmb
//
// The steps of a machine are in machines_test.go, the sources of an image in images_test.go. plain
// has edu, ivshmem, nvme and virtio-crypto. iommu has the same devices behind an IOMMU. traced is
// plain with QEMU's trace, which must contain the accesses that the runs of images require, and no
// others (follow_test.go). chips and mocks have devices of lm serve. $edu is the device name for
// lmrun with the machine's backend, @edu the device's address, $slot8 the device in a slot. Before
// a guest boots, tests check that each message expected from lmrun consists of strings of the
// target (TestMessagesOfScenariosAreInTheTarget), and that each step is known:
//
//	go test -run 'Scenarios(Run|Consist)|Messages' ./tools/check/guest/...
//
// LM_GUEST_SCENARIO=NAME runs one scenario. A page names it as
// tools/check/guest.TestScenarios/NAME.
//
// Two checks take long. `./build.sh object-coverage` makes QEMU log which instructions of the
// shipped lmrun were executed (tools/check/coverage/README.md). `./build.sh soak FRAMES` sends
// frames through an NVMe controller and a served Wormhole, and kills lmrun or makes the device
// fail after every thousand frames (inside/soak.go). Every output frame is compared with its
// input, and none may be missing.
package main
