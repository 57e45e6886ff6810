package record

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// otherFormats has, by the first bytes of a file, formats that are not read here, and the programs
// that convert them.
var otherFormats = map[string][2]string{
	"\xfd7zXZ":         {"compressed by xz", "xz -dc"},
	"\x28\xb5\x2f\xfd": {"compressed by zstd", "zstd -dc"},
	"BZh":              {"compressed by bzip2", "bzip2 -dc"},
	"\xff\xfe":         {"text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	"\xfe\xff":         {"text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

const utf8Mark = "\xef\xbb\xbf"

// NewTextReader returns a reader of the text of a capture. It decompresses gzip, and skips the byte
// order mark that some editors put in front of UTF-8. If the text is damaged, compressed by another
// program, or in UTF-16, reading it returns an *Error.
func NewTextReader(r io.Reader) *bufio.Reader {
	u := gzipText{from: bufio.NewReaderSize(r, 64<<10)}
	from := u.from
	if head, _ := from.Peek(2); string(head) == "\x1f\x8b" {
		u.zip, u.err = gzip.NewReader(from)
		u.isUnverified = true
		switch u.err {
		case nil:
			u.zip.Multistream(false)
		case io.EOF, io.ErrUnexpectedEOF:
			u.err = io.ErrUnexpectedEOF
		default:
			u.err = &Error{1, 1, u.err}
		}
		from = bufio.NewReaderSize(&u, 64<<10)
	}
	head, _ := from.Peek(5)
	for magic, what := range otherFormats {
		if strings.HasPrefix(string(head), magic) {
			u.err = &Error{1, 1, fmt.Errorf("the file is %s, but must be text, "+
				"or text compressed by gzip; use %s FILE | lm import ... -", what[0], what[1])}
			return bufio.NewReader(&u)
		}
	}
	if strings.HasPrefix(string(head), utf8Mark) {
		_, _ = from.Discard(len(utf8Mark))
	}
	return from
}

// errTorn is in the error of a compressed file that is cut or damaged after its first member. The
// members before this place are valid.
var errTorn = errors.New("the compressed text is cut or damaged from here on")

// memberTextMax limits the text of a member, in bytes, that is kept until its checksum is verified.
const memberTextMax = 64 << 20

// gzipText returns the text of a gzip file, or an error. It returns the text of the first member,
// and of a very long one, while it reads the member. It returns the text of other members only
// after it has verified the checksum, because the end of a file may contain anything if the machine
// stopped while the file was written.
type gzipText struct {
	from *bufio.Reader
	zip  *gzip.Reader
	// the text of the current member is returned without waiting for its checksum
	isUnverified bool
	text         bytes.Buffer // text of a member with a valid checksum
	err          error
}

func (u *gzipText) Read(p []byte) (n int, err error) {
	for u.err == nil && n == 0 && len(p) > 0 {
		switch {
		case u.text.Len() > 0:
			n, _ = u.text.Read(p)
		case u.isUnverified:
			n = u.readUnverified(p)
		default:
			u.err = u.readMember()
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, u.err
}

// readUnverified reads text of the current member before its checksum is verified, up to the end of
// the member.
func (u *gzipText) readUnverified(p []byte) (n int) {
	n, err := u.zip.Read(p)
	switch {
	case err == io.EOF:
		u.isUnverified = false
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.As(err, new(flate.CorruptInputError)):
		u.err = &Error{1, 1, fmt.Errorf("the compressed text is damaged: %w", err)}
	default:
		u.err = err
	}
	return n
}

// readMember reads the next member and verifies its checksum. If the member is very long, it reads
// only the beginning.
func (u *gzipText) readMember() error {
	err := u.zip.Reset(u.from)
	if err == io.EOF {
		return err
	}
	u.zip.Multistream(false)
	u.text.Reset()
	if err == nil {
		_, err = io.CopyN(&u.text, u.zip, memberTextMax)
	}
	switch {
	case err == nil:
		u.isUnverified = true
	case err != io.EOF:
		u.text.Reset()
		return &Error{1, 1, fmt.Errorf("%w (%w)", errTorn, err)}
	}
	return nil
}
