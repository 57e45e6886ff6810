package vfiouser

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/synced"
	"lightmetal/tools/lmrun/files"
)

// trace writes a recording of the accesses to BARs, and of the device's transfers, in version 2 of
// the format that tools/capture/record reads (FORMAT.md there). The methods of a nil trace do
// nothing.
//
// The client has stored the data that the device reads before the store that makes the device read
// them. Therefore trace holds back the last store, and the loads after it, until it knows what the
// device reads; it then writes the transfer before that store. A recording begins with a list of
// the memory that the device reaches, so that a reader recognises addresses of this memory.
// Therefore everything else waits in a temporary file (spool), which is itself a recording without
// that list and without the last line. If the device translates addresses itself, the stores to its
// registers show which memory it reaches: there is no list and no temporary file, and a transfer
// follows the access that it belongs to, as in version 1.
//
// An access is held back for at most heldMax, so that it is on the disk if the machine stops. If
// the device reads client memory later than that, the transfer follows the store, with an EVENT
// line.
type trace struct {
	mutex   sync.Mutex     // for all fields: another goroutine calls releaseLate
	lines   *record.Writer // writes to `header`, `held`, `body` or `to`
	to      *synced.Writer // the recording
	header  bytes.Buffer   // first lines of the recording
	headed  bool           // `to` has the header, although exact is true
	exact   bool           // the device uses bus addresses and translates none itself
	bars    [6]int         // numbers of the BARs in the recording
	spool   *files.Output  // temporary file; nil: `body` and `to` are the same
	spooled string         // path of spool
	body    *synced.Writer // receives accesses and transfers
	held    bytes.Buffer   // accesses that are held back
	since   time.Time      // time of the first access that is held back
	late    bool           // the last store was held back for heldMax
	reached []reached      // memory that the device reached in this access
	known   record.Pages   // contents of client memory in the recording
}

// reached is client memory that the device has reached, with its contents before and after the
// access.
type reached struct {
	address             uint64
	data, before, after []byte // after is nil while the device may still access data
}

// barStride is the distance between the addresses of consecutive BARs in a recording.
const barStride = 0x10_0000_0000

// heldMax is the largest time for which an access is held back. The devices of this project read
// memory within microseconds of the store that makes them read.
const heldMax = time.Second

// baseMax is the largest number of bytes of Options.Spool in the name of the temporary file.
const baseMax = 200

// newTrace returns a trace, and writes the first lines of its recording.
func newTrace(o *Options, id hal.Identity, board *boards.Board) (*trace, error) {
	t, began := &trace{exact: board == nil || board.Outbound == nil}, time.Now()
	interval := cmp.Or(o.Sync, synced.Interval)
	t.lines = record.NewWriter(&t.header, func() time.Duration { return time.Since(began) })
	report := func(err error) { o.Log("the recording cannot be written: %v", err) }
	t.lines.Device(0, id.Vendor, id.Device, record.ServedDevice)
	bars := 0
	for bar, size := range id.BarSizes {
		if size != 0 {
			t.lines.Bar(bars, 0, bar, barStride*(1+uint64(bar)), size)
			t.bars[bar] = bars
			bars++
		}
	}
	if t.exact {
		folder, base := filepath.Split(cmp.Or(o.Spool, "lm-serve"))
		base = base[:min(len(base), baseMax)]
		name := fmt.Sprintf(".%s.%d-%x.part", base, os.Getpid(), began.UnixNano())
		if o.Spool == "" {
			folder = os.TempDir()
		}
		var err error
		for _, folder := range []string{folder, os.TempDir()} {
			t.spooled = filepath.Join(folder, name)
			if t.spool, err = files.Create(t.spooled, 0o600); err == nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		t.body = synced.NewWriter(synced.OnDisk(t.spool), interval, t.releaseLate)
		t.body.OnError(report)
		t.to = synced.NewWriter(o.Trace, interval, nil)
	} else {
		t.to = synced.NewWriter(o.Trace, interval, t.releaseLate)
		t.body = t.to
	}
	t.to.OnError(report)
	if t.exact && o.Spool == "" { // a stream that cannot be written shows it now
		t.headed = true
		_, _ = t.to.Write(t.header.Bytes())
	}
	_, err := t.body.Write(t.header.Bytes())
	return t, err
}

// releaseLate writes the accesses that have been held back for heldMax. If the server uses the
// trace at this moment, the next call writes them.
func (t *trace) releaseLate() {
	if !t.mutex.TryLock() {
		return
	}
	defer t.mutex.Unlock()
	if t.held.Len() > 0 && len(t.reached) == 0 && time.Since(t.since) >= heldMax {
		t.late = true
		t.release()
	}
}

// access adds an access to a BAR to the recording. kind is 'R' for a load and 'W' for a store.
func (t *trace) access(kind byte, bar uint32, offset uint64, data []byte) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if kind == 'W' {
		t.late = false
		t.release()
	}
	if t.held.Len() == 0 {
		t.since = time.Now()
	}
	t.lines.To = &t.held
	t.lines.Access(kind, t.bars[bar], offset, data)
}

// interrupt adds an interrupt of the device to the recording, behind the last access.
func (t *trace) interrupt() {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held.Len() == 0 {
		t.since = time.Now()
	}
	t.lines.To = &t.held
	t.lines.Interrupt(0, 0)
}

// release writes the accesses that are held back.
func (t *trace) release() {
	_, _ = t.body.Write(t.held.Bytes())
	t.held.Reset()
}

// reach notes that the device reaches client memory, and copies its contents.
func (t *trace) reach(address uint64, data []byte) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.settleLast()
	if before := snapshot(data); before != nil {
		t.reached = append(t.reached, reached{address: address, data: data, before: before})
	}
}

// snapshot returns a copy of client memory, or nil if the client has unmapped or truncated it.
func snapshot(data []byte) (held []byte) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil { // a fault, because a copy has no other error
			held = nil
		}
	}()
	held = make([]byte, len(data))
	copy(held, data)
	return held
}

// settle copies the contents of the memory that the device has reached last, because its access is
// complete. It must be called before the device raises an interrupt: the client may change the
// memory right after that.
func (t *trace) settle() {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.settleLast()
}

// settleLast does the same as settle. The caller holds the lock.
func (t *trace) settleLast() {
	if len(t.reached) == 0 {
		return
	}
	last := len(t.reached) - 1
	r := &t.reached[last]
	if r.after == nil {
		r.after = snapshot(r.data)
	}
	if r.after == nil {
		t.reached = t.reached[:last]
	}
}

// transfers writes the transfers of the current access. If reached memory has changed, the device
// has written it. Otherwise the device has read it, and the client has stored its contents, except
// those that the device has written just before.
func (t *trace) transfers() {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if len(t.reached) == 0 {
		return
	}
	t.settleLast()
	if !t.exact {
		t.release()
	}
	t.lines.To = t.body
	var wrote []reached
	for _, r := range t.reached {
		switch {
		case !bytes.Equal(r.after, r.before):
			if t.exact {
				t.known.Set(r.address, r.after)
			}
			wrote = append(wrote, r)
		case t.exact:
			t.read(r, wrote)
		default:
			t.lines.HostAccess("HR", r.address, r.after)
		}
	}
	t.release()
	for _, r := range wrote {
		t.wrote(r)
	}
	t.reached = t.reached[:0]
}

// read writes transfers for the data that the device has read from r and that the recording does
// not contain yet. It omits the ranges wrote, which the device itself has written.
func (t *trace) read(r reached, wrote []reached) {
	pieces := []reached{r}
	for _, w := range wrote {
		var left []reached
		for _, p := range pieces {
			left = append(left, p.beside(w)...)
		}
		pieces = left
	}
	for _, p := range pieces {
		isKnown := t.known.Equal(p.address, p.after)
		t.known.Set(p.address, p.after)
		if isKnown {
			continue
		}
		if t.late {
			t.lines.Line("EVENT the device read %d bytes "+
				"at bus address %x more than %v after the previous store; "+
				"the client had written them before that store", len(p.after), p.address, heldMax)
		}
		t.lines.HostAccess("HR", p.address, p.after)
	}
}

// beside returns the parts of r before and after the range of other.
func (r reached) beside(other reached) (pieces []reached) {
	end := r.address + uint64(len(r.after))
	from, to := max(r.address, other.address), min(end, other.address+uint64(len(other.after)))
	if from >= to {
		return []reached{r}
	}
	if from > r.address {
		pieces = append(pieces, reached{address: r.address, after: r.after[:from-r.address]})
	}
	if to < end {
		pieces = append(pieces, reached{address: to, after: r.after[to-r.address:]})
	}
	return pieces
}

// wrote writes transfers for the data that the device has written. An entry of a queue (up to 64
// bytes) becomes one transfer for each word of 8 bytes, because lm import --ignore can ignore
// single words.
func (t *trace) wrote(r reached) {
	const entry, word = 64, 8
	for len(r.after) <= entry && len(r.after) > word {
		t.lines.HostAccess("HW", r.address, r.after[:word])
		r.address, r.after = r.address+word, r.after[word:]
	}
	t.lines.HostAccess("HW", r.address, r.after)
}

// end completes the recording. The temporary file remains until the recording is on the disk.
func (t *trace) end() (err error) {
	t.mutex.Lock()
	t.release()
	t.mutex.Unlock()
	if t.spool != nil {
		err = t.body.Close()
		if err == nil {
			err = t.unspool()
		}
	}
	t.lines.To = t.to
	t.lines.End()
	err = cmp.Or(err, t.to.Close())
	if t.spool == nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; to import the accesses written before the error, "+
			"use lm import --incomplete %s", err, t.spooled)
	}
	t.spool.Discard()
	return nil
}

// unspool writes the first lines, the list of reached memory, and the contents of the temporary
// file to the recording.
func (t *trace) unspool() error {
	if !t.headed {
		_, _ = t.to.Write(t.header.Bytes()) // Close returns the error
	}
	t.lines.To = t.to
	for _, page := range t.known.Addresses() {
		t.lines.Memory(page, record.PageSize)
	}
	spool, err := os.Open(t.spooled)
	if err != nil {
		return err
	}
	defer spool.Close()
	text, err := gzip.NewReader(bufio.NewReader(spool))
	if err == nil {
		_, err = io.CopyN(io.Discard, text, int64(t.header.Len()))
	}
	if err == nil {
		_, err = io.Copy(t.to, text)
	}
	return err
}
