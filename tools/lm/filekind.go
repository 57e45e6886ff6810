package main

import (
	"bytes"
	"io"
	"os"
	"regexp"

	"lightmetal/hal"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/lmrun/files"
)

// Kinds of files are recognized by their first bytes: for lm import without --from, and for
// messages about a file that a command cannot read.

// headSize is the number of bytes at the beginning of a file that show its kind. A trace of
// QEMU may begin with events of other kinds.
const headSize = 32 << 10

// traceFormats has a pattern that occurs in the head of each format of traces.
var traceFormats = []struct {
	format  string
	pattern *regexp.Regexp
}{
	{importer.FromRecord, regexp.MustCompile("^LMRECORD")},
	{importer.FromMmiotrace, regexp.MustCompile("^(?:#.*\n)*VERSION 2")},
	{importer.FromRwmmio, regexp.MustCompile(
		`(?m)^ *\S.*-\d+ .*: rwmmio_(?:post_)?(?:read|write): `)},
	{importer.FromQemu, regexp.MustCompile("(memory|vfio)_region_")},
}

// simpleTraceMagic is the beginning of a trace of QEMU's backend "simple": an event of number ~0
// and a magic number (QEMU, trace/simple.c).
const simpleTraceMagic = "\xff\xff\xff\xff\xff\xff\xff\xff\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2"

// traceFormat returns the format of a trace, as --from names it, or an empty string.
func traceFormat(head []byte) string {
	for _, f := range traceFormats {
		if f.pattern.Match(head) {
			return f.format
		}
	}
	return ""
}

// readHead returns the first bytes of a regular file, unpacked if it is a packed record, and
// seeks to its beginning. It returns nil for a pipe, which cannot be read twice.
func readHead(file *os.File) []byte {
	if status, err := file.Stat(); err != nil || !status.Mode().IsRegular() {
		return nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	head, _ := record.NewTextReader(file).Peek(headSize)
	head = bytes.Clone(head)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	return head
}

// otherFormatHint returns a hint if a file seems to have another format than --from says.
func otherFormatHint(trace *limitedInput, from string) string {
	head := readHead(trace.File)
	if bytes.HasPrefix(head, []byte(simpleTraceMagic)) {
		return "; this is a binary trace of QEMU's backend \"simple\"; use the backend \"log\" " +
			"(qemu -trace EVENT -D FILE)"
	}
	if format := traceFormat(head); format != "" && format != from {
		return "; the trace looks like one for --from " + format
	}
	return ""
}

// notAnImageError returns an error that says what a file is that was given as an image, and what to
// do with it. It returns nil if the kind of the file is unknown.
func notAnImageError(path string) error {
	fd, _, err := files.OpenWithoutWaiting(path)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	head, text := readHead(file), ""
	switch {
	case traceFormat(head) != "":
		text = "%s is a trace, not an image; `lm import %[1]s` makes an image of it, " +
			"`lm import --summary %[1]s` shows what is in it"
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		text = "%s is the data of a tensor, not an image; `lm tensor %[1]s` shows it"
	case listingHead.Match(head):
		text = "%s is a listing, not an image; `lm asm %[1]s` makes an image of it"
	case profileHead.Match(head):
		text = "%s is a profile, not an image; `lm report IMAGE.lmb --profile %[1]s` shows it"
	default:
		return nil
	}
	return newFault(hal.BadImage, text, path)
}

// notATraceError returns an error that says what a file is that was given as a trace, and what to
// do with it. It returns nil if the file is a trace, or if its kind is unknown.
func notATraceError(path string) error {
	fd, _, err := files.OpenWithoutWaiting(inputPath(path))
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	head := readHead(file)
	switch {
	case traceFormat(head) != "":
		return nil
	case tracerHead.Match(head):
		return traces.TraceError(0, "this is the kernel's file trace, which lacks the lines "+
			"VERSION and PCIDEV; record again with cat /sys/kernel/tracing/trace_pipe "+
			"while mmiotrace is on")
	case isImage(head):
		return traces.TraceError(0, "this is an image, not a trace; `lm info %s` shows it", path)
	case listingHead.Match(head):
		return traces.TraceError(0,
			"this is a listing, not a trace; `lm asm %s` makes an image of it",
			path)
	}
	return nil
}

var (
	// listingHead matches the first line of a listing, which comments may precede.
	listingHead = regexp.MustCompile(`(?m)^lightmetal 1$`)
	tracerHead  = regexp.MustCompile(`^# tracer: mmiotrace\n`)
	// profileHead matches the beginning of a profile that lm replay --profile wrote.
	profileHead = regexp.MustCompile(`^\{"displayTimeUnit":"ns",\s*"lightmetal":`)
)
