package importer

import (
	"io"
	"slices"

	"lightmetal/tools/importer/traces"
)

// Summarize counts what is in a trace, and says what of it no image can carry
// out; that is known where the board is, and the region of a trace of QEMU. The
// error is an *Error.
func Summarize(r io.Reader, o Options) (*traces.Summary, error) {
	s, err := traces.Summarize(r, o.source())
	if err != nil {
		return nil, err
	}
	for _, a := range s.Accesses {
		given := a.Width >= 4 && slices.ContainsFunc(o.Host, func(h HostSpec) bool { return a.Value-h.Bus < uint64(len(h.Data)) })
		if reason := hostMemoryReason(o.Board, &a); reason != "" && !given {
			s.Blocked = append(s.Blocked, traces.Warning{Line: a.Line, Text: reason})
		}
	}
	return s, nil
}
