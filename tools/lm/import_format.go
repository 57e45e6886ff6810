package main

import (
	"bytes"
	"io"
	"regexp"

	"lightmetal/tools/capture/record"
)

// otherFormat returns a hint if a file seems to have another format than --from says. QEMU's
// binary traces begin with an event of number ~0 and a magic number (trace/simple.c).
func otherFormat(trace *input, from string) string {
	if _, err := trace.Seek(0, io.SeekStart); err != nil { // a pipe
		return ""
	}
	head, _ := record.Plain(trace.File).Peek(32 << 10)
	if bytes.HasPrefix(head,
		[]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2")) {
		return "; this is a binary trace of QEMU's backend \"simple\"; use the backend \"log\" " +
			"(qemu -trace EVENT -D FILE)"
	}
	for _, f := range []struct{ seems, sign string }{{"record", "^LMRECORD"},
		{"mmiotrace", "^VERSION 2"}, {"qemu", "(memory|vfio)_region_"}} {
		switch {
		case !regexp.MustCompile(f.sign).Match(head):
		case f.seems == from:
			return ""
		default:
			return "; it looks like --from " + f.seems
		}
	}
	return ""
}
