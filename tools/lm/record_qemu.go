package main

import (
	"os"

	"lightmetal/tools/capture/passthrough"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
)

func (f *recordFlags) writePortTable(program []string) {
	if len(program) > 0 {
		failUsage("--port-table records nothing; leave out the program")
	}
	fail.On(files.Write(f.portTable, passthrough.PortTable(), 0o644, files.OpenToReplace))
	printLine(stderr, "lm: wrote %s; QEMU needs -acpitable file=%[1]s and "+
		"-device pcie-root-port,id=rp0,addr=1,chassis=1,slot=1", f.portTable)
}

// clearMarks removes the marks of an earlier recording.
func clearMarks(path string) {
	if path != "" {
		fail.On(files.Write(path, nil, 0o666, files.OpenToReplace))
	}
}

// checkQEMU checks the command line if the program is QEMU. What it finds stands in the recording.
func (f *recordFlags) checkQEMU(o *recorder.Options) {
	if !passthrough.IsQEMU(o.Program[0]) {
		return
	}
	r := passthrough.Check(o.Program[1:], o.HostMemoryLimit > 0, os.ReadFile)
	for _, good := range r.Good {
		o.Notes = append(o.Notes, "QEMU: "+good)
	}
	for _, finding := range r.Findings {
		o.Notes = append(o.Notes, "QEMU: "+finding.String())
		printLine(stderr, "lm: %s", finding)
	}
	if o.Marks == "" {
		o.Marks = r.Marks
	}
	if n := r.Errors(); n > 0 && !f.unchecked {
		failUsage("QEMU's command line has %s; --unchecked records QEMU nevertheless",
			english.Count(n, "error"))
	}
}
