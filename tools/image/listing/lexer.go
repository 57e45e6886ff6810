package listing

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"lightmetal/fbs"
)

type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenLine
	tokenWord   // letters, digits and _ . -
	tokenString // text is the string without its quotes
	tokenSign   // punctuation
	tokenBad    // text is the error
)

// token is a word, string or sign of a listing. Columns count bytes from 1, as in Go.
type token struct {
	kind         tokenKind
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

// lexer splits a listing into tokens. Between braces it skips the ends of lines, so that a block of
// data is part of the line on which it starts.
type lexer struct {
	source    string
	position  int
	line      int
	lineStart int
	block     *token // the open brace; nil: outside braces
}

func (l *lexer) token(k tokenKind, text string) token {
	return token{k, text, l.line, l.position - l.lineStart + 1}
}

func (l *lexer) next() token {
	for {
		l.skipBlanks()
		if l.position == len(l.source) {
			return l.endToken()
		}
		if l.source[l.position] != '\n' {
			break
		}
		t := l.token(tokenLine, "")
		l.position++
		l.line, l.lineStart = l.line+1, l.position
		if l.block == nil {
			return t
		}
	}
	switch c := l.source[l.position]; {
	case c == '"':
		return l.quoted()
	case isWordByte(c):
		return l.word()
	}
	return l.sign()
}

// endToken returns the token for the end of the file, after an error if a block is still open.
func (l *lexer) endToken() token {
	if l.block != nil {
		t := *l.block
		t.kind, t.text = tokenBad, "this { has no matching }"
		l.block = nil
		return t
	}
	return l.token(tokenEOF, "")
}

// skipBlanks also skips a comment.
func (l *lexer) skipBlanks() {
	rest := strings.TrimLeft(l.source[l.position:], " \t\r")
	if strings.HasPrefix(rest, "#") {
		comment, _, _ := strings.Cut(rest, "\n")
		rest = rest[len(comment):]
	}
	l.position = len(l.source) - len(rest)
}

func isLetter(c byte) bool   { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' }

func (l *lexer) word() token {
	start := l.position
	for l.position < len(l.source) && (isWordByte(l.source[l.position]) || l.inExponent(start)) {
		l.position++
	}
	text := l.source[start:l.position]
	return token{tokenWord, text, l.line, start - l.lineStart + 1}
}

// inExponent reports whether the next character is the plus sign of an exponent, as in 1e+06.
func (l *lexer) inExponent(start int) bool {
	text := l.source[start:l.position]
	return l.source[l.position] == '+' && text != "" && !isLetter(text[0]) &&
		text[len(text)-1]|0x20 == 'e' &&
		!strings.ContainsAny(text, "xX")
}

func (l *lexer) quoted() token {
	t := l.token(tokenString, "")
	line, _, _ := strings.Cut(l.source[l.position:], "\n")
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		l.position += len(line)
		t.kind, t.text = tokenBad,
			"the string lacks its closing quote on this line, has an invalid escape sequence, "+
				"or is not UTF-8"
		return t
	}
	l.position += len(quoted)
	t.text, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
	if !utf8.ValidString(quoted) || !fbs.IsPlainText([]byte(t.text)) {
		t.kind, t.text = tokenBad,
			"the string has an invisible or control character, or is not UTF-8; remove it"
	}
	return t
}

func (l *lexer) sign() token {
	rest := l.source[l.position:]
	for _, sign := range [...]string{"<-", "==", "!=", "+", "&", "=", ":", ",", "[", "]", "(", ")",
		"{", "}"} {
		if strings.HasPrefix(rest, sign) {
			t := l.token(tokenSign, sign)
			l.position += len(sign)
			return l.trackBrace(t)
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	t := l.token(tokenBad, fmt.Sprintf("unexpected character %q", r))
	l.position += size
	return t
}

func (l *lexer) trackBrace(t token) token {
	switch {
	case t.text == "{" && l.block == nil:
		l.block = &t
	case t.text == "}":
		l.block = nil
	}
	return t
}
