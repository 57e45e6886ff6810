package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"lightmetal/boards"
	"lightmetal/boards/hosts"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// factInfo is a known fact about a board.
type factInfo struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source,omitempty"`
	Measured bool   `json:"tried"` // true: measured; false: only read in the source
}

// print prints the fact, and its source in a second line.
func (f *factInfo) print(w io.Writer) {
	if f.Source == "" {
		printLine(w, "unknown  %s", f.Name)
		return
	}
	how := map[bool]string{true: "tried", false: "read"}[f.Measured]
	printLine(w, "%-8s %s: %s", how, f.Name, f.Value)
	printLine(w, "%9s%-5s %s", "", "from", f.Source)
}

// hostInfo describes a board in the output of --list --json; its fields are stable.
type hostInfo struct {
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	Facts   []factInfo `json:"facts"`
	Options []string   `json:"kernel_options"`
	Fits    []string   `json:"fits"` // boards that fit a port
}

func listHosts() {
	if asJSON {
		var list []hostInfo
		for _, h := range hosts.All() {
			list = append(list,
				hostInfo{h.Name, h.Title, hostFacts(h), optionNames(h), fittingBoards(h)})
		}
		printJSON(stdout, list)
		return
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BOARD\tTITLE\tWIDEST PORT\tWORMHOLE\tBLACKHOLE\t"+
		"WRITE-COMBINING\tDMA COHERENCE\tIOMMU\tBOOTS")
	for _, h := range hosts.All() {
		fits := strings.Join(fittingBoards(h), " ")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Name, h.Title, widestPortText(h),
			fitsText(strings.Contains(fits, "wormhole")),
			fitsText(strings.Contains(fits, "blackhole")),
			h.WriteCombining, h.Coherence, h.IOMMU, h.Boot)
	}
	fmt.Fprint(w, "\nThese values are from device trees, manuals and reports. ",
		"The values of QEMU were tested, the others not;\n",
		"no value was tested with an accelerator. ",
		"lm check-board BOARD prints the source of each value.\n",
		"lm check-board without BOARD checks this machine, ",
		"and is more reliable than this table.\n")
	fail.On(w.Flush())
}

func fitsText(b bool) string {
	if b {
		return "fits"
	}
	return "no room"
}

// fittingBoards returns the names of the boards that fit a port of a host.
func fittingBoards(h *hosts.Host) (names []string) {
	for _, b := range boards.All {
		if fit := h.FitDevice(b, [6]uint64{}); len(fit.Placements) > 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// widestPortText returns the text for the port with the most lanes.
func widestPortText(h *hosts.Host) string {
	best := &h.Ports[0]
	for i := range h.Ports {
		if h.Ports[i].LaneCount.Value > best.LaneCount.Value {
			best = &h.Ports[i]
		}
	}
	return linkText(best)
}

func linkText(p *hosts.Port) string {
	gen, lanes := "Gen?", "x?"
	if p.Generation.IsKnown() {
		gen = fmt.Sprintf("Gen%d", p.Generation.Value)
	}
	if p.LaneCount.IsKnown() {
		lanes = fmt.Sprintf("x%d", p.LaneCount.Value)
	}
	return gen + " " + lanes
}

func portText(p *hosts.Port) string {
	text := p.Name + ", " + linkText(p)
	if p.ConnectedTo != "" {
		text += ", " + p.ConnectedTo
	}
	return text
}

func windowsText(p *hosts.Port) string {
	var parts []string
	for _, w := range p.Windows.Value {
		kind := "32-bit"
		if w.PCIAddress+w.Size > 1<<32 {
			kind = "64-bit"
		}
		if w.Prefetchable {
			kind += " prefetchable"
		}
		parts = append(parts, fmt.Sprintf("%s of %s at PCI address 0x%x, CPU address 0x%x", kind,
			lmb.SizeText(w.Size), w.PCIAddress, w.CPUAddress))
	}
	return strings.Join(parts, "; ")
}

func optionNames(h *hosts.Host) (names []string) {
	for _, o := range hosts.KernelOptions(h) {
		names = append(names, o.Name)
	}
	return names
}

// hostFacts returns all known facts about a host, with their sources.
func hostFacts(h *hosts.Host) (list []factInfo) {
	for i := range h.Ports {
		p := &h.Ports[i]
		list = append(list, newFact("port", portText(p)+"; windows: "+windowsText(p),
			joinSources(p.Generation.Source, p.LaneCount.Source, p.Windows.Source)))
	}
	return append(list,
		newFact("write-combining", h.WriteCombining.String(), h.WriteCombining.Source),
		newFact("8-byte accesses", h.WideAccess.String(), h.WideAccess.Source),
		newFact("DMA coherence", h.Coherence.String(), h.Coherence.Source),
		newFact("inbound windows", inboundText(h.Inbound.Value), h.Inbound.Source),
		newFact("IOMMU", h.IOMMU.String(), h.IOMMU.Source),
		newFact("kernel page size", lmb.SizeText(h.PageSize.Value), h.PageSize.Source),
		newFact("boots", h.Boot.String(), h.Boot.Source),
		newFact("console", h.Console.Value, h.Console.Source),
		newFact("device tree", h.DeviceTree.Value, h.DeviceTree.Source),
		newFact("kernel load address", fmt.Sprintf("0x%x", h.LoadAddress.Value),
			h.LoadAddress.Source),
		newFact("kernel options", strings.Join(optionNames(h), " "), "boards/hosts"))
}

// newFact returns a fact. Its value is unknown if it has no source.
func newFact(name, value, source string) factInfo {
	if source == "" {
		value = "unknown"
	}
	return factInfo{name, value, source, strings.HasPrefix(source, hosts.Measured)}
}

func inboundText(list []hosts.InboundRange) string {
	if len(list) == 0 {
		return "all memory; PCI address = CPU address"
	}
	return english.Join(list, "; ", func(in hosts.InboundRange) string {
		return fmt.Sprintf("%s from CPU address 0x%x, at PCI address 0x%x", lmb.SizeText(in.Size),
			in.CPUAddress, in.PCIAddress)
	})
}

// joinSources joins the sources that are not empty, each once.
func joinSources(list ...string) string {
	var kept []string
	for _, s := range list {
		if s != "" && !strings.Contains(strings.Join(kept, "\n"), s) {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "; ")
}

// collectScript is a script that copies the files that lm check-board reads. It uses cat instead of
// tar: files of /proc and /sys report no size, so tar would copy nothing, or zeros.
//
//go:embed collect.sh
var collectScript string
