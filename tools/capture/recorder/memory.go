//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory is the memory of a thread's process, as the instructions that the recorder executes access
// it. The recorder makes and records the accesses to BARs.
type memory struct {
	*recording
	*thread
}

// accessFault is the error of an access that the program may not make. The program gets the signal.
type accessFault struct {
	signal  unix.Signal
	code    int32
	address uint64
}

func (f *accessFault) Error() string { return fmt.Sprintf("%v at %#x", f.signal, f.address) }

const (
	codeNotMapped = 1 // SEGV_MAPERR
	codeForbidden = 2 // SEGV_ACCERR
	codeBus       = 2 // BUS_ADRERR
)

func (m *memory) Load(address uint64, data []byte) error {
	return m.accessByArea(address, data, m.loadArea, readMemory)
}

func (m *memory) Store(address uint64, data []byte) error {
	return m.accessByArea(address, data, m.storeArea, writeMemory)
}

// IsDevice reports whether the recorder makes the accesses to an address.
func (m *memory) IsDevice(address uint64) bool { return m.space.areaAt(address) != nil }

// LoadRun implements x86.Runs. It makes consecutive loads of width bytes each, which become one
// line of the record. It returns the number of bytes that it loaded before an error.
func (m *memory) LoadRun(address uint64, data []byte, width int) (done int, err error) {
	return m.accessRun(address, data, width, 'R', m.Load, readMemory)
}

// StoreRun implements x86.Runs. It makes consecutive stores as LoadRun makes loads.
func (m *memory) StoreRun(address uint64, data []byte, width int) (done int, err error) {
	return m.accessRun(address, data, width, 'W', m.Store, writeMemory)
}

// accessRun makes the accesses of a run: many at once in ordinary memory, by `other`; one by one in
// a BAR; and with one call of `single` each in all other areas.
func (m *memory) accessRun(address uint64, data []byte, width int, kind byte,
	single func(uint64, []byte) error, other func(int, uint64, []byte) int) (done int, err error) {
	for done < len(data) && err == nil {
		at, rest, n := address+uint64(done), data[done:], 0
		a := m.space.areaAt(at)
		switch {
		case a == nil && m.space.nextStart(at)-at >= uint64(width):
			rest = rest[:min(uint64(len(rest)),
				m.space.nextStart(at)-at)/uint64(width)*uint64(width)]
			if n = other(m.tid, at, rest); n < len(rest) {
				err = &accessFault{unix.SIGSEGV, codeNotMapped, at + uint64(n)}
			}
		case a != nil && a.guard == nil && a.watched == nil && a.end-at >= uint64(width):
			rest = rest[:min(uint64(len(rest)), a.end-at)/uint64(width)*uint64(width)]
			n, err = m.accessBARRun(*a, at, rest, width, kind)
		default:
			if err = single(at, rest[:width]); err == nil {
				n = width
			}
		}
		done += n
	}
	return done, err
}

// accessBARRun makes the accesses of a run to a BAR. It records the changes of host memory only
// before the first store of an instruction, because the thread makes no other stores during the
// instruction.
func (m *memory) accessBARRun(a area, address uint64, data []byte, width int, kind byte) (done int,
	err error) {
	access, right := a.view.load, ^uint64(0)
	if kind == 'W' {
		access, right = a.view.store, unix.PROT_WRITE
	}
	if a.prot&right == 0 {
		return 0, &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	if kind == 'W' && m.out.RunKind() != 'W' {
		m.locateHugePages(m.thread)
		m.recordBeforeStore(m.thread)
	}
	for ; done < len(data) && err == nil; done += width {
		err = access(a.viewOffset+address-a.start+uint64(done), data[done:done+width])
	}
	if err != nil {
		done -= width
		err = &accessFault{unix.SIGBUS, codeBus, address + uint64(done)}
	}
	m.accesses += uint64(done / width)
	m.out.AddToRun(kind, a.bar.number, a.offset+address-a.start, width, data[:done])
	return done, err
}

// accessByArea splits an access at the ends of areas. It makes an access that lies entirely in one
// area as one access.
func (m *memory) accessByArea(address uint64, data []byte, bar func(*area, uint64, []byte) error,
	other func(int, uint64, []byte) int) error {
	whole := len(data)
	for len(data) > 0 {
		a := m.space.areaAt(address)
		if a == nil {
			n := min(uint64(len(data)), m.space.nextStart(address)-address)
			if done := other(m.tid, address, data[:n]); done < int(n) {
				return &accessFault{unix.SIGSEGV, codeNotMapped, address + uint64(done)}
			}
			address, data = address+n, data[n:]
			continue
		}
		n := accessWidth(min(uint64(len(data)), a.end-address), uint64(whole))
		if err := bar(a, address, data[:n]); err != nil {
			return err
		}
		address, data = address+n, data[n:]
	}
	return nil
}

// accessWidth returns how many of the next n bytes are one access: all n if the access is not
// split, otherwise a power of two up to 8.
func accessWidth(n, whole uint64) uint64 {
	if n == whole {
		return n
	}
	p := uint64(8)
	for p > n {
		p /= 2
	}
	return p
}

func (m *memory) loadArea(a *area, address uint64, data []byte) error {
	switch {
	case a.guard != nil:
		return m.accessHost(a, address, data, false)
	case a.watched != nil:
		return m.loadWatched(a, address, data)
	}
	if a.prot == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	if err := a.view.load(a.viewOffset+address-a.start, data); err != nil {
		return &accessFault{unix.SIGBUS, codeBus, address}
	}
	m.lastLoadAddress = address
	m.recordAccess('R', a.bar, a.offset+address-a.start, data)
	return nil
}

func (m *memory) storeArea(a *area, address uint64, data []byte) error {
	switch {
	case a.guard != nil:
		return m.storeGuarded(a, address, data)
	case a.watched != nil:
		return m.storeWatched(a, address, data)
	}
	if a.prot&unix.PROT_WRITE == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	to := *a // a copy, because the list of areas may change below
	a = &to
	m.locateHugePages(m.thread)
	m.recordBeforeStore(m.thread)
	if err := a.view.store(a.viewOffset+address-a.start, data); err != nil {
		return &accessFault{unix.SIGBUS, codeBus, address}
	}
	m.lastLoadAddress = 0
	m.recordAccess('W', a.bar, a.offset+address-a.start, data)
	return nil
}

// recordAccess records an access to a BAR, in lines of up to 8 bytes.
func (r *recording) recordAccess(kind byte, b *bar, at uint64, data []byte) {
	r.accesses++
	for len(data) > 0 {
		n := min(len(data), 8)
		r.out.Access(kind, b.number, at, data[:n])
		at, data = at+uint64(n), data[n:]
	}
}
