// Guest boots an arm64 machine under QEMU whose only programs are lminit and lmrun, replays
// one image on it and ends with lmrun's exit status.
//
//	guest -kernel VMLINUZ -lmrun LMRUN [-dir DIR] [-trace FILE] [-timeout 1m] IMAGE.lmb [-- lmrun
//
// flags]
//
// The machine has three PCI devices that are not ours: edu (1234:11e8),
// ivshmem-plain (1af4:1110, 1 MiB) and, unless a drive takes outputs, nvme
// (1b36:0010, 16 MiB). Files that -input and -output name are the host's.
//
// `guest bare` boots a machine without an operating system, whose firmware replays the image
// (testdata/firmware/bare/README.md).
//
// The package is also the oracle of the system tests: QEMU's own trace of what
// reached a device (trace.go) is compared (match.go) with what the image says
// (expand.go), and none of the three uses code of the runtime.
//
// Most tests are scenarios: texts in scenarios/*.txt, which inside/ runs step by step as PID 1
// (package scenario has the syntax, inside/steps.go all steps). One boot of a kind of machine runs
// all scenarios for it. To add one, write it into a file:
//
//	scenario NameThatSaysWhatItShows on plain iommu
//	  ready edu
//	  lmrun 76 "golden mismatch: main, command 1" -device $edu /images/mine.lmb
//
// plain has edu, ivshmem, nvme and virtio-crypto; iommu has them behind an IOMMU; traced is plain
// with QEMU's trace, which must be what the runs of images imply, and nothing else
// (follow_test.go); chips and mocks have devices of lm serve. kinds in scenario_test.go sets the
// machines up, with their images, and checks on the host what is left after the boot. $edu is the
// device for lmrun by the machine's backend, @edu its address, $slot8 the device in a slot. A step
// that computes something is a function in inside/, with its name in the table steps. What lmrun
// must say is compared with the strings of the target (TestMessagesOfScenariosAreInTheTarget), the
// steps with that table, before a guest boots:
//
//	go test -run 'Scenarios(Run|Consist)|Messages' ./tools/check/guest/...
//
// LM_GUEST_SCENARIO=NAME runs one scenario. A page names it as
// tools/check/guest.TestScenarios/NAME.
//
// Two things are tried at length: ./build.sh object-coverage has QEMU tell which instructions
// of the shipped lmrun ran (tools/check/coverage/README.md), and ./build.sh soak FRAMES has frames
// go through an NVMe controller and a served Wormhole with a kill, or a fault of the device, after
// every thousand (inside/soak.go): each that comes is held against what went in, none may be
// missing.
package main
