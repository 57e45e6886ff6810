package main

import (
	"embed"
	"strings"

	"lightmetal/tools/importer"

	"github.com/spf13/cobra"
)

// helpTexts are what --help and the man pages tell of each command beside its
// flags: a line that says what it does, the rest of the text, and examples.
//
//go:embed help
var helpTexts embed.FS

// texts are what {WORD} stands for in them.
func texts() *strings.Replacer {
	return strings.NewReplacer("{exits}", helpText("exits"), "{tensors}", helpText("tensors"), "{boards}", boardNames(), "{machines}", hostNames(),
		"{passes}", strings.Join(importer.Passes, ", "))
}

func helpText(name string) string {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // a command of our own without a text
	}
	return strings.TrimSuffix(string(text), "\n")
}

// giveTexts gives commands their texts.
func giveTexts(commands []*cobra.Command) {
	words := texts()
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		var text string
		c.Short, text, _ = strings.Cut(words.Replace(helpText(c.Name())), "\n\n")
		c.Long, c.Example, _ = strings.Cut(text, "\n\nExamples:\n")
	}
}
