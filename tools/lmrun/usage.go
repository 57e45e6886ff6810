package main

var version = "lmrun 0.1" // build.sh has the linker add revision and tags

const usage = `usage: lmrun [flags] IMAGE.lmb      which replays a Light Metal binary on a device

  -device DEVICE      pci:VVVV:DDDD or pci:DDDD:BB:DD.F (sysfs), vfio: and one of these (behind
                      an IOMMU), tt:/dev/tenstorrent/N; once for each target of the image, in
                      order; default: pci: and the PCI ids in the image
  -sequence NAME      sequence to run; default: main
  -before NAME        sequence to run once before the first run, -after NAME after the last
  -input NAME=FILE    raw bytes of an input tensor (-: standard input); default: those recorded.
                      A pipe gives each run its own, until it ends; ring:FILE, in shared memory, too
  -output NAME=FILE   where to write an output tensor, raw bytes: a file after the last run, whole
                      or not at all; a pipe or ring:FILE after each; -: standard output
  -loop N             run N times, or forever; default: 1
  -deadline TIME      a run that takes longer, such as 20ms, fails after the sequence safe
  -longest TIME       refuse an image whose sequences could take longer, and end a run that does;
                      default: 3600s
  -watchdog DEV[=S]   feed a watchdog after each run, with a timeout of S seconds; on success
                      it is stopped, after a failure it resets the machine
  -window N           hardware window to use for every TLB window
  -seal               forbid every system call that could allocate, map or open` + keyUsage + `
  -supervised         write to descriptor 3, before a device is opened, how many microseconds
                      the end can take after SIGTERM
  -check              only verify the image, and touch no device
  -json               one JSON object on standard output, on failure too
  -help, -version     this text; which lmrun this is, and which images it replays

exit status: 0 done; 64 usage; 65 bad image or tensor data; 66 no such file; 69 device
unavailable; 70 internal or access refused; 71 device gone or bus fault; 74 I/O; 75 poll
deadline passed; 76 golden mismatch or expect failed; 77 not permitted; 78 image is for
another device; 2 Go found no memory (ulimit -v under 2 GiB, or none is left)
`
