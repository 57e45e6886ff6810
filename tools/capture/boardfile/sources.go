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

// DeviceFiles are the files of a device's folder that FromDevice reads: first the
// ids, then the BARs.
var DeviceFiles = [...]string{"vendor", "device", "subsystem_vendor", "subsystem_device",
	"resource"}

// FromDevice describes a PCI device by its folder under /sys/bus/pci/devices.
// A prefetchable BAR has no side effects by PCI's own definition, and is memory;
// every other one has 32-bit registers.
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

// Known is the error about a device that there is a board for.
type Known struct{ Board *boards.Board }

func (e *Known) Error() string {
	return fmt.Sprintf("%04x:%04x is board %s, which has its own rules; use --board %s",
		e.Board.Vendor,
		e.Board.Device, e.Board.Name, e.Board.Name)
}

// imageOf makes a board file's image of ids, BARs and the rules that differ from
// plain registers.
func imageOf(b *boards.Board, over []boards.AccessRule) (*lmb.Image, error) {
	if known := boards.FindByID(b.Vendor, b.Device); known != nil {
		return nil, &Known{known}
	}
	b.Name = fmt.Sprintf("pci-%04x-%04x", b.Vendor, b.Device)
	rules, err := overlay(plain(b.BarSizes), over)
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

// FromRecord describes the device of a recording: the widths that were used where
// they were, and 32-bit registers elsewhere. What is memory no recording tells.
func FromRecord(r io.Reader, device string) (*lmb.Image, error) {
	var c *record.Capture
	var seen [6]map[uint64]uint8 // widths by 8 bytes of the BAR
	err := record.Each(r, device, func(header *record.Capture) error { c = header; return nil },
		func(rec *record.Record) error {
			if rec.Kind != record.BarRead && rec.Kind != record.BarWrite {
				return nil
			}
			if seen[rec.Bar] == nil {
				seen[rec.Bar] = map[uint64]uint8{}
			}
			return traces.Single(&traces.Access{Offset: rec.Offset, Width: rec.Width}, rec.Data,
				func(a *traces.Access) error {
					seen[rec.Bar][a.Offset/8] |= a.Width
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
		over = append(over, runs(uint8(bar), seen[bar], b.BarSizes[bar])...)
	}
	return imageOf(b, over)
}

// runsMax is how many rules are made of one BAR at most: beyond that larger
// pieces of it are taken for alike.
const runsMax = 24

// runs makes rules of what was not accessed by 32 bits alone. Neighbours of the
// same widths are one.
func runs(bar uint8, seen map[uint64]uint8, size uint64) (rules []boards.AccessRule) {
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
		if len(rules) <= runsMax || piece >= size {
			break
		}
	}
	if n := len(rules); n > 0 && size > rules[n-1].First {
		rules[n-1].Last = min(rules[n-1].Last, size-1)
		rules[n-1] = whole(rules[n-1])
	}
	return rules
}

// ForImage gives the rules of a board file, or those of a generic device, to the
// targets of an image that no board has the ids of and that have none.
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
		return fmt.Errorf("%d rules of all devices are too many: an image may have %d",
			len(image.Rules), fbs.RulesMax)
	}
	return nil
}
