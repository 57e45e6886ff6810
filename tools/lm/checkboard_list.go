package main

import (
	_ "embed"
	"fmt"
	"strings"
	"text/tabwriter"

	"lightmetal/boards"
	"lightmetal/boards/hosts"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// factInfo is one thing that is known of a board, as JSON has it.
type factInfo struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source,omitempty"`
	Tried  bool   `json:"tried"` // false: only read in its source
}

func (f factInfo) String() string {
	how := map[bool]string{true: "tried", false: "read"}[f.Tried]
	if f.Source == "" {
		return "unknown  " + f.Name
	}
	return fmt.Sprintf("%-8s %s: %s\n%9s%-5s %s", how, f.Name, f.Value, "", "from", f.Source)
}

// hostInfo is a board of --list --json; its fields are stable.
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
			list = append(list, hostInfo{h.Name, h.Title, hostFacts(h), optionNames(h), fitting(h)})
		}
		printJSON(stdout, list)
		return
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BOARD\tWHAT\tPCIE\tWORMHOLE\tBLACKHOLE\tWRITE-COMBINING\tDMA\tIOMMU\tBOOT")
	for _, h := range hosts.All() {
		fits := strings.Join(fitting(h), " ")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Name, h.Title, bestPort(h),
			yesNo(strings.Contains(fits, "wormhole")),
			yesNo(strings.Contains(fits, "blackhole")),
			h.WriteCombining, h.Coherence, h.IOMMU, h.Boot)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "These values are from device trees, manuals and reports. Only those of "+
		"QEMU were tested here, and")
	fmt.Fprintln(w, "none with an accelerator. lm check-board BOARD prints the source of "+
		"each. Without BOARD,")
	fmt.Fprintln(w, "lm check-board checks this machine: trust its results more than this table.")
	fail.On(w.Flush())
}

func yesNo(b bool) string {
	if b {
		return "fits"
	}
	return "no room"
}

// fitting lists the boards that fit a port of a host.
func fitting(h *hosts.Host) (names []string) {
	for _, b := range boards.All {
		if fit := h.Fit(b, [6]uint64{}); len(fit.Rooms) > 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// bestPort is the port with the most lanes.
func bestPort(h *hosts.Host) string {
	best := &h.Ports[0]
	for i := range h.Ports {
		if h.Ports[i].Lanes.Value > best.Lanes.Value {
			best = &h.Ports[i]
		}
	}
	return linkText(best)
}

func linkText(p *hosts.Port) string {
	gen, lanes := "Gen?", "x?"
	if p.Gen.Known() {
		gen = fmt.Sprintf("Gen%d", p.Gen.Value)
	}
	if p.Lanes.Known() {
		lanes = fmt.Sprintf("x%d", p.Lanes.Value)
	}
	return gen + " " + lanes
}

func portText(p *hosts.Port) string {
	text := p.Name + ", " + linkText(p)
	if p.Where != "" {
		text += ", " + p.Where
	}
	return text
}

func windowsText(p *hosts.Port) string {
	var parts []string
	for _, w := range p.Windows.Value {
		kind := "32-bit"
		if w.PCI+w.Size > 1<<32 {
			kind = "64-bit"
		}
		if w.Prefetchable {
			kind += " prefetchable"
		}
		parts = append(parts, fmt.Sprintf("%s of %s at 0x%x, from the processor 0x%x", kind,
			lmb.SizeText(w.Size), w.PCI, w.CPU))
	}
	return strings.Join(parts, "; ")
}

func optionNames(h *hosts.Host) (names []string) {
	for _, o := range hosts.KernelOptions(h) {
		names = append(names, o.Name)
	}
	return names
}

// hostFacts is everything that is known of a host, in words, with sources.
func hostFacts(h *hosts.Host) (list []factInfo) {
	put := func(name, value, source string) {
		if source == "" {
			value = "unknown"
		}
		list = append(list, factInfo{name, value, source,
			strings.HasPrefix(source, hosts.Measured)})
	}
	for i := range h.Ports {
		p := &h.Ports[i]
		put("port", portText(p)+"; windows: "+windowsText(p),
			sources(p.Gen.Source, p.Lanes.Source, p.Windows.Source))
	}
	put("write-combining", h.WriteCombining.String(), h.WriteCombining.Source)
	put("8-byte accesses", h.Wide.String(), h.Wide.Source)
	put("memory of a device", h.Coherence.String(), h.Coherence.Source)
	put("inbound windows", inboundText(h.Inbound.Value), h.Inbound.Source)
	put("IOMMU", h.IOMMU.String(), h.IOMMU.Source)
	put("page size of its kernel", lmb.SizeText(h.PageSize.Value), h.PageSize.Source)
	put("boots", h.Boot.String(), h.Boot.Source)
	put("console", h.Console.Value, h.Console.Source)
	put("device tree", h.DeviceTree.Value, h.DeviceTree.Source)
	put("kernel load address", fmt.Sprintf("0x%x", h.LoadAddress.Value), h.LoadAddress.Source)
	put("kernel options", strings.Join(optionNames(h), " "), "boards/hosts")
	return list
}

func inboundText(list []hosts.Inbound) string {
	if len(list) == 0 {
		return "all of memory, at its address"
	}
	return english.Join(list, "; ", func(in hosts.Inbound) string {
		return fmt.Sprintf("%s from 0x%x, seen at 0x%x", lmb.SizeText(in.Size), in.CPU, in.PCI)
	})
}

// sources joins what is there, each once.
func sources(list ...string) string {
	var kept []string
	for _, s := range list {
		if s != "" && !strings.Contains(strings.Join(kept, "\n"), s) {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "; ")
}

// collectScript copies what a report of a machine reads. Files of /proc and
// /sys have no size to go by, so that tar copies nothing, or zeros, of them.
//
//go:embed collect.sh
var collectScript string
