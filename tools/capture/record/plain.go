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

// foreign is what else begins so, and what makes text of it that is read here.
var foreign = map[string][2]string{
	"\xfd7zXZ":         {"compressed by xz", "xz -dc"},
	"\x28\xb5\x2f\xfd": {"compressed by zstd", "zstd -dc"},
	"BZh":              {"compressed by bzip2", "bzip2 -dc"},
	"\xff\xfe":         {"text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	"\xfe\xff":         {"text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

const utf8Mark = "\xef\xbb\xbf"

// Plain is the text of a capture, which gzip may have compressed, without the
// mark that some editors put in front of UTF-8. What is damaged, compressed by
// another program, or in UTF-16, is an *Error when it is read.
func Plain(r io.Reader) *bufio.Reader {
	u := unpacked{from: bufio.NewReaderSize(r, 64<<10)}
	from := u.from
	if head, _ := from.Peek(2); string(head) == "\x1f\x8b" {
		u.zip, u.err = gzip.NewReader(from)
		u.streams = true
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
	for magic, what := range foreign {
		if strings.HasPrefix(string(head), magic) {
			u.err = &Error{1, 1, fmt.Errorf("it is %s, but must be text, or text with gzip; use "+
				"%s FILE | lm import ... -", what[0], what[1])}
			return bufio.NewReader(&u)
		}
	}
	if strings.HasPrefix(string(head), utf8Mark) {
		_, _ = from.Discard(len(utf8Mark))
	}
	return from
}

// errTorn is in the error of a compressed file whose members are sound up to a place behind
// the first one, where the file is cut or damaged.
var errTorn = errors.New("the compressed text is cut or damaged from here on")

// memberMax is how much text of a member is kept until its checksum is known.
const memberMax = 64 << 20

// unpacked is what comes out of gzip, or why nothing does. Text of the first member, and of a
// very long one, comes as it is read, and of others when their checksum has been compared: the
// end of a file that was written when the machine stopped may be anything.
type unpacked struct {
	from    *bufio.Reader
	zip     *gzip.Reader
	streams bool         // the member that is read comes as it is read
	text    bytes.Buffer // of a member
	err     error
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	for u.err == nil && n == 0 && len(p) > 0 {
		switch {
		case u.text.Len() > 0:
			n, _ = u.text.Read(p)
		case u.streams:
			n = u.stream(p)
		default:
			u.err = u.nextMember()
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, u.err
}

// stream reads text that comes as it is read, up to the end of its member.
func (u *unpacked) stream(p []byte) (n int) {
	n, err := u.zip.Read(p)
	switch {
	case err == io.EOF:
		u.streams = false
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.As(err, new(flate.CorruptInputError)):
		u.err = &Error{1, 1, fmt.Errorf("the compressed text is damaged: %w", err)}
	default:
		u.err = err
	}
	return n
}

// nextMember reads the next member up to its checksum.
func (u *unpacked) nextMember() error {
	err := u.zip.Reset(u.from)
	if err == io.EOF {
		return err
	}
	u.zip.Multistream(false)
	u.text.Reset()
	if err == nil {
		_, err = io.CopyN(&u.text, u.zip, memberMax)
	}
	switch {
	case err == nil:
		u.streams = true
	case err != io.EOF:
		u.text.Reset()
		return &Error{1, 1, fmt.Errorf("%w (%w)", errTorn, err)}
	}
	return nil
}
