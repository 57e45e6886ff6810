// Package synced writes text to a file so that the written part stays usable if the process is
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

// Interval is the default interval between syncs of a Writer.
const Interval = time.Second

const (
	// memberText is the maximum size of the text in a member in bytes, unless one line is longer.
	memberText = 256 << 10

	// backlogMax is the size of waiting text in bytes from which the caller of Write writes the
	// text itself.
	backlogMax = 1 << 20
)

// Writer writes text as gzip members that contain whole lines, and syncs them at intervals. A
// goroutine compresses and writes the members.
type Writer struct {
	output     io.Writer
	beforeSync func() // called before each periodic sync; may be nil

	mutex      sync.Mutex // protects the fields up to the next blank line
	text       []byte     // text that is not written yet
	firstError error
	onError    func(error) // nil: not called

	writeMutex  sync.Mutex // protects the fields up to the next blank line
	spareBuffer []byte     // unused buffer for text
	zip         *gzip.Writer
	member      bytes.Buffer
	unsynced    bool // members were written after the last sync

	wake            chan struct{} // contains a value if there is enough text for a member
	ended, returned chan struct{}
}

// NewWriter returns a Writer to a file or a buffer. At each interval it calls `before`, if that is
// not nil, and then writes and syncs all text so far. It syncs with the method Sync, if `to` has
// one. The caller must call Close.
func NewWriter(to io.Writer, interval time.Duration, before func()) *Writer {
	w := &Writer{output: to, beforeSync: before, wake: make(chan struct{}, 1),
		ended: make(chan struct{}), returned: make(chan struct{})}
	w.zip, _ = gzip.NewWriterLevel(&w.member, gzip.BestSpeed)
	go w.run(interval)
	return w
}

// OnError makes the Writer call f once, as soon as writing has failed. f must not call the Writer.
func (w *Writer) OnError(f func(error)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.onError = f
}

// Write adds text. Members end at the end of a line: an incomplete last line waits for more text.
// The error is the first one of the file.
func (w *Writer) Write(text []byte) (int, error) {
	w.mutex.Lock()
	w.text = append(w.text, text...)
	waiting, err := len(w.text), w.firstError
	w.mutex.Unlock()
	if waiting > backlogMax {
		w.flush(false)
	} else if waiting > memberText {
		select {
		case w.wake <- struct{}{}:
		default: // wake already has a value
		}
	}
	return len(text), err
}

// run writes members when there is enough text, and syncs at each interval.
func (w *Writer) run(interval time.Duration) {
	defer close(w.returned)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-w.wake:
			w.flush(false)
		case <-ticker.C:
			if w.beforeSync != nil {
				w.beforeSync()
			}
			w.flush(true)
		case <-w.ended:
			return
		}
	}
}

// flush writes all complete lines, and syncs if `sync` is true.
func (w *Writer) flush(sync bool) {
	w.writeMutex.Lock()
	defer w.writeMutex.Unlock()
	w.mutex.Lock()
	text, failed := w.text, w.firstError != nil
	lines := text[:bytes.LastIndexByte(text, '\n')+1]
	w.text = append(w.spareBuffer[:0], text[len(lines):]...)
	w.mutex.Unlock()
	w.spareBuffer = text[:0]
	if cap(text) > 4*backlogMax { // the buffer is large because of a long line
		w.spareBuffer = nil
	}
	for len(lines) > 0 && !failed {
		n := memberEnd(lines)
		failed = w.recordError(w.writeMember(lines[:n]))
		lines = lines[n:]
	}
	if file, ok := w.output.(interface{ Sync() error }); ok && sync && w.unsynced && !failed {
		w.unsynced = false
		w.recordError(file.Sync())
	}
}

// memberEnd returns the length of the lines for the next member.
func memberEnd(lines []byte) int {
	if len(lines) <= memberText {
		return len(lines)
	}
	if n := bytes.LastIndexByte(lines[:memberText], '\n') + 1; n > 0 {
		return n
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// writeMember writes text as one gzip member with a single call of Write.
func (w *Writer) writeMember(text []byte) error {
	w.member.Reset()
	w.zip.Reset(&w.member)
	_, _ = w.zip.Write(text) // cannot fail: it writes to memory
	_ = w.zip.Close()
	w.unsynced = true
	_, err := w.output.Write(w.member.Bytes())
	return err
}

// recordError stores the first error, and reports whether there is one.
func (w *Writer) recordError(err error) (failed bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.firstError == nil && err != nil {
		w.firstError = err
		if w.onError != nil {
			w.onError(err)
		}
	}
	return w.firstError != nil
}

// Close writes and syncs the remaining text, and returns the first error.
func (w *Writer) Close() error {
	close(w.ended)
	<-w.returned
	w.OnError(nil) // the caller learns of it from the result
	w.flush(true)
	return w.firstError
}

// disk is a file with a method Sync.
type disk struct{ *files.Output }

// OnDisk returns an output for a Writer that can be synced. OnDisk syncs the directory of the
// output immediately, so that the file, which does not have its final name yet, still exists after
// the machine has stopped.
func OnDisk(f *files.Output) io.Writer {
	if f.IsStream {
		return f
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.Fd))
	if err != nil {
		return disk{f}
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // some file systems do not support this
		folder.Close()
	}
	return disk{f}
}

// Sync writes the data of the file to the disk.
func (d disk) Sync() error {
	err := unix.Fdatasync(d.Fd)
	if err == unix.EINVAL || err == unix.EROFS { // a device file that cannot be synced
		return nil
	}
	return err
}
