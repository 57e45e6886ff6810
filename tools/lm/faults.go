package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/faultlog"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
)

// faultList is the output of lm faults; its JSON is stable.
type faultList struct {
	// sorted by number; entries without a number come first, in the order of the file
	Faults  []faultInfo `json:"faults"`
	Skipped []byteRange `json:"skipped"` // parts of the file that are no complete entry

	isCompared bool // with images
}

type faultInfo struct {
	Number  uint64 `json:"number"` // 0: the file does not count its entries
	Time    string `json:"time"`   // time in UTC, by the clock of the target
	Exit    int    `json:"exit"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Device  string `json:"device"`
	Command int32  `json:"command"` // index in the image, -1: none
	Got     uint64 `json:"got"`
	Want    uint64 `json:"want"`
	Mask    uint64 `json:"mask"`
	Element uint64 `json:"element"`
	Runs    uint64 `json:"runs"`           // runs completed before the failure
	Safe    string `json:"safe,omitempty"` // result of the sequence safe, if it ran
	// checksum of the image's envelope, and version of its signature
	ImageChecksum string   `json:"image_checksum"`
	ImageVersion  uint32   `json:"image_version"`
	Image         string   `json:"image,omitempty"` // given image with this checksum
	PCI           *pciInfo `json:"pci,omitempty"`   // nil: the registers could not be read
	AER           *aerInfo `json:"aer,omitempty"`   // nil: the device has no such registers

	result runtime.Result
}

// pciInfo has the first registers of configuration space.
type pciInfo struct {
	Command uint16 `json:"command"`
	Status  uint16 `json:"status"`
}

// aerInfo has registers of the PCI Express capability Advanced Error Reporting.
type aerInfo struct {
	Uncorrectable uint32    `json:"uncorrectable"`
	Correctable   uint32    `json:"correctable"`
	HeaderLog     [4]uint32 `json:"header_log"`
}

// byteRange is a part of the file.
type byteRange struct {
	Offset int `json:"offset"`
	Bytes  int `json:"bytes"`
}

func faultsCommand() *cobra.Command {
	c := newCommand("faults FILE [IMAGE.lmb...]",
		argumentCount(1, math.MaxInt, "a file of lmrun -faults and any number of images"),
		func(args []string) {
			list := readFaults(readFaultFile(args[0]))
			if len(list.Faults) == 0 && len(list.Skipped) > 0 {
				fail.With(hal.BadImage,
					"%s is not a file of lmrun -faults: the file has no complete entry", args[0])
			}
			list.addImages(args[1:])
			printResult(stdout, list)
		})
	defineJSONFlag(c, "print the entries as JSON")
	return c
}

// readFaultFile reads a file, or the beginning of a large one: lmrun uses at most 2 MiB.
func readFaultFile(path string) []byte {
	const maxBytes = 64 << 20
	info, err := os.Stat(path)
	const otherThanBlockDevice = os.ModeType&^os.ModeDevice | os.ModeCharDevice
	if err != nil || info.Mode()&otherThanBlockDevice != 0 {
		return fail.Must(files.Read(path, maxBytes))
	}
	file := openFile(path)
	defer file.Close()
	return fail.Must(io.ReadAll(io.LimitReader(file, maxBytes)))
}

// faultMagic contains the first bytes of an entry.
var faultMagic = binary.LittleEndian.AppendUint64(nil, faultlog.EntryMagic)

// decodeFault returns the entry at the start of data, nil if there is no complete one.
func decodeFault(data []byte) *faultlog.Entry {
	e := new(faultlog.Entry)
	if copy(e.Bytes(), data) < faultlog.EntryBytes || !e.IsComplete() {
		return nil
	}
	return e
}

// readFaults reads the entries of a file. It finds them at any offset, because a memory region that
// the kernel keeps may begin with the rest of an entry.
func readFaults(data []byte) *faultList {
	list := &faultList{Faults: []faultInfo{}, Skipped: []byteRange{}}
	for at := 0; at < len(data); {
		if e := decodeFault(data[at:]); e != nil {
			list.Faults = append(list.Faults, describeFault(e))
			at += faultlog.EntryBytes
			continue
		}
		end := len(data)
		if next := bytes.Index(data[at+1:], faultMagic); next >= 0 {
			end = at + 1 + next
		}
		list.skip(data[:end], at)
		at = end
	}
	slices.SortStableFunc(list.Faults, func(a, b faultInfo) int {
		if a.Number < b.Number {
			return -1
		}
		return int(min(a.Number-b.Number, 1))
	})
	return list
}

// skip adds the bytes of data from an offset on to list.Skipped, without the zeros around them,
// which are slots without an entry.
func (list *faultList) skip(data []byte, at int) {
	end := len(bytes.TrimRight(data, "\x00"))
	at += len(data[at:]) - len(bytes.TrimLeft(data[at:], "\x00"))
	if at < end {
		list.Skipped = append(list.Skipped, byteRange{at, end - at})
	}
}

func describeFault(e *faultlog.Entry) faultInfo {
	r := &e.Result
	f := faultInfo{
		Number: e.EntryNumber, Runs: e.Runs, Command: r.Command,
		Time: time.Unix(0, int64(e.TimeNs)).UTC().Format(time.RFC3339Nano),
		Exit: r.Code.ExitStatus(), Code: r.Code.Error(),
		Reason: paddedText(e.Reason[:]), Device: paddedText(e.DeviceAddress[:]),
		Got: r.Got, Want: r.Want, Mask: r.Mask, Element: r.ElementIndex,
		ImageChecksum: fbs.ImageID(e.ImageChecksum), ImageVersion: e.ImageVersion,
		result: *r,
	}
	if r.SafeRan {
		f.Safe = r.SafeSequenceCode.Error()
	}
	if e.ConfigRegisters != [2]uint32{} {
		f.PCI = &pciInfo{uint16(e.ConfigRegisters[1]), uint16(e.ConfigRegisters[1] >> 16)}
	}
	if e.AERRegisters[0] != 0 {
		f.AER = &aerInfo{e.AERRegisters[1], e.AERRegisters[4], [4]uint32(e.AERRegisters[7:])}
	}
	return f
}

// paddedText returns a text that zeros follow, as one line.
func paddedText(data []byte) string {
	return files.OneLine(string(bytes.TrimRight(data, "\x00")))
}

// addImages finds the images of the entries. It fails if all entries are of other images.
func (list *faultList) addImages(paths []string) {
	list.isCompared = len(paths) > 0
	var candidates []string
	for _, path := range paths {
		_, view := openVerified(path)
		list.addImage(path, view)
		candidates = append(candidates, fmt.Sprintf("%s has the checksum %s", path, view.ID()))
	}
	var others []string
	for i := range list.Faults {
		if list.Faults[i].Image != "" {
			return
		}
		others = append(others, list.Faults[i].ImageChecksum)
	}
	if len(candidates) > 0 && len(others) > 0 {
		slices.Sort(others)
		fail.With(hal.BadImage, "%s, but the entries are of the image %s; "+
			"lm info prints the checksum of an image", strings.Join(candidates, ", "),
			strings.Join(slices.Compact(others), ", "))
	}
}

// addImage replaces the reasons of failed commands of an image by texts with the names of windows,
// which lmrun does not read.
func (list *faultList) addImage(path string, view *fbs.View) {
	for i := range list.Faults {
		f := &list.Faults[i]
		if f.ImageChecksum != view.ID() {
			continue
		}
		f.Image = path
		if f.Command >= 0 && int(f.Command) < len(view.Commands) {
			f.Reason = failureText(view, &f.result)
		}
	}
}

// String implements fmt.Stringer: it returns the text that lm faults prints.
func (list *faultList) String() string {
	var text strings.Builder
	for i := range list.Faults {
		list.Faults[i].print(&text, list.isCompared)
	}
	for _, r := range list.Skipped {
		fmt.Fprintf(&text, "skipped %d bytes at offset %d: not a complete entry; "+
			"its write was interrupted, or the file was changed\n", r.Bytes, r.Offset)
	}
	if text.Len() == 0 {
		return "no failure is recorded\n"
	}
	return text.String()
}

func (f *faultInfo) print(text *strings.Builder, isCompared bool) {
	number := "-"
	if f.Number > 0 {
		number = fmt.Sprint(f.Number)
	}
	fmt.Fprintf(text, "%s  %s  %s (exit status %d)\n", number, f.Time, f.Code, f.Exit)
	line := func(format string, a ...any) { fmt.Fprintf(text, "    "+format+"\n", a...) }
	if f.Reason != "" {
		line("%s", f.Reason)
	}
	image := ""
	switch {
	case f.Image != "":
		image = ": " + f.Image
	case isCompared:
		image = ": none of the given images"
	}
	line("after %d runs of the image with checksum %s, version %d%s", f.Runs, f.ImageChecksum,
		f.ImageVersion, image)
	if f.Mask != 0 {
		line("got %#x, wanted %#x, mask %#x", f.Got, f.Want, f.Mask)
	}
	if f.Safe != "" {
		line("then sequence safe ran: %s", f.Safe)
	}
	if f.PCI != nil {
		line("device %s: PCI command %#04x, status %#04x%s", f.Device, f.PCI.Command, f.PCI.Status,
			bitNames(uint32(f.PCI.Status), statusBits))
	} else if f.Device != "" {
		line("device %s: registers could not be read", f.Device)
	}
	if f.AER != nil {
		line("AER uncorrectable %#08x%s", f.AER.Uncorrectable,
			bitNames(f.AER.Uncorrectable, uncorrectableBits))
		line("AER correctable %#08x%s", f.AER.Correctable,
			bitNames(f.AER.Correctable, correctableBits))
		line("AER header log %08x", f.AER.HeaderLog)
	}
}

// Names of error bits: PCI Local Bus 3.0, 6.2.3; PCI Express Base 5.0, 7.8.4.2 and 7.8.4.5.
var (
	statusBits = map[int]string{8: "data parity error", 11: "signaled target abort",
		12: "received target abort", 13: "received master abort", 14: "signaled system error",
		15: "poisoned data"}
	uncorrectableBits = map[int]string{4: "data link protocol error", 5: "surprise down",
		12: "poisoned TLP", 13: "flow control protocol error", 14: "completion timeout",
		15: "completer abort", 16: "unexpected completion", 17: "receiver overflow",
		18: "malformed TLP", 19: "ECRC error", 20: "unsupported request", 21: "ACS violation"}
	correctableBits = map[int]string{0: "receiver error", 6: "bad TLP", 7: "bad DLLP",
		8: "replay number rollover", 12: "replay timer timeout", 13: "advisory non-fatal"}
)

// bitNames returns the names of the bits that are set, in parentheses. A device that is gone
// returns all ones.
func bitNames(value uint32, names map[int]string) string {
	var list []string
	for rest := value; rest != 0; rest &= rest - 1 { // clears the lowest bit that is set
		if name := names[bits.TrailingZeros32(rest)]; name != "" {
			list = append(list, name)
		}
	}
	switch {
	case len(list) == 0:
		return ""
	case len(list) == len(names):
		return " (all ones: the device did not answer)"
	}
	return " (" + strings.Join(list, ", ") + ")"
}
