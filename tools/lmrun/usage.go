package main

// version is what -version prints first. build.sh makes the linker replace it by a text with the
// revision and the build tags.
var version = "lmrun 0.1"

const usage = `usage: lmrun [flags] IMAGE.lmb

Lmrun verifies a Light Metal image and replays one of its sequences: once, or in a loop
with new data for each run.

  lmrun -input a=a.bin -output d=d.bin model.lmb

what runs, and on which device:
  -device DEVICE      pci:VVVV:DDDD or pci:DDDD:BB:DD.F (hex); vfio: likewise (IOMMU); or
                      tt:/dev/tenstorrent/N. Once for each device of the image, in order;
                      default: the PCI ids in the image (vfio: if vfio-pci is bound)
  -sequence NAME      sequence to run; default: main
  -before NAME        sequence to run once before the first run
  -after NAME         sequence to run once after the last run
  -loop N             run N times, or forever; default: 1
  -window N           number of the first TLB window of the device to use

data:
  -input NAME=FILE    raw bytes of an input tensor; default: the data in the image. A file
                      is read once, a pipe for each run until its end; - is standard input
  -output NAME=FILE   raw bytes of an output tensor; - is standard output. A file is replaced
                      after the last run, completely or not at all; a pipe gets each run's data
                      NAME=ring:FILE is a ring in shared memory, used by each run (RING.md)

limits:
  -deadline TIME      time limit of each run, such as 20ms; after a longer run, the sequence
                      safe runs and lmrun fails
  -longest TIME       reject an image whose sequences could take longer, and end a run that
                      does; default: 3600s
  -watchdog DEV[=S]   feed a watchdog device after each run, with a timeout of S seconds. On
                      success lmrun stops it; after a failure it resets the machine
  -lock               lock image, inputs and program into memory: no run waits for storage
  -seal               from the first run on, forbid system calls that map memory or open files` +
	keyFlagUsage + `

checks and reports:
  -check              only verify the image; open no device
  -faults FILE        after a failure, append a record of it to FILE: a file (a new one holds
                      64 records) or a device such as /dev/pmsg0; lm faults prints the records
  -faults-format      overwrite FILE if it has other data
  -faults-required    fail if another process locks FILE; without this flag, record nothing then
  -json               print the outcome as one JSON object on standard output
  -supervised         write to descriptor 3 how many us lmrun can take to end after SIGTERM
  -help, -version     this text; version of lmrun and of the images it replays

exit status: 0 done; 64 usage; 65 bad image or tensor data; 66 no such file; 69 device
unavailable; 70 internal or access rejected; 71 device gone or bus fault; 74 I/O; 75 poll
deadline passed or run too long; 76 golden mismatch or expect failed; 77 not permitted;
78 image is for another device; 2 too little memory for Go (ulimit -v)
`
