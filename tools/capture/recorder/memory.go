//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory is a program's, as a faulting instruction sees it: accesses to BARs
// are made by the recorder and written down.
type memory struct {
	*recording
	*thread
}

// accessFault is an access that the program may not make: it gets the signal.
type accessFault struct {
	signal unix.Signal
	code   int32
	at     uint64
}

func (f *accessFault) Error() string { return fmt.Sprintf("%v at %#x", f.signal, f.at) }

const (
	codeNotMapped = 1 // SEGV_MAPERR
	codeForbidden = 2 // SEGV_ACCERR
	codeBus       = 2 // BUS_ADRERR
)

func (m *memory) Load(address uint64, data []byte) error {
	return m.each(address, data, m.loadBar, readMemory)
}

func (m *memory) Store(address uint64, data []byte) error {
	return m.each(address, data, m.storeBar, writeMemory)
}

// IsDevice reports whether the recorder makes the accesses at an address.
func (m *memory) IsDevice(address uint64) bool { return m.space.find(address) != nil }

// LoadRun makes loads of width bytes each, one after the other, that are one line in the
// record. It returns how many bytes it loaded before the error.
func (m *memory) LoadRun(address uint64, data []byte, width int) (done int, err error) {
	return m.eachRun(address, data, width, 'R', m.Load, readMemory)
}

// StoreRun makes stores as LoadRun makes loads.
func (m *memory) StoreRun(address uint64, data []byte, width int) (done int, err error) {
	return m.eachRun(address, data, width, 'W', m.Store, writeMemory)
}

// eachRun makes the accesses of a run: in ordinary memory many at once, in a BAR one by one,
// and elsewhere as single does.
func (m *memory) eachRun(address uint64, data []byte, width int, kind byte,
	single func(uint64, []byte) error, other func(int, uint64, []byte) int) (done int, err error) {
	for done < len(data) && err == nil {
		at, rest, n := address+uint64(done), data[done:], 0
		a := m.space.find(at)
		switch {
		case a == nil && m.space.next(at)-at >= uint64(width):
			rest = rest[:min(uint64(len(rest)), m.space.next(at)-at)/uint64(width)*uint64(width)]
			if n = other(m.tid, at, rest); n < len(rest) {
				err = &accessFault{unix.SIGSEGV, codeNotMapped, at + uint64(n)}
			}
		case a != nil && a.guard == nil && a.host == nil && a.end-at >= uint64(width):
			rest = rest[:min(uint64(len(rest)), a.end-at)/uint64(width)*uint64(width)]
			n, err = m.barRun(*a, at, rest, width, kind)
		default:
			if err = single(at, rest[:width]); err == nil {
				n = width
			}
		}
		done += n
	}
	return done, err
}

// barRun makes the accesses of a run to a BAR. What has changed in host memory is looked for
// before the first store of an instruction only: its thread stores nothing else meanwhile.
func (m *memory) barRun(a area, address uint64, data []byte, width int, kind byte) (done int,
	err error) {
	access, right := a.view.load, ^uint64(0)
	if kind == 'W' {
		access, right = a.view.store, unix.PROT_WRITE
	}
	if a.prot&right == 0 {
		return 0, &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	if kind == 'W' && m.out.run.kind != 'W' {
		m.locates(m.thread)
		m.recordBeforeStore(m.thread)
	}
	for ; done < len(data) && err == nil; done += width {
		err = access(a.at+address-a.start+uint64(done), data[done:done+width])
	}
	if err != nil {
		done -= width
		err = &accessFault{unix.SIGBUS, codeBus, address + uint64(done)}
	}
	m.accesses += uint64(done / width)
	m.out.addToRun(kind, a.bar.number, a.offset+address-a.start, width, data[:done])
	return done, err
}

// each cuts an access at the ends of areas. One that lies in an area whole is made whole.
func (m *memory) each(address uint64, data []byte, bar func(*area, uint64, []byte) error,
	other func(int, uint64, []byte) int) error {
	whole := len(data)
	for len(data) > 0 {
		a := m.space.find(address)
		if a == nil {
			n := min(uint64(len(data)), m.space.next(address)-address)
			if done := other(m.tid, address, data[:n]); done < int(n) {
				return &accessFault{unix.SIGSEGV, codeNotMapped, address + uint64(done)}
			}
			address, data = address+n, data[n:]
			continue
		}
		n := piece(min(uint64(len(data)), a.end-address), uint64(whole))
		if err := bar(a, address, data[:n]); err != nil {
			return err
		}
		address, data = address+n, data[n:]
	}
	return nil
}

// piece is how much of n bytes is one access: all of an access that is whole,
// a power of two up to 8 of one that is cut.
func piece(n, whole uint64) uint64 {
	if n == whole {
		return n
	}
	p := uint64(8)
	for p > n {
		p /= 2
	}
	return p
}

func (m *memory) loadBar(a *area, address uint64, data []byte) error {
	switch {
	case a.guard != nil:
		return m.accessHost(a, address, data, false)
	case a.host != nil:
		return m.loadHost(a, address, data)
	}
	if a.prot == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	if err := a.view.load(a.at+address-a.start, data); err != nil {
		return &accessFault{unix.SIGBUS, codeBus, address}
	}
	m.loadedAt = address
	m.write('R', a.bar, a.offset+address-a.start, data)
	return nil
}

func (m *memory) storeBar(a *area, address uint64, data []byte) error {
	switch {
	case a.guard != nil:
		return m.storeGuarded(a, address, data)
	case a.host != nil:
		return m.storeHost(a, address, data)
	}
	if a.prot&unix.PROT_WRITE == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	to := *a // the list of areas may grow below, and what a points at is moved
	a = &to
	m.locates(m.thread)
	m.recordBeforeStore(m.thread)
	if err := a.view.store(a.at+address-a.start, data); err != nil {
		return &accessFault{unix.SIGBUS, codeBus, address}
	}
	m.loadedAt = 0
	m.write('W', a.bar, a.offset+address-a.start, data)
	return nil
}

// write writes down an access, in parts of eight bytes.
func (r *recording) write(kind byte, b *bar, at uint64, data []byte) {
	r.accesses++
	for len(data) > 0 {
		n := min(len(data), 8)
		r.out.access(kind, b.number, at, data[:n])
		at, data = at+uint64(n), data[n:]
	}
}
