//go:build !nofaults

package main

import (
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/faultlog"
)

// This file records a failure in the file that -faults names. FAULTS.md describes the file. In
// builds with the tag nofaults, the file faults_none.go replaces this file.

const (
	hasFaults   = true
	faultsUsage = faultsHelp
)

// faultRecorder writes one entry to the file that -faults names if lmrun fails.
type faultRecorder struct {
	log  *faultlog.Log // nil: -faults is not given
	view *fbs.View
	pci  []pciErrors // for each device of the image, in the order of the image
}

// pciErrors locates the registers in which a device reports PCI errors.
type pciErrors struct {
	config hal.Port // configuration space; nil if it cannot be read
	aer    uint64   // offset of the capability Advanced Error Reporting; 0: none
}

// open opens the file of -faults and stores the fields of the entry that depend on the image. If
// path is empty, it does nothing.
func (r *faultRecorder) open(path string, view *fbs.View) (err error) {
	if path == "" {
		return nil
	}
	if r.log, err = faultlog.Open(path); err == nil {
		r.view = view
		r.log.ImageChecksum = fbs.ReadStruct[fbs.Preamble](view.Envelope).Checksum
		r.log.ImageVersion = view.Version
	}
	return err
}

// findErrorRegisters locates the error registers of all devices. It must be called after
// runtime.Load, which checks that the devices are those of the image.
func (r *faultRecorder) findErrorRegisters(devices []hal.Device) {
	if r.log == nil {
		return
	}
	r.pci = make([]pciErrors, len(devices))
	for i, device := range devices {
		for _, size := range [...]uint64{4096, 256} { // with and without extended capabilities
			window := fbs.Window{Kind: gen.WindowKindConfig, Size: size}
			if a, err := device.Map(window); err == nil && r.pci[i].config == nil {
				r.pci[i] = pciErrors{a.Port, findAER(a.Port, size)}
			}
		}
	}
}

// findAER returns the offset of the capability Advanced Error Reporting in configuration space of
// the given size. It returns 0 if the device has no such capability, or if this user may not read
// it.
func findAER(config hal.Port, size uint64) uint64 {
	const first, aerID, countMax = 0x100, 1, (4096 - 0x100) / 8
	at := uint64(first)
	for range countMax {
		if at < first || at >= size {
			break
		}
		header, code := config.Load(at, 4)
		if code != hal.OK {
			break
		}
		if uint16(header) == aerID {
			return at
		}
		at = header >> 20 &^ 3
	}
	return 0
}

// readErrorRegisters stores the name and the error registers of the device that has failed in the
// entry. It must be called before the devices are closed. It does nothing after success.
func (r *faultRecorder) readErrorRegisters(devices []hal.Device, end *outcome) {
	if r.log == nil || r.pci == nil || end.err == nil {
		return
	}
	i := r.failedDevice(devices, end)
	e, identity, pci := &r.log.Entry, devices[i].Identity(), &r.pci[i]
	copy(e.Device[:], identity.Address)
	if pci.config == nil {
		return
	}
	load := func(offset uint64, value *uint32, flag uint16) {
		n, code := pci.config.Load(offset, 4)
		if code == hal.OK {
			*value = uint32(n)
			e.Flags |= flag
		}
	}
	load(4, &e.CommandStatus, faultlog.FlagStatus)
	if pci.aer == 0 {
		return
	}
	load(pci.aer+4, &e.Uncorrectable, faultlog.FlagAER)
	load(pci.aer+0x10, &e.Correctable, 0)
	for i := range e.HeaderLog {
		load(pci.aer+0x1c+4*uint64(i), &e.HeaderLog[i], 0)
	}
}

// failedDevice returns the index of the first device that reports a fault. If no device does, it
// returns the index of the device that the failed command accesses, or 0 if no command has failed.
func (r *faultRecorder) failedDevice(devices []hal.Device, end *outcome) int {
	for i, device := range devices {
		if device.Diagnose() != hal.OK {
			return i
		}
	}
	if end.result.Code == hal.OK || end.result.Command < 0 {
		return 0
	}
	window := r.view.Commands[end.result.Command].Window
	return int(r.view.Windows[window].Device)
}

// record writes the entry if the outcome is a failure. It allocates no memory unless the write
// fails: lmrun then prints a warning.
func (r *faultRecorder) record(end *outcome) {
	if r.log == nil || end.err == nil {
		return
	}
	e, result := &r.log.Entry, &end.result
	e.TimeNs, e.Runs = uint64(time.Now().UnixNano()), end.runs
	e.Code, e.Command = hal.CodeOf(end.err), -1
	if result.Code != hal.OK {
		e.Command = result.Command
	}
	e.Got, e.Want, e.Mask, e.Element = result.Got, result.Want, result.Mask, result.Element
	if result.SafeRan {
		e.Safe = result.Safe
		e.Flags |= faultlog.FlagSafeRan
	}
	if fault, ok := end.err.(*hal.Fault); ok {
		copy(e.Reason[:], fault.Reason)
	}
	if err := r.log.Write(); err != nil {
		_ = printLine(2, "lmrun: -faults: the failure was not recorded: "+err.Error())
	}
}
