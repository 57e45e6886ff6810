package listing

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"lightmetal/fbs"
)

type kind uint8

const (
	tokenEOF kind = iota
	tokenLine
	tokenWord   // letters, digits and _ . -
	tokenString // text is what the quotes hold
	tokenSign   // punctuation
	tokenBad    // text says why
)

// token is one piece of a listing. Column counts bytes from 1, as Go does.
type token struct {
	kind         kind
	text         string
	line, column int
}

func (t token) is(sign string) bool  { return t.kind == tokenSign && t.text == sign }
func (t token) isWord(w string) bool { return t.kind == tokenWord && t.text == w }
func (t token) endsLine() bool       { return t.kind == tokenLine || t.kind == tokenEOF }

// String names the token in an error.
func (t token) String() string {
	switch t.kind {
	case tokenEOF:
		return "end of file"
	case tokenLine:
		return "end of line"
	}
	return strconv.Quote(t.text)
}

// lexer cuts a listing into tokens. Between braces the end of a line is blank
// space, so that a block of data is part of the line it starts on.
type lexer struct {
	source    string
	at        int
	line      int
	lineStart int
	block     *token // the open brace, nil outside of braces
}

func (l *lexer) token(k kind, text string) token {
	return token{k, text, l.line, l.at - l.lineStart + 1}
}

func (l *lexer) next() token {
	for {
		l.blank()
		if l.at == len(l.source) {
			return l.end()
		}
		if l.source[l.at] != '\n' {
			break
		}
		t := l.token(tokenLine, "")
		l.at++
		l.line, l.lineStart = l.line+1, l.at
		if l.block == nil {
			return t
		}
	}
	switch c := l.source[l.at]; {
	case c == '"':
		return l.quoted()
	case isWordByte(c):
		return l.word()
	}
	return l.sign()
}

// end is the end of the file, after an error if a block is open there.
func (l *lexer) end() token {
	if l.block != nil {
		t := *l.block
		t.kind, t.text = tokenBad, "this { has no matching }"
		l.block = nil
		return t
	}
	return l.token(tokenEOF, "")
}

// blank skips blanks and a comment.
func (l *lexer) blank() {
	rest := strings.TrimLeft(l.source[l.at:], " \t\r")
	if strings.HasPrefix(rest, "#") {
		comment, _, _ := strings.Cut(rest, "\n")
		rest = rest[len(comment):]
	}
	l.at = len(l.source) - len(rest)
}

func isLetter(c byte) bool   { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' }

func (l *lexer) word() token {
	start := l.at
	for l.at < len(l.source) && (isWordByte(l.source[l.at]) || l.inExponent(start)) {
		l.at++
	}
	text := l.source[start:l.at]
	return token{tokenWord, text, l.line, start - l.lineStart + 1}
}

// inExponent reports whether the plus sign at hand belongs to a number, as in 1e+06.
func (l *lexer) inExponent(start int) bool {
	text := l.source[start:l.at]
	return l.source[l.at] == '+' && text != "" && !isLetter(text[0]) &&
		text[len(text)-1]|0x20 == 'e' &&
		!strings.ContainsAny(text, "xX")
}

func (l *lexer) quoted() token {
	t := l.token(tokenString, "")
	line, _, _ := strings.Cut(l.source[l.at:], "\n")
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		l.at += len(line)
		t.kind, t.text = tokenBad,
			"the string has no closing quote on this line, a bad escape, or is not UTF-8"
		return t
	}
	l.at += len(quoted)
	t.text, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
	if !utf8.ValidString(quoted) || !fbs.IsPlainText([]byte(t.text)) {
		t.kind, t.text = tokenBad, "the string has a control character or is not UTF-8"
	}
	return t
}

func (l *lexer) sign() token {
	rest := l.source[l.at:]
	for _, sign := range [...]string{"<-", "==", "!=", "+", "&", "=", ":", ",", "[", "]", "(", ")",
		"{", "}"} {
		if strings.HasPrefix(rest, sign) {
			t := l.token(tokenSign, sign)
			l.at += len(sign)
			return l.brace(t)
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	t := l.token(tokenBad, fmt.Sprintf("unexpected character %q", r))
	l.at += size
	return t
}

func (l *lexer) brace(t token) token {
	switch {
	case t.text == "{" && l.block == nil:
		l.block = &t
	case t.text == "}":
		l.block = nil
	}
	return t
}
