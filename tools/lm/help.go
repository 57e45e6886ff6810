package main

import (
	"embed"
	"strings"

	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/fail"

	"github.com/spf13/cobra"
)

// helpTexts has the text of --help and the man pages for each command, apart from its
// flags: a line that says what it does, the description, and examples.
//
//go:embed help
var helpTexts embed.FS

func helpText(name string) string {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // a command of lm without a text
	}
	return strings.TrimSuffix(string(text), "\n")
}

// setHelpTexts sets the short texts of all commands. The long text of a command is set when
// it is shown, because some of its {WORD}s take long to compute.
func setHelpTexts(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		if !c.Hidden {
			c.Short, _, _ = strings.Cut(helpText(c.Name()), "\n\n")
		}
	}
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if !c.HasParent() {
			fail.On(unknownCommand(c, c.Flags().Args())) // lm nosuch --help
		}
		setHelpText(c)
		show(c, args)
	})
}

// helpCommand returns the command `help`. Unlike cobra's, it fails if there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err == nil && !of.HasParent() {
				err = unknownCommand(of, rest)
			}
			fail.On(err)
			return of.Help()
		},
	}
}

func setHelpText(c *cobra.Command) {
	if _, err := helpTexts.Open("help/" + c.Name() + ".txt"); err != nil {
		return // a command that cobra defines
	}
	words := strings.NewReplacer("{exits}", helpText("exits"), "{tensors}", helpText("tensors"),
		"{boards}", boardNames(), "{machines}", hostNames(),
		"{passes}", strings.Join(importer.Passes, ", "))
	_, text, _ := strings.Cut(words.Replace(helpText(c.Name())), "\n\n")
	c.Long, c.Example, _ = strings.Cut(text, "\n\nExamples:\n")
}
