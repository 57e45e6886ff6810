package main

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"time"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"
)

// stdout and stderr escape control characters on a terminal, because names may come from files of
// unknown origin. Only progress is written past them.
var stdout, stderr = &safeWriter{}, &safeWriter{}

// safeWriter escapes control characters for a terminal, and keeps the first error.
type safeWriter struct {
	file           *os.File
	incompleteRune []byte // bytes of a character that is not complete yet
	screen         *screen
	err            error
}

// newSafeWriter returns a writer to a file. If that is a terminal, the writer lays out the text.
func newSafeWriter(to *os.File) safeWriter { return safeWriter{file: to, screen: screenOf(to)} }

// keepLines ends the wrapping and coloring of text from here on: it is data that somebody may copy.
func (t *safeWriter) keepLines() {
	if t.screen != nil {
		t.screen.verbatim = true
	}
}

func (t *safeWriter) Write(p []byte) (int, error) {
	data := append(t.incompleteRune, p...)
	whole := len(data)
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if start := len(data) - back; utf8.RuneStart(data[start]) && !utf8.FullRune(data[start:]) {
			whole = start
		}
	}
	t.writeSafe(data[:whole])
	t.incompleteRune = append([]byte(nil), data[whole:]...)
	return len(p), nil // finish returns the error, once
}

// keepLines calls the method keepLines if w is a safeWriter.
func keepLines(w io.Writer) {
	if t, ok := w.(*safeWriter); ok {
		t.keepLines()
	}
}

func (t *safeWriter) writeSafe(data []byte) {
	if len(data) == 0 {
		return
	}
	text := files.EscapeControls(data)
	if t.screen != nil {
		text = t.screen.layOut(text)
	}
	t.writeRaw(text)
}

func (t *safeWriter) writeRaw(text []byte) {
	if t.err == nil && len(text) > 0 {
		_, t.err = t.file.Write(text)
	}
}

// finish writes the rest and returns the first error.
func (t *safeWriter) finish() error {
	t.writeSafe(t.incompleteRune)
	t.incompleteRune = nil
	if t.screen != nil {
		t.writeRaw(t.screen.finish())
	}
	if t.err != nil {
		return newFault(hal.IO, "standard output: %v", reasonOf(t.err))
	}
	return nil
}

// printLine prints one line. A line feed in a path, a note or another text of a file is
// escaped, so that it cannot begin a line of its own.
func printLine(w io.Writer, format string, a ...any) {
	fmt.Fprintln(w, files.OneLine(fmt.Sprintf(format, a...)))
}

// messageWriter returns where messages go: standard error if an output is standard output.
func messageWriter(outputs ...string) io.Writer {
	for _, path := range outputs {
		if files.IsStdout(path) {
			return stderr
		}
	}
	return stdout
}

// onTerminal reports whether standard error is a terminal. Progress bars write to it
// directly; they show no text from files.
func onTerminal() bool {
	status, err := stderr.file.Stat()
	return err == nil && status.Mode()&os.ModeCharDevice != 0
}

// showBusy shows on a terminal that work on many bytes goes on, until the caller calls done.
func showBusy(what string, bytes int) (done func()) {
	const least = 8 << 20 // takes about a second
	if !onTerminal() || bytes < least {
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(stderr.file),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetDescription(what), progressbar.OptionSpinnerType(9))
	ended := make(chan struct{})
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		for {
			select {
			case <-ended:
				_ = bar.Finish()
				return
			case <-time.After(200 * time.Millisecond):
				_ = bar.RenderBlank()
			}
		}
	}()
	return func() {
		close(ended)
		<-shown
	}
}

// newProgressBar returns a function that shows on a terminal how many of total are done. It shows
// nothing if total is less than least.
func newProgressBar(what string, total, least int) func(done int) {
	if !onTerminal() || total < least {
		return func(int) {}
	}
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(stderr.file),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetDescription(what), progressbar.OptionThrottle(100*time.Millisecond))
	return func(done int) { _ = bar.Set(done) }
}

// reasonOf returns the error of the kernel in an error that also contains a path.
func reasonOf(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// readFile reads a complete input, whose size must not exceed most bytes. The limits that callers
// pass are far above usual sizes.
func readFile(path string, most int) []byte {
	return fail.Must(files.Read(inputPath(path), most))
}

// inputPath returns the path to open for an input: - is standard input. checkFiles has checked that
// only one input is standard input.
func inputPath(path string) string {
	if path == "-" {
		return "/dev/stdin"
	}
	return path
}

// openImages are the images that stay open to the end of an invocation, because results
// refer to their memory.
var openImages []*runtime.File

func closeImages() {
	for _, file := range openImages {
		file.Close()
	}
	openImages = nil
}

// openImage opens an image. An image from standard input is kept in memory.
func openImage(path string) *runtime.File {
	if path == "-" {
		return openImageData(path, readFile(path, dataMax))
	}
	image, err := runtime.Open(path)
	status, _ := os.Stat(path)
	return keepImage(image, err, status != nil && status.Mode().IsRegular() && status.Size() == 0)
}

// openImageData opens an image that was read from path, as a file without a name.
func openImageData(path string, data []byte) *runtime.File {
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
	fail.On(hal.FileFault(path, err))
	if err := files.WriteFull(fd, data); err != nil {
		_ = unix.Close(fd)
		fail.On(hal.FileFault(path, err))
	}
	if path == "-" {
		path = "standard input"
	}
	image, err := runtime.OpenFD(fd, path)
	return keepImage(image, err, len(data) == 0)
}

// keepImage keeps an open image to the end of the invocation, or fails with the error of opening
// it.
func keepImage(image *runtime.File, err error, isEmpty bool) *runtime.File {
	if err != nil && isEmpty {
		err = fail.Around("", err, remakeAdvice)
	}
	fail.On(err)
	openImages = append(openImages, image)
	return image
}

const remakeAdvice = "; make the image again with lm import, lm asm or lm capture of this version"

// explainImageError adds to an error of verifying an image what to do if the file is no image, or
// not a complete image of this version.
func explainImageError(path string, file *runtime.File, err error) error {
	var invalid *fbs.Error
	_, typed := fbs.VerifyEnvelope(file.Bytes())
	if !errors.As(typed, &invalid) || invalid.Place != "preamble" {
		return err
	}
	if known := notAnImageError(path); known != nil {
		return known
	}
	return fail.Around("", err, preambleAdvice(file.Bytes()))
}

// preambleAdvice returns what to do if the preamble of a file is invalid, or an empty string if the
// error says that itself: it does for an image of another version.
func preambleAdvice(data []byte) string {
	data, _, _ = fbs.SplitSignature(data)
	if len(data) < fbs.PreambleSize || !isImage(data) {
		return remakeAdvice
	}
	p := fbs.ReadStruct[fbs.Preamble](data)
	isOther := p.Major != fbs.FormatMajor || p.Minor > fbs.FormatMinor
	switch {
	case isOther || p.SchemaHash != fbs.SchemaHash:
		return ""
	case p.FileSize > uint64(len(data)):
		return "; the file is truncated: copy it again"
	}
	return remakeAdvice
}

// limitedInput is an input that is read in parts, up to a limit.
type limitedInput struct {
	*os.File
	// number of bytes that may be read, in total and from here on: a device or a pipe may have no
	// end
	limit, remaining int64

	hash             hash.Hash // of the first bytes; nil: not needed
	position, hashed int64     // next byte to read, and number of bytes in the hash
}

func openFile(path string) *limitedInput {
	fd, _, err := files.OpenWithoutWaiting(inputPath(path))
	fail.On(err)
	in := &limitedInput{File: os.NewFile(uintptr(fd), path), limit: math.MaxInt64}
	switch status, err := in.Stat(); {
	case err != nil:
	case status.Mode()&os.ModeCharDevice != 0:
		in.limit = deviceMax
	case status.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0:
		in.limit = pipeMax
	}
	in.remaining = in.limit
	return in
}

func (in *limitedInput) Read(p []byte) (n int, err error) {
	if in.remaining == 0 {
		return 0,
			newFault(hal.BadImage, "the input %s is longer than %s; put the data into a file",
				in.Name(), lmb.SizeText(uint64(in.limit)))
	}
	n, err = in.File.Read(p[:min(int64(len(p)), in.remaining)])
	if err == io.EOF && in.remaining == pipeMax {
		return 0, newFault(hal.IO, "%s: the pipe is empty and has no writer", in.Name())
	}
	in.remaining -= int64(n)
	if end := in.position + int64(n); in.hash != nil && end > in.hashed {
		in.hash.Write(p[in.hashed-in.position : n])
		in.hashed = end
	}
	in.position += int64(n)
	return n, err
}

// Seek records the new position, too.
func (in *limitedInput) Seek(offset int64, whence int) (int64, error) {
	position, err := in.File.Seek(offset, whence)
	in.position = position
	return position, err
}

const (
	deviceMax = 64 << 20
	pipeMax   = 16 << 30 // some 200 million lines of a trace, more than any image has commands
	keysMax   = 1 << 20
	dataMax   = 1 << 30 // largest size of a listing, or of data for an image
)

// writeFile writes an output file atomically.
func writeFile(path string, data []byte) {
	fail.On(files.Write(path, data, 0o666, openOutput))
}
