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

// Plain is the text of a capture, which gzip may have compressed. What is
// damaged, or compressed by another program, is an *Error when it is read.
func Plain(r io.Reader) *bufio.Reader {
	var u unpacked
	from := bufio.NewReaderSize(r, 64<<10)
	head, _ := from.Peek(5)
	for magic, packer := range map[string]string{"\xfd7zXZ": "xz", "\x28\xb5\x2f\xfd": "zstd", "BZh": "bzip2"} {
		if strings.HasPrefix(string(head), magic) {
			u.err = fmt.Errorf("it is compressed by %s, and gzip alone is read here: %s -dc FILE | lm import ... -", packer, packer)
		}
	}
	if strings.HasPrefix(string(head), "\x1f\x8b") {
		u.zip, u.err = gzip.NewReader(from)
	} else if u.err == nil {
		return from
	}
	return bufio.NewReaderSize(&u, 64<<10)
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
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, new(flate.CorruptInputError)) {
		err = &Error{1, 1, fmt.Errorf("the compressed text is damaged: %w", err)}
	}
	return n, err
}
