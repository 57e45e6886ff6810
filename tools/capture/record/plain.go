package record

import (
	"bufio"
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
	var u unpacked
	from := bufio.NewReaderSize(r, 64<<10)
	if head, _ := from.Peek(2); string(head) == "\x1f\x8b" {
		u.zip, u.err = gzip.NewReader(from)
		from = bufio.NewReaderSize(&u, 64<<10)
	}
	head, _ := from.Peek(5)
	for magic, what := range foreign {
		if strings.HasPrefix(string(head), magic) {
			u.err = fmt.Errorf("it is %s, but must be text, or text with gzip; use %s FILE "+
				"| lm import ... -", what[0], what[1])
			return bufio.NewReader(&u)
		}
	}
	if strings.HasPrefix(string(head), utf8Mark) {
		_, _ = from.Discard(len(utf8Mark))
	}
	return from
}

// unpacked is what comes out of gzip, or why nothing does.
type unpacked struct {
	zip *gzip.Reader
	err error
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	if u.err != nil {
		return 0, &Error{1, 1, u.err}
	}
	n, err = u.zip.Read(p)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) ||
		errors.As(err, new(flate.CorruptInputError)) {
		err = &Error{1, 1, fmt.Errorf("the compressed text is damaged: %w", err)}
	}
	return n, err
}
