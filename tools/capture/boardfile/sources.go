package boardfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/lmb"
)

// Flags of a BAR in sysfs (linux/ioport.h).
const (
	resourceMemory       = 0x200
	resourcePrefetchable = 0x2000
)

// DeviceFiles are the files of a device's directory that FromDevice reads: the ids, then the BARs.
var DeviceFiles = [...]string{"vendor", "device", "subsystem_vendor", "subsystem_device",
	"resource"}

// FromDevice describes a PCI device by its directory under /sys/bus/pci/devices. By the PCI
// specification, a prefetchable BAR has no side effects, so it is memory; every other BAR has
// 32-bit registers.
func FromDevice(folder string) (*lmb.Image, error) {
	var ids [4]uint64
	for i, name := range DeviceFiles[:4] {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			ids[i], err = strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
		}
		if err != nil && (i < 2 || !errors.Is(err, os.ErrNotExist)) {
			return nil, fmt.Errorf("%s is not a PCI device under /sys: %w", folder, err)
		}
	}
	b := &boards.Board{Vendor: uint16(ids[0]), Device: uint16(ids[1])}
	text, err := os.ReadFile(filepath.Join(folder, DeviceFiles[4]))
	if err != nil {
		return nil, err
	}
	var over []boards.AccessRule
	for bar, line := range strings.Split(string(text), "\n") {
		var first, last, flags uint64
		if n, _ := fmt.Sscanf(line, "%v %v %v", &first, &last, &flags); bar > 5 || n != 3 ||
			flags&resourceMemory == 0 || last <= first {
			continue
		}
		b.BarSizes[bar] = last - first + 1
		if flags&resourcePrefetchable != 0 {
			over = append(over, boards.AccessRule{Bar: uint8(bar), Last: last - first, Widths: 15,
				IsMemory: true, Name: memory})
		}
	}
	image, err := imageOf(b, over)
	if err == nil {
		image.Devices[0].Subsystem = uint32(ids[3])<<16 | uint32(ids[2])
	}
	return image, err
}

// Known is the error for a device for which package boards has a board.
type Known struct{ Board *boards.Board }

func (e *Known) Error() string {
	return fmt.Sprintf("%04x:%04x is board %s, which has its own rules; use --board %s",
		e.Board.Vendor,
		e.Board.Device, e.Board.Name, e.Board.Name)
}

// imageOf returns the image of a board file from ids, BAR sizes, and the rules that differ from
// plain registers.
func imageOf(b *boards.Board, over []boards.AccessRule) (*lmb.Image, error) {
	if known := boards.FindByID(b.Vendor, b.Device); known != nil {
		return nil, &Known{known}
	}
	b.Name = fmt.Sprintf("pci-%04x-%04x", b.Vendor, b.Device)
	rules, err := overlay(registerRules(b.BarSizes), over)
	if err != nil {
		return nil, err
	}
	if len(rules) == 0 {
		return nil, errors.New("the device has no memory BAR")
	}
	b.Rules = rules
	return &lmb.Image{
		Devices: []lmb.Device{{Board: b.Name, Vendor: b.Vendor, Device: b.Device,
			Bars: b.BarSizes}},
		Rules: lmb.RulesOf(b, 0, b.BarSizes),
	}, nil
}

// FromRecord describes the device of a recording. Rules accept the recorded widths at the recorded
// offsets, and 32-bit accesses elsewhere. A recording does not show which ranges are memory.
func FromRecord(r io.Reader, device string) (*lmb.Image, error) {
	var c *record.Capture
	var widths [6]map[uint64]uint8 // for each BAR: widths of the accesses, by offset / 8
	err := record.EachRecord(r, device,
		func(header *record.Capture) error { c = header; return nil },
		func(rec *record.Record) error {
			if rec.Kind != record.BarRead && rec.Kind != record.BarWrite {
				return nil
			}
			if widths[rec.Bar] == nil {
				widths[rec.Bar] = map[uint64]uint8{}
			}
			return traces.EachAccess(&traces.Access{Offset: rec.Offset, Width: rec.Width}, rec.Data,
				func(a *traces.Access) error {
					widths[rec.Bar][a.Offset/8] |= a.Width
					return nil
				})
		})
	if err != nil && !record.Incomplete(err) {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("the recording has no device: %w", err)
	}
	b := &boards.Board{Vendor: c.Vendor, Device: c.Device}
	var over []boards.AccessRule
	for bar := range b.BarSizes {
		b.BarSizes[bar] = c.Bars[bar].Size
		over = append(over, rulesOfWidths(uint8(bar), widths[bar], b.BarSizes[bar])...)
	}
	return imageOf(b, over)
}

// rulesPerBarMax is the maximum number of rules for one BAR. If there are more, rulesOfWidths takes
// larger blocks of the BAR.
const rulesPerBarMax = 24

// rulesOfWidths returns rules for the blocks of a BAR with accesses of other widths than 32 bits.
// Adjacent blocks with the same widths become one rule.
func rulesOfWidths(bar uint8, seen map[uint64]uint8, size uint64) (rules []boards.AccessRule) {
	for piece := uint64(8); ; piece *= 8 {
		pieces := map[uint64]uint8{}
		for word, widths := range seen {
			pieces[word*8/piece] |= widths
		}
		rules = rules[:0]
		for _, at := range slices.Sorted(maps.Keys(pieces)) {
			widths := pieces[at]
			if widths == 4 {
				continue
			}
			if n := len(rules); n > 0 && rules[n-1].Widths == widths &&
				rules[n-1].Last+1 == at*piece {
				rules[n-1].Last = (at+1)*piece - 1
				continue
			}
			rules = append(rules, boards.AccessRule{Bar: bar, First: at * piece,
				Last:   (at+1)*piece - 1,
				Widths: widths, Name: fmt.Sprintf("at 0x%x", at*piece)})
		}
		if len(rules) <= rulesPerBarMax || piece >= size {
			break
		}
	}
	if n := len(rules); n > 0 && size > rules[n-1].First {
		rules[n-1].Last = min(rules[n-1].Last, size-1)
		rules[n-1] = alignRule(rules[n-1])
	}
	return rules
}

// ForImage adds the rules of a board to the devices of an image that have no rules, and whose ids
// belong to no known board and differ from none of `b`.
func ForImage(image *lmb.Image, b *boards.Board) error {
	for i := range image.Devices {
		t := &image.Devices[i]
		has := slices.ContainsFunc(image.Rules, func(r lmb.Rule) bool { return int(r.Device) == i })
		if has || boards.FindByID(t.Vendor, t.Device) != nil ||
			cmp.Or(b.Vendor, t.Vendor) != t.Vendor || cmp.Or(b.Device, t.Device) != t.Device {
			continue
		}
		image.Rules = append(image.Rules, lmb.RulesOf(b, uint8(i), t.Bars)...)
	}
	slices.SortFunc(image.Rules, lmb.CompareRules)
	if len(image.Rules) > fbs.RulesMax {
		return fmt.Errorf("the devices have %d access rules, but an image may have at most %d: "+
			"use fewer or larger ranges in --rule", len(image.Rules), fbs.RulesMax)
	}
	return nil
}
