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
// Most tests are scenarios: texts in scenarios/*.txt. The program in inside/ runs them step by step
// as PID 1 (package scenario documents the syntax, inside/steps.go lists all steps). For each kind
// of machine, one boot runs all scenarios for that kind. To add a scenario, write it into a file:
//
//	scenario NameThatSaysWhatItShows on plain iommu
//	  ready edu
//	  lmrun 76 "golden mismatch: main, command 1" -device $edu /images/mine.lmb
//
// plain has edu, ivshmem, nvme and virtio-crypto. iommu has the same devices behind an IOMMU.
// traced is plain with QEMU's trace, which must contain the accesses that the runs of images
// require, and no others (follow_test.go). chips and mocks have devices of lm serve. The table
// kinds in scenario_test.go sets the machines up, with their images, and checks the results on the
// host after the boot. $edu is the device name for lmrun with the machine's backend, @edu the
// device's address, $slot8 the device in a slot. A step that computes something is a function in
// inside/, and its name is in the table steps. Before a guest boots, tests check that each message
// expected from lmrun consists of strings of the target (TestMessagesOfScenariosAreInTheTarget),
// and that each step is in that table:
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
