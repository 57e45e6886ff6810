package listing

import "slices"

// option is a word at the end of a line, and the value after it. It refers to one variable: read
// sets the variable, and value is its text.
type option struct {
	word  string
	read  func(*parser) // consumes the value
	value string        // the value as text; empty if the word is enough
	shown bool          // a printer writes the option; false: it has its default value
}

// parseOptions consumes options, in any order.
func (p *parser) parseOptions(list []option) {
	var words []string
	for _, o := range list {
		words = append(words, o.word)
	}
	for word := p.option(words...); word != ""; word = p.option(words...) {
		list[slices.Index(words, word)].read(p)
	}
}

// printOptions writes the options that do not have their default values.
func (p *printer) printOptions(list []option) {
	for _, o := range list {
		switch {
		case o.shown && o.value != "":
			p.printf(" %s %s", o.word, o.value)
		case o.shown:
			p.printf(" %s", o.word)
		}
	}
}
