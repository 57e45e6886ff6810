// Package synced writes text to a file so that what was written can be used if the process is
// killed or the machine stops. lm record and lm serve write their recordings with it:
// tools/capture/record/FORMAT.md, "What is on the disk".
package synced

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// Interval is that of a Writer's syncs if its caller has no other.
const Interval = time.Second

const (
	// memberText is how much text a member has, unless one line is longer.
	memberText = 256 << 10

	// backlogMax is how much text may wait. A caller of Write then writes it itself.
	backlogMax = 1 << 20
)

// Writer writes text as members of gzip, each of whole lines, and syncs them by time. It
// compresses and writes in a goroutine of its own.
type Writer struct {
	to     io.Writer
	before func()

	mutex sync.Mutex // of the fields up to the next blank line
	text  []byte     // that is not written yet
	err   error      // the first one

	writing  sync.Mutex // of the fields up to the next blank line
	spare    []byte     // room for text
	zip      *gzip.Writer
	member   bytes.Buffer
	unsynced bool // something was written since the last sync

	full            chan struct{} // has a value if there is text for a member
	ended, returned chan struct{}
}

// NewWriter returns a Writer that writes to a file or a buffer. At each interval it calls
// before, if that is not nil, and then writes and syncs all that it has been given. It syncs by
// the method Sync, if the file has one. The caller must call Close.
func NewWriter(to io.Writer, interval time.Duration, before func()) *Writer {
	w := &Writer{to: to, before: before, full: make(chan struct{}, 1),
		ended: make(chan struct{}), returned: make(chan struct{})}
	w.zip, _ = gzip.NewWriterLevel(&w.member, gzip.BestSpeed)
	go w.run(interval)
	return w
}

// Write takes text. A member of the file ends at the end of a line: what is behind the last one
// waits for more. The error is the first of the file.
func (w *Writer) Write(text []byte) (int, error) {
	w.mutex.Lock()
	w.text = append(w.text, text...)
	waiting, err := len(w.text), w.err
	w.mutex.Unlock()
	if waiting > backlogMax {
		w.flush(false)
	} else if waiting > memberText {
		select {
		case w.full <- struct{}{}:
		default: // run has been told already
		}
	}
	return len(text), err
}

// run writes members that are full, and syncs at each interval.
func (w *Writer) run(interval time.Duration) {
	defer close(w.returned)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-w.full:
			w.flush(false)
		case <-ticker.C:
			if w.before != nil {
				w.before()
			}
			w.flush(true)
		case <-w.ended:
			return
		}
	}
}

// flush writes the whole lines that there are, and may sync.
func (w *Writer) flush(sync bool) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mutex.Lock()
	text, failed := w.text, w.err != nil
	lines := text[:bytes.LastIndexByte(text, '\n')+1]
	w.text = append(w.spare[:0], text[len(lines):]...)
	w.mutex.Unlock()
	w.spare = text[:0]
	if cap(text) > 4*backlogMax { // it had a long line
		w.spare = nil
	}
	for len(lines) > 0 && !failed {
		n := memberEnd(lines)
		failed = w.keep(w.writeMember(lines[:n]))
		lines = lines[n:]
	}
	if file, ok := w.to.(interface{ Sync() error }); ok && sync && w.unsynced && !failed {
		w.unsynced = false
		w.keep(file.Sync())
	}
}

// memberEnd returns the length of the lines that make the next member.
func memberEnd(lines []byte) int {
	if len(lines) <= memberText {
		return len(lines)
	}
	if n := bytes.LastIndexByte(lines[:memberText], '\n') + 1; n > 0 {
		return n
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// writeMember writes text as one member of gzip, by one call.
func (w *Writer) writeMember(text []byte) error {
	w.member.Reset()
	w.zip.Reset(&w.member)
	_, _ = w.zip.Write(text) // to memory
	_ = w.zip.Close()
	w.unsynced = true
	_, err := w.to.Write(w.member.Bytes())
	return err
}

// keep keeps the first error, and reports whether there is one.
func (w *Writer) keep(err error) (failed bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err != nil
}

// Close writes and syncs what is left, and returns the first error.
func (w *Writer) Close() error {
	close(w.ended)
	<-w.returned
	w.flush(true)
	return w.err
}

// disk is a file whose data Sync writes to the disk.
type disk struct{ *files.Output }

// OnDisk returns an output for a Writer, which syncs it. It syncs the directory of the output
// at once, so that a file without its final name is found after the machine has stopped.
func OnDisk(f *files.Output) io.Writer {
	if f.IsStream {
		return f
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.Fd))
	if err != nil {
		return disk{f}
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // some file systems cannot
		folder.Close()
	}
	return disk{f}
}

// Sync writes the data of the file to the disk.
func (d disk) Sync() error {
	err := unix.Fdatasync(d.Fd)
	if err == unix.EINVAL || err == unix.EROFS { // of a device that cannot be synced
		return nil
	}
	return err
}
