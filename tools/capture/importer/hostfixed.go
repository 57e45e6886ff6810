package importer

// Tiles may access host memory at addresses that the recorded program does not store. Such
// addresses are compiled into kernels, like those of tt-metal's queues. A replay must use the same
// addresses, so host windows keep the addresses of the recording.

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/english"
)

// hostFixer is the pass that makes host windows with fixed bus addresses.
type hostFixer struct {
	*program
	clusters       []hostCluster
	oldSpaces      []hostSpace // previous program.hostSpaces
	newWindowIndex []uint16    // for each previous window, its new index
	// For each previous host memory that no cluster replaces, its new index
	newSpaceIndex []int
}

// hostCluster is a range of addresses at which tiles access host memory. It includes small gaps
// between accessed pages.
type hostCluster struct {
	first, end uint64
	busOffset  uint64 // add to an address of a tile to get the bus address
	hasPointer bool   // the program stores an address that lies in it
	oldSpace   int    // index into oldSpaces of a host memory that it replaces
	host       int    // index into program.hostSpaces
}

func (f *hostFixer) run() (out passResult, err error) {
	if len(f.hostSpaces) == 0 {
		return out, nil
	}
	f.eachPointer(f.addPointedPage)
	if f.findClusters(); len(f.clusters) == 0 {
		return out, nil
	}
	f.eachPointer(func(value uint64) {
		if i := f.clusterAt(value); i >= 0 {
			f.clusters[i].hasPointer = true
		}
	})
	computed := slices.IndexFunc(f.clusters, func(c hostCluster) bool { return !c.hasPointer })
	if computed < 0 && !f.options.FixedHost {
		return out, nil
	}
	reason := ""
	if computed >= 0 {
		reason = fmt.Sprintf(", because the device reaches 0x%x, "+
			"an address that the program never stores",
			f.clusters[computed].first)
	}
	if err := f.limitClusters(); err != nil {
		return out, err
	}
	windows := f.windows
	f.replaceHosts()
	f.moveSteps(windows)
	out.summary = fmt.Sprintf("%s with the bus addresses of the recording%s",
		english.Count(len(f.clusters), "host window"), reason)
	return out, nil
}

// limitClusters joins near clusters until the device has enough regions for all of them.
func (f *hostFixer) limitClusters() error {
	most := hostsMax
	if f.board.Outbound != nil {
		most = f.board.Outbound.RegionCount
	}
	for gap := uint64(hostBlockSize); len(f.clusters) > most && gap <= hostSizeMax; gap *= 2 {
		f.joinNear(gap)
	}
	if n := len(f.clusters); n > most {
		return traces.TraceError(0,
			"the device reaches host memory in %d places that are far apart, "+
				"but board %s can map only %d places", n, f.board.Name, most)
	}
	for _, c := range f.clusters {
		if c.end-c.first > hostSizeMax {
			return tooLargeError(0, c.first, c.end-c.first)
		}
	}
	return nil
}

// findClusters finds the host memory that tiles access, sorted by address.
func (f *hostFixer) findClusters() {
	for i := range f.hostSpaces {
		h := &f.hostSpaces[i]
		if !f.isReplaced(h) {
			continue
		}
		for _, offset := range h.pages.Addresses() {
			first := h.firstAddress() + offset
			f.clusters = append(f.clusters, hostCluster{first: first,
				end: first + record.PageSize, busOffset: h.bus - h.firstAddress(), oldSpace: i})
		}
	}
	slices.SortFunc(f.clusters, func(a, b hostCluster) int { return cmp.Compare(a.first, b.first) })
	f.joinNear(hostBlockSize)
}

// isReplaced reports whether clusters replace a host memory: tiles access it, or the user wants it.
func (f *hostFixer) isReplaced(h *hostSpace) bool {
	return h.throughIATU || h.exact && (f.board.Outbound != nil || f.options.FixedHost)
}

// joinNear joins clusters if the gap between them is smaller than `gap`.
func (f *hostFixer) joinNear(gap uint64) {
	joined := f.clusters[:0]
	for _, c := range f.clusters {
		if n := len(joined); n > 0 && c.first < joined[n-1].end+gap &&
			c.busOffset == joined[n-1].busOffset {
			joined[n-1].end = max(joined[n-1].end, c.end)
			continue
		}
		joined = append(joined, c)
	}
	f.clusters = joined
}

// clusterAt returns the index of the cluster that contains an address of the tiles, or -1.
func (f *hostFixer) clusterAt(address uint64) int {
	return slices.IndexFunc(f.clusters, func(c hostCluster) bool {
		return address >= c.first && address < c.end
	})
}

// addPointedPage adds the page that a value points to. A recording lacks pages that the device only
// reads.
func (f *hostFixer) addPointedPage(value uint64) {
	if i, inside := f.findHostAddress(value, 8); i >= 0 && f.hostSpaces[i].exact {
		f.hostSpaces[i].pages.Touch(inside)
	}
}

// eachPointer calls `do` with each 8-byte value that the program stores.
func (f *hostFixer) eachPointer(do func(value uint64)) {
	each := func(list []hostStore) {
		for _, s := range list {
			for _, value := range s.quadwords() {
				do(value)
			}
		}
	}
	for i := range f.steps.count {
		s := f.steps.at(i)
		for k := uint32(0); s.op == stepStore && s.width == 8 && k < s.elementCount(); k++ {
			do(f.valueOf(s, k))
		}
	}
	for i := range f.hostSpaces {
		each(f.hostSpaces[i].initialStores)
	}
	for _, list := range f.hostStoreLists {
		each(list)
	}
}

// replaceHosts adds a host memory and a window for each cluster, after all other windows. They
// replace all host memory that tiles access.
func (f *hostFixer) replaceHosts() {
	f.oldSpaces, f.hostSpaces = f.hostSpaces, nil
	windows := f.windows
	f.windows = nil
	f.newWindowIndex, f.newSpaceIndex = make([]uint16, len(windows)), make([]int, len(f.oldSpaces))
	for i, w := range windows {
		f.newWindowIndex[i] = uint16(len(f.windows))
		if w.Kind != gen.WindowKindHost {
			f.windows = append(f.windows, w)
		} else if number := w.bar - hostBarBase; !f.isReplaced(&f.oldSpaces[number]) {
			f.newSpaceIndex[number] = len(f.hostSpaces)
			f.addHostSpace(f.oldSpaces[number])
		}
	}
	for i := range f.clusters {
		c := &f.clusters[i]
		c.host = len(f.hostSpaces)
		h := f.oldSpaces[c.oldSpace]
		h.name, h.bus, h.deviceAddress = fmt.Sprintf("host%d", i), c.first+c.busOffset, c.first
		h.size, h.firstOffset, h.keepsAddress, h.initialStores = c.end-c.first, 0, true, nil
		f.addHostSpace(h)
		w := &f.windows[len(f.windows)-1]
		w.Flags, w.Offset = fbs.FlagFixedBus, c.first
	}
	for i := range f.oldSpaces {
		for _, s := range f.oldSpaces[i].initialStores {
			if f.isReplaced(&f.oldSpaces[i]) {
				f.moveStore(&s)
				f.hostSpaces[s.host].initialStores = append(f.hostSpaces[s.host].initialStores, s)
			}
		}
	}
}

// moveStore assigns a store to the host memory that replaces its own.
func (f *hostFixer) moveStore(s *hostStore) {
	h := &f.oldSpaces[s.host]
	if !f.isReplaced(h) {
		s.host = f.newSpaceIndex[s.host]
		return
	}
	c := &f.clusters[f.clusterAt(h.firstAddress()+s.offset)]
	s.host, s.offset = c.host, h.firstAddress()+s.offset-c.first
}

// moveSteps assigns all steps to the windows that replace theirs.
func (f *hostFixer) moveSteps(windows []window) {
	for i := range f.steps.count {
		s := f.steps.at(i)
		switch {
		case !s.accessesDevice():
		case windows[s.window].Kind != gen.WindowKindHost:
			s.window = f.newWindowIndex[s.window]
		default:
			at := hostStore{host: int(windows[s.window].bar - hostBarBase),
				offset: uint64(s.offset)}
			f.moveStore(&at)
			s.window, s.offset = f.hostSpaces[at.host].window, uint32(at.offset)
		}
	}
	for _, list := range f.hostStoreLists {
		for k := range list {
			f.moveStore(&list[k])
		}
	}
	for i := range f.startedTargets {
		f.startedTargets[i].window = f.newWindowIndex[f.startedTargets[i].window]
	}
}
