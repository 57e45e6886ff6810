package importer

// This file assigns host windows the addresses of the recording, if the tiles reach host memory at
// addresses that the recorded program stores nowhere. Kernels then have these addresses compiled
// in, as those of tt-metal's queues have, and a replay must have its host memory there.

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// hostFixer is the pass that makes host windows with fixed bus addresses.
type hostFixer struct {
	*program
	clusters []hostCluster
	old      []hostSpace // host memory that was there before
	windowTo []uint16    // the new number of each window
	hostTo   []int       // the new number of host memory that no cluster replaces
}

// hostCluster is a range of host memory that tiles reach, at their addresses. Pages that nothing
// reaches are part of it if they are near.
type hostCluster struct {
	first, end uint64
	toBus      uint64 // from the address that a tile uses to the address on the bus
	pointed    bool   // the program stores an address in it
	like       int    // one of the old hosts
	host       int    // in program.hosts
}

func (f *hostFixer) run() (out outcome, err error) {
	if len(f.hosts) == 0 {
		return out, nil
	}
	f.eachPointer(f.touch)
	if f.findClusters(); len(f.clusters) == 0 {
		return out, nil
	}
	f.eachPointer(func(value uint64) {
		if i := f.clusterAt(value); i >= 0 {
			f.clusters[i].pointed = true
		}
	})
	computed := slices.IndexFunc(f.clusters, func(c hostCluster) bool { return !c.pointed })
	if computed < 0 && !f.o.FixedHost {
		return out, nil
	}
	reason := ""
	if computed >= 0 {
		reason = fmt.Sprintf(", because the device reaches 0x%x, an address that the program "+
			"never stores",
			f.clusters[computed].first)
	}
	if err := f.limitClusters(); err != nil {
		return out, err
	}
	windows := f.windows
	f.replaceHosts()
	f.moveSteps(windows)
	out.did = fmt.Sprintf("%s with the bus addresses of the recording%s",
		english.Count(len(f.clusters), "host window"), reason)
	return out, nil
}

// limitClusters joins the nearest clusters until the device can map all of them.
func (f *hostFixer) limitClusters() error {
	most := f.board.Outbound.RegionCount
	for gap := uint64(hostApart); len(f.clusters) > most && gap <= hostSizeMax; gap *= 2 {
		f.joinNear(gap)
	}
	if n := len(f.clusters); n > most {
		return traces.Refuse(0, "the device reaches host memory in %d places that are far apart; "+
			"%s can map %d", n, f.board.Name, most)
	}
	for _, c := range f.clusters {
		if c.end-c.first > hostSizeMax {
			return tooMuch(0, c.first, c.end-c.first)
		}
	}
	return nil
}

// findClusters finds the host memory that tiles reach, in the order of its addresses.
func (f *hostFixer) findClusters() {
	for i := range f.hosts {
		h := &f.hosts[i]
		for page := range h.pages {
			if first := h.firstAddress() + page*hostPageSize; f.replaces(h) {
				f.clusters = append(f.clusters, hostCluster{first: first,
					end: first + hostPageSize, toBus: h.bus - h.firstAddress(), like: i})
			}
		}
	}
	slices.SortFunc(f.clusters, func(a, b hostCluster) int { return cmp.Compare(a.first, b.first) })
	f.joinNear(hostApart)
}

// replaces reports whether clusters take the place of host memory: tiles reach it.
func (f *hostFixer) replaces(h *hostSpace) bool {
	return h.whole || h.exact && f.board.Outbound != nil
}

// joinNear makes one cluster of those with less than a gap between them.
func (f *hostFixer) joinNear(gap uint64) {
	joined := f.clusters[:0]
	for _, c := range f.clusters {
		if n := len(joined); n > 0 && c.first < joined[n-1].end+gap &&
			c.toBus == joined[n-1].toBus {
			joined[n-1].end = max(joined[n-1].end, c.end)
			continue
		}
		joined = append(joined, c)
	}
	f.clusters = joined
}

// clusterAt returns the number of the cluster that contains an address of the tiles, or -1.
func (f *hostFixer) clusterAt(address uint64) int {
	return slices.IndexFunc(f.clusters, func(c hostCluster) bool {
		return address >= c.first && address < c.end
	})
}

// touch notes a page that a value points to. A recording of a program does not have what the
// device only reads.
func (f *hostFixer) touch(value uint64) {
	if i, inside := f.hostAddress(value, 8); i >= 0 && f.hosts[i].exact {
		f.hosts[i].page(inside)
	}
}

// eachPointer calls a function with each value of the size of an address that the program stores.
func (f *hostFixer) eachPointer(do func(value uint64)) {
	each := func(list []hostStore) {
		for _, s := range list {
			for _, value := range s.quadwords() {
				do(value)
			}
		}
	}
	for i := range f.steps.n {
		s := f.steps.at(i)
		for k := uint32(0); s.op == stepStore && s.width == 8 && k < s.run(); k++ {
			do(f.datum(s, k))
		}
	}
	for i := range f.hosts {
		each(f.hosts[i].first)
	}
	for _, list := range f.late {
		each(list)
	}
}

// replaceHosts makes host memory and a window of each cluster. They take the place of all host
// memory that tiles reach, and follow the other windows.
func (f *hostFixer) replaceHosts() {
	f.old, f.hosts = f.hosts, nil
	windows := f.windows
	f.windows = nil
	f.windowTo, f.hostTo = make([]uint16, len(windows)), make([]int, len(f.old))
	for i, w := range windows {
		f.windowTo[i] = uint16(len(f.windows))
		if w.Kind != gen.WindowKindHost {
			f.windows = append(f.windows, w)
		} else if number := w.bar - hostBar; !f.replaces(&f.old[number]) {
			f.hostTo[number] = len(f.hosts)
			f.addHost(f.old[number])
		}
	}
	for i := range f.clusters {
		c := &f.clusters[i]
		c.host = len(f.hosts)
		h := f.old[c.like]
		h.name, h.bus, h.seen = fmt.Sprintf("host%d", i), c.first+c.toBus, c.first
		h.size, h.low, h.fixed, h.first = c.end-c.first, 0, true, nil
		f.addHost(h)
		w := &f.windows[len(f.windows)-1]
		w.Flags, w.Offset = fbs.FlagFixedBus, c.first
	}
	for i := range f.old {
		for _, s := range f.old[i].first {
			if f.replaces(&f.old[i]) {
				f.move(&s)
				f.hosts[s.host].first = append(f.hosts[s.host].first, s)
			}
		}
	}
}

// move changes a store to the host memory that took the place of its own.
func (f *hostFixer) move(s *hostStore) {
	h := &f.old[s.host]
	if !f.replaces(h) {
		s.host = f.hostTo[s.host]
		return
	}
	c := &f.clusters[f.clusterAt(h.firstAddress()+s.offset)]
	s.host, s.offset = c.host, h.firstAddress()+s.offset-c.first
}

// moveSteps changes all steps to the windows that took the place of theirs.
func (f *hostFixer) moveSteps(windows []window) {
	for i := range f.steps.n {
		s := f.steps.at(i)
		switch {
		case !s.touches():
		case windows[s.window].Kind != gen.WindowKindHost:
			s.window = f.windowTo[s.window]
		default:
			at := hostStore{host: int(windows[s.window].bar - hostBar), offset: uint64(s.offset)}
			f.move(&at)
			s.window, s.offset = f.hosts[at.host].window, uint32(at.offset)
		}
	}
	for _, list := range f.late {
		for k := range list {
			f.move(&list[k])
		}
	}
	for i := range f.running {
		f.running[i].window = f.windowTo[f.running[i].window]
	}
}
