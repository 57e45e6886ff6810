package vfiouser

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/image/synced"
	"lightmetal/tools/lmrun/files"
)

// trace writes accesses, and what the device did to memory, as tools/capture/record
// reads them: tools/capture/record/FORMAT.md, version 2. Its methods do nothing on nil.
//
// What the device read the client had stored before it had the device look, by
// its last store: that one, and the loads after it, are held back until it is
// known whether there was anything. The memory that was reached is told first,
// so that addresses in it are known as such, and the rest waits for that in a file
// of its own, a recording but for that memory and the end. Where a device translates
// addresses itself, its registers tell that, and transfers stand behind the access
// that they belong to, as in version 1.
//
// Nothing is held back longer than heldMax, so that it is on the disk when the machine stops.
// What the device reads of the client's memory after that is behind the store, with an EVENT.
type trace struct {
	mutex   sync.Mutex // of all fields: a goroutine releases what is held back for long
	to      *synced.Writer
	device  string
	exact   bool   // it has the addresses of the bus
	bars    [6]int // their numbers in the recording
	lines   int
	spool   *files.Output // nil: body is to
	spooled string        // its path
	body    *synced.Writer
	held    bytes.Buffer
	since   time.Time // of the first access that is held back
	late    bool      // a store was released before it was known what the device read
	reached []reached
	known   map[uint64]*[pageSize]byte // what the recording says of memory, by page
	last    time.Time                  // of the last access
}

// reached is memory that the device has been given, what was in it then, and
// what when the device had done with it.
type reached struct {
	address             uint64
	data, before, after []byte // after: nil until then
}

const pageSize = 4096

// barStride is between the addresses that BARs have in a trace.
const barStride = 0x10_0000_0000

// heldMax is how long an access is held back. Devices here read memory within microseconds
// of the store that has them do it.
const heldMax = time.Second

// baseMax is how much of the trace's name is in that of the file that waits.
const baseMax = 200

func newTrace(o *Options, id hal.Identity, board *boards.Board) (*trace, error) {
	t := &trace{exact: board == nil || board.Outbound == nil,
		known: map[uint64]*[pageSize]byte{}, last: time.Now()}
	interval := cmp.Or(o.Sync, synced.Interval)
	t.device = fmt.Sprintf("LMRECORD 2\nDEVICE 0 %04x %04x served\n", id.Vendor, id.Device)
	t.lines = 1
	for bar, size := range id.BarSizes {
		if size != 0 {
			t.bars[bar] = t.lines - 1
			t.device += fmt.Sprintf("BAR %d 0 %d %x %x\n", t.lines-1, bar, barStride*(1+bar), size)
			t.lines++
		}
	}
	if t.exact {
		folder, base := filepath.Split(cmp.Or(o.Spool, "lm-serve"))
		base = base[:min(len(base), baseMax)]
		name := fmt.Sprintf(".%s.%d-%x.part", base, os.Getpid(), t.last.UnixNano())
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
		t.to = synced.NewWriter(o.Trace, interval, nil)
	} else {
		t.to = synced.NewWriter(o.Trace, interval, t.releaseLate)
		t.body = t.to
	}
	_, err := io.WriteString(t.body, t.device)
	return t, err
}

// releaseLate releases what has been held back for long. It does so later if the server uses
// the trace at this moment.
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
	now := time.Now()
	if t.held.Len() == 0 {
		t.since = now
	}
	t.lines += 2
	fmt.Fprintf(&t.held, "CLK %d\n%c %d %x %d %x\n",
		min(now.Sub(t.last).Nanoseconds(), math.MaxUint32), kind, t.bars[bar], offset, len(data),
		data)
	t.last = now
}

// release writes what is held back.
func (t *trace) release() {
	_, _ = t.body.Write(t.held.Bytes())
	t.held.Reset()
}

// reach notes memory that the device is given.
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

// snapshot is what client memory holds, nil where the client has taken it away.
func snapshot(data []byte) (held []byte) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil { // a fault: nothing else goes wrong in a copy
			held = nil
		}
	}()
	held = make([]byte, len(data))
	copy(held, data)
	return held
}

// settle takes what the device was given last for done: it wants something else,
// or tells the client, whose memory may be another thing right after.
func (t *trace) settle() {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.settleLast()
}

// settleLast is settle, of a trace that is locked.
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

// transfers writes what became of that memory: what has changed the device has
// written, the rest it has read, and of that the client has stored what the device
// had not written just before.
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
	var wrote []reached
	for _, r := range t.reached {
		switch {
		case !bytes.Equal(r.after, r.before):
			if t.exact {
				t.learn(r.address, r.after)
			}
			wrote = append(wrote, r)
		case t.exact:
			t.read(r, wrote)
		default:
			t.transfer("HR", r)
		}
	}
	t.release()
	for _, r := range wrote {
		t.wrote(r)
	}
	t.reached = t.reached[:0]
}

// read writes what the recording has not said of what the device has read, but for
// what it had written itself.
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
		if t.learn(p.address, p.after) {
			if t.late {
				t.lines++
				fmt.Fprintf(t.body, "EVENT the device read %d bytes at bus address %x more than "+
					"%v after the store before: the client had stored them before that\n",
					len(p.after), p.address, heldMax)
			}
			t.transfer("HR", p)
		}
	}
}

// beside are the pieces of r in front of another and behind it.
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

// wrote writes what the device has written. Entries of queues are words, of which
// lm import --ignore may leave out some.
func (t *trace) wrote(r reached) {
	const entry, word = 64, 8
	for len(r.after) <= entry && len(r.after) > word {
		t.transfer("HW", reached{address: r.address, after: r.after[:word]})
		r.address, r.after = r.address+word, r.after[word:]
	}
	t.transfer("HW", r)
}

func (t *trace) transfer(verb string, r reached) {
	t.lines++
	fmt.Fprintf(t.body, "%s %x %d %x\n", verb, r.address, len(r.after), r.after)
}

// learn keeps what memory holds, and tells whether the recording had not said so.
func (t *trace) learn(address uint64, data []byte) (news bool) {
	for len(data) > 0 {
		first := address &^ (pageSize - 1)
		page := t.known[first]
		if page == nil {
			page = new([pageSize]byte)
			t.known[first] = page
		}
		n := min(len(data), int(first+pageSize-address))
		news = news || !bytes.Equal(page[address-first:][:n], data[:n])
		copy(page[address-first:], data[:n])
		address, data = address+uint64(n), data[n:]
	}
	return news
}

// end makes the recording whole. What has waited in a file stays there until the recording
// is on the disk.
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
	fmt.Fprintf(t.to, "END %d\n", t.lines)
	err = cmp.Or(err, t.to.Close())
	if t.spool == nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; the accesses are in %s: lm import --incomplete reads it", err,
			t.spooled)
	}
	t.spool.Discard()
	return nil
}

// unspool writes what has waited, behind the memory that was reached.
func (t *trace) unspool() error {
	fmt.Fprint(t.to, t.device)
	for _, page := range slices.Sorted(maps.Keys(t.known)) {
		t.lines++
		fmt.Fprintf(t.to, "MEM %x %x\n", page, pageSize)
	}
	spool, err := os.Open(t.spooled)
	if err != nil {
		return err
	}
	defer spool.Close()
	text, err := gzip.NewReader(bufio.NewReader(spool))
	if err == nil {
		_, err = io.CopyN(io.Discard, text, int64(len(t.device)))
	}
	if err == nil {
		_, err = io.Copy(t.to, text)
	}
	return err
}
