package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/look/report"

	"github.com/spf13/cobra"
)

// identity says which image a file contains.
type identity struct {
	// of the preamble, as lmrun and lminit print it
	Checksum string `json:"image_checksum,omitempty"`
	SHA256   string `json:"sha256,omitempty"` // of the file without its signature
}

func (id identity) String() string {
	return "checksum " + id.Checksum + ", SHA-256 without signature " + id.SHA256
}

func identify(view *fbs.View) identity {
	hash := sha256.New()
	hash.Write(view.Envelope)
	if len(view.Payload) > 0 {
		hash.Write(make([]byte, -len(view.Envelope)&(fbs.SegmentAlign-1))) // padding
	}
	hash.Write(view.Payload)
	return identity{view.ID(), fmt.Sprintf("%x", hash.Sum(nil))}
}

// imageInfo is the output of lm info; its JSON is stable.
type imageInfo struct {
	Format string `json:"format"`
	Bytes  int    `json:"bytes"`
	identity
	// public key in hex, which lm verify --key checks
	SignedBy    string          `json:"signed_by,omitempty"`
	Version     uint32          `json:"version,omitempty"` // version in the signature; 0: none
	Origin      originInfo      `json:"origin"`
	Devices     []deviceInfo    `json:"devices"`
	Reservation reservationInfo `json:"reservation"`
	// the rules in the image, for devices whose PCI ids belong to no board of lm
	Rules     []ruleInfo      `json:"rules,omitempty"`
	Windows   []windowInfo    `json:"windows"`
	Rings     []report.Ring   `json:"rings,omitempty"`
	Tensors   []report.Tensor `json:"tensors"`
	Sequences []sequenceInfo  `json:"sequences"`
	Warnings  []string        `json:"warnings"`
}

type deviceInfo struct {
	Board  string    `json:"board"`
	Vendor string    `json:"vendor"`
	Device string    `json:"device"`
	Bars   [6]uint64 `json:"bars"`

	Subsystem string `json:"subsystem,omitempty"` // vendor:device, empty: any

	MSIVectors  uint16 `json:"msi_vectors,omitempty"` // that the device needs enabled
	MSIXVectors uint16 `json:"msix_vectors,omitempty"`
}

type ruleInfo struct {
	Name   string `json:"name"`
	Device uint8  `json:"device"`
	Bar    uint8  `json:"bar"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Widths []int  `json:"widths"`
	Memory bool   `json:"memory"`
}

type reservationInfo struct {
	ArenaBytes   uint64 `json:"arena_bytes"`
	HostBytes    uint64 `json:"host_bytes"`
	PayloadBytes uint64 `json:"payload_bytes"`
	Commands     uint32 `json:"commands"`

	// bytes that lmrun locks without -lock, with pages of 4 KiB; host memory counts twice on vfio:
	LockedBytes     uint64 `json:"locked_bytes"`
	LockedVFIOBytes uint64 `json:"locked_vfio_bytes"`
}

type windowInfo struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Device uint8  `json:"device"`
	Bar    uint8  `json:"bar"`
	Offset uint64 `json:"offset"` // offset in the BAR
	Size   uint64 `json:"size"`
	Slot   int    `json:"slot"`
	Bus    uint64 `json:"bus"` // address that host memory must have; 0: any
}

type sequenceInfo struct {
	Name     string         `json:"name"`
	Commands uint32         `json:"commands"` // commands in the file, without End
	Opcodes  map[string]int `json:"opcodes"`
	BytesIn  uint64         `json:"bytes_in"` // bytes to devices, calls included
	BytesOut uint64         `json:"bytes_out"`
	Host     uint64         `json:"host_bytes"`  // bytes to and from host memory
	WaitUs   uint64         `json:"wait_max_us"` // sum of all deadlines and delays, calls included

	// the longest time by FORMAT.md section 6.3, calls included
	LongestUs uint64 `json:"longest_us"`
}

func infoCommand() *cobra.Command {
	var origin bool
	c := newCommand("info IMAGE.lmb", exactlyOne("image"), func(args []string) {
		file, view := openVerified(args[0])
		if origin {
			printResult(stdout, &imageOrigin{identify(view),
				describeOrigin(lmb.Header(view))})
			return
		}
		info := describeImage(view, len(file.Bytes()))
		info.identity = identify(view)
		if _, signature, err := fbs.SplitSignature(file.Bytes()); err == nil && signature != nil {
			info.SignedBy = hex.EncodeToString(signature.Key[:])
			info.Version = signature.Version
		}
		printWarnings(info.Warnings)
		printResult(stdout, info)
	})
	defineJSONFlag(c, "print the result as JSON")
	c.Flags().BoolVar(&origin, "origin", false,
		"print only how the image was made: captures, flags, version of lm")
	return c
}

func openVerified(path string) (*runtime.File, *fbs.View) {
	file := openImage(path)
	return file, verifyFile(path, file)
}

func verifyFile(path string, file *runtime.File) *fbs.View {
	view, err := file.Verify()
	if err != nil {
		fail.On(explainImageError(path, file, err))
	}
	_, err = lmb.ReadNotes(view)
	failIf(hal.BadImage, path, err)
	return view
}

func describeImage(view *fbs.View, size int) *imageInfo {
	r, image := view.Reservation, lmb.Header(view)
	info := &imageInfo{
		Format: fmt.Sprintf("%d.%d", fbs.FormatMajor, fbs.FormatMinor),
		Bytes:  size,
		Origin: describeOrigin(image),
		Reservation: reservationInfo{r.ArenaBytes, r.HostBytes, r.PayloadBytes, r.Commands,
			runtime.LockedBytes(view, 4<<10, false), runtime.LockedBytes(view, 4<<10, true)},
		Tensors: report.Tensors(image), Warnings: safeWarnings(view),
	}
	for _, t := range image.Devices {
		device := deviceInfo{Board: t.Board,
			Vendor: fmt.Sprintf("%04x", t.Vendor), Device: fmt.Sprintf("%04x", t.Device),
			Bars: t.Bars, Subsystem: subsystemText(t.Subsystem)}
		if t.Interrupts == gen.InterruptKindMsi {
			device.MSIVectors = t.Vectors
		} else {
			device.MSIXVectors = t.Vectors
		}
		info.Devices = append(info.Devices, device)
	}
	for _, r := range image.Rules {
		rule := ruleInfo{r.Name, r.Device, r.Bar, r.First, r.Last, nil, r.Memory != 0}
		for width := uint8(1); width <= 8; width *= 2 {
			if r.Widths&width != 0 {
				rule.Widths = append(rule.Widths, int(width))
			}
		}
		info.Rules = append(info.Rules, rule)
	}
	for _, w := range image.Windows {
		window := windowInfo{w.Name, strings.ToLower(gen.EnumNamesWindowKind[w.Kind]), w.Device,
			w.Bar, w.Offset, w.Size, -1, fbs.FixedBusAddress(&w.Window)}
		if w.Kind == gen.WindowKindHost {
			window.Offset = 0
		}
		if w.Slot != fbs.AnySlot {
			window.Slot = int(w.Slot)
		}
		info.Windows = append(info.Windows, window)
	}
	for _, r := range image.Rings {
		info.Rings = append(info.Rings, report.Ring(r))
	}
	for i, counted := range report.SequenceCounts(view) {
		info.Sequences = append(info.Sequences,
			describeSequence(view, i, &counted, view.WorstCaseUs[i]))
	}
	return info
}

// subsystemText formats subsystem ids as lspci does; it is empty if any subsystem matches.
func subsystemText(ids uint32) string {
	if ids == 0 {
		return ""
	}
	return fmt.Sprintf("%04x:%04x", ids&0xffff, ids>>16)
}

func (r ruleInfo) String() string {
	widths := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Widths), " ", ", "), "[]")
	text := fmt.Sprintf("%s: BAR %d 0x%x to 0x%x, accesses of %s bytes", r.Name, r.Bar, r.First,
		r.Last, widths)
	if r.Memory {
		text += ", memory"
	}
	return text
}

func describeSequence(view *fbs.View, index int, r *report.Sequence, longest uint64) sequenceInfo {
	s := &view.Sequences[index]
	info := sequenceInfo{Name: view.Name(s.Name), Commands: uint32(r.Commands),
		Opcodes: map[string]int{},
		BytesIn: r.Written, BytesOut: r.Read + r.Compared, Host: r.HostBytes, WaitUs: r.WaitUs,
		LongestUs: longest}
	for i := range view.Commands[s.First : s.First+s.Count] {
		info.Opcodes[lmb.OpcodeName(lmb.CommandKind(&view.Commands[int(s.First)+i]))]++
	}
	return info
}

// String formats the information as text.
func (i *imageInfo) String() string {
	var b strings.Builder
	line := func(name, format string, a ...any) {
		printLine(&b, "%-12s %s", name, fmt.Sprintf(format, a...))
	}
	line("image", "format %s, size %s, including %s of payload", i.Format,
		lmb.SizeText(uint64(i.Bytes)), lmb.SizeText(i.Reservation.PayloadBytes))
	line("identity", "%s", i.identity)
	if i.SignedBy != "" {
		text := ""
		if i.Version != 0 {
			text = fmt.Sprintf("as version %d; ", i.Version)
		}
		line("signed", "%spublic key %s; lm verify --key checks the signature", text, i.SignedBy)
	}
	line("origin", "%s", i.Origin)
	if i.Origin.Verdict != "" {
		line("verdict", "%s", i.Origin.Verdict)
	}
	for _, t := range i.Devices {
		line("device", "%s", t)
	}
	for _, r := range i.Rules {
		line("rule", "%s", r)
	}
	line("reserves", "at load: arena %s, host memory %s",
		lmb.SizeText(i.Reservation.ArenaBytes), lmb.SizeText(i.Reservation.HostBytes))
	line("locks", "%s, with vfio: %s (ulimit -l %d), without -lock",
		lmb.SizeText(i.Reservation.LockedBytes), lmb.SizeText(i.Reservation.LockedVFIOBytes),
		i.Reservation.LockedVFIOBytes/1024)
	for _, w := range i.Windows {
		line("window", "%s", w)
	}
	for _, r := range i.Rings {
		line("ring", "%s: 0x%x to 0x%x, first 0x%x", r.Name, r.Begin, r.End, r.First)
	}
	for _, t := range i.Tensors {
		line(t.Role, "%s: %s[%s], %s%s", t.Name, t.DType, lmb.DimsText(t.Shape),
			lmb.SizeText(t.Bytes), dataText(&t))
	}
	for _, s := range i.Sequences {
		line("sequence", "%s: %s (%s); copies in %s, copies out %s, host memory %s; "+
			"waits at most %s, takes at most %s",
			s.Name, english.Count(int(s.Commands), "command"), opcodeText(s.Opcodes),
			lmb.SizeText(s.BytesIn), lmb.SizeText(s.BytesOut), lmb.SizeText(s.Host),
			lmb.WaitText(s.WaitUs), lmb.WaitText(s.LongestUs))
	}
	return b.String()
}

func (d deviceInfo) String() string {
	text := d.Board + ", PCI " + d.Vendor + ":" + d.Device
	if d.Subsystem != "" {
		text += ", subsystem " + d.Subsystem
	}
	text += barText(d.Bars)
	if d.MSIVectors != 0 {
		text += fmt.Sprintf(", needs %d MSI vectors", d.MSIVectors)
	}
	if d.MSIXVectors != 0 {
		text += fmt.Sprintf(", needs %d MSI-X vectors", d.MSIXVectors)
	}
	return text
}

func (w windowInfo) String() string {
	text := w.Name + ": "
	if w.Name == "" {
		text = ""
	}
	size := lmb.SizeText(w.Size)
	switch w.Kind {
	case "bar":
		return text + fmt.Sprintf("BAR %d from 0x%x, %s", w.Bar, w.Offset, size)
	case "tlb":
		if w.Slot >= 0 {
			return text + fmt.Sprintf("movable, %s, preferably TLB window %d", size, w.Slot)
		}
		return text + fmt.Sprintf("movable, %s", size)
	}
	if w.Bus != 0 {
		return text + fmt.Sprintf("%s, %s, at bus address 0x%x", w.Kind, size, w.Bus)
	}
	return text + fmt.Sprintf("%s, %s", w.Kind, size)
}

func barText(bars [6]uint64) string {
	text := ""
	for i, size := range bars {
		if size != 0 {
			text += fmt.Sprintf(", BAR %d of at least %s", i, lmb.SizeText(size))
		}
	}
	return text
}

// dataText names the data of a tensor that the image has.
func dataText(t *report.Tensor) string {
	switch {
	case !t.HasData:
		return ""
	case t.Role == "output":
		return ", golden data"
	}
	return ", default data"
}

// opcodeText lists how many commands of each kind there are.
func opcodeText(counts map[string]int) string {
	var parts []string
	for _, op := range lmb.CommandKinds {
		if n := counts[lmb.OpcodeName(op)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, lmb.OpcodeName(op)))
		}
	}
	return strings.Join(parts, ", ")
}
