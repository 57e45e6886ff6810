package main

var version = "lmrun 0.1" // the linker adds revision and tags, see build.sh

// usage is the text of -help. Lines of what a build tag can leave out are constants below.
const usage = `usage: lmrun [flags] IMAGE.lmb

Lmrun verifies a Light Metal binary, opens its device, and replays a sequence of it: once,
or in a loop with new data for each run.

  lmrun -input a=a.bin -output d=d.bin model.lmb

what runs, and on which device:
  -device DEVICE      pci:VVVV:DDDD or pci:DDDD:BB:DD.F (sysfs); vfio: and one of these (with
                      an IOMMU); tt:/dev/tenstorrent/N. Once for each target of the image, in
                      order; default: pci: and the PCI ids in the image
  -sequence NAME      sequence to run; default: main
  -before NAME        sequence to run once before the first run, -after NAME after the last
  -loop N             run N times, or forever; default: 1
  -window N           hardware TLB window to use for every TLB window of the image

data:
  -input NAME=FILE    raw bytes of an input tensor; default: those in the image. A file is
                      read once, a pipe for each run until it ends; -: standard input
  -output NAME=FILE   raw bytes of an output tensor. A file is replaced after the last run,
                      completely or not at all, a pipe gets each run; -: standard output` +
	ringUsage + `

limits:
  -deadline TIME      a run that takes longer, such as 20ms, fails after the sequence safe
  -longest TIME       reject an image whose sequences could take longer, and end a run that
                      does; default: 3600s` + watchdogUsage + `
  -seal               forbid every system call that could allocate, map or open` + keyUsage + `

checks and reports:
  -check              only verify the image, and open no device` + jsonUsage + `
  -supervised         write to descriptor 3, before a device is opened, how many microseconds
                      the end can take after SIGTERM
  -help, -version     this text; version of this lmrun, and of the images that it replays

exit status: 0 done; 64 usage; 65 bad image or tensor data; 66 no such file; 69 device
unavailable; 70 internal or access refused; 71 device gone or bus fault; 74 I/O; 75 poll
deadline passed or run too long; 76 golden mismatch or expect failed; 77 not permitted;
78 image is for another device; 2 Go found no memory (ulimit -v under 2 GiB, or none left)
`

const ringHelp = `
                      NAME=ring:FILE is a ring in shared memory, for each run (RING.md)`

const watchdogHelp = `
  -watchdog DEV[=S]   feed a watchdog after each run, with a timeout of S seconds; on success
                      it is stopped, after a failure it resets the machine`

const jsonHelp = `
  -json               one JSON object on standard output, on failure too`
