package main

import (
	"errors"
	"fmt"
	"strings"

	"lightmetal/hal"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Errors of a command line: unknown commands and flags, and flags with an unusable value.

// flagError returns the error of a command whose flags could not be parsed.
func flagError(c *cobra.Command, err error) error {
	text, like := flagErrorText(c, err)
	if like == "" {
		like = "; see " + c.CommandPath() + " --help"
	}
	return newFault(hal.Usage, "%s%s", text, like)
}

// flagErrorText returns the text of an error, and the flags that resemble an unknown flag.
func flagErrorText(c *cobra.Command, err error) (text, like string) {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlagText(c, unknown)
	case errors.As(err, &missing):
		return fmt.Sprintf("--%s needs a value", missing.GetFlag().Name), ""
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		text = fmt.Sprintf("--%s takes %s, not %q", flag.Name, valueForm(flag), invalid.GetValue())
		return text, ""
	}
	return err.Error(), ""
}

// unknownFlagText names the flags that resemble an unknown flag. A long flag that was typed with
// one dash is parsed as a group of one-letter flags.
func unknownFlagText(c *cobra.Command, unknown *pflag.NotExistError) (text, like string) {
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		if c.Flags().Lookup(group) != nil {
			text = fmt.Sprintf("there is no flag -%s; this flag has two dashes, --%[1]s", group)
			return text, ""
		}
		return "there is no flag -" + unknown.GetSpecifiedName(), ""
	}
	name, flags := unknown.GetSpecifiedName(), &cobra.Command{}
	c.Flags().VisitAll(func(f *pflag.Flag) { addNameCandidate(flags, "--"+f.Name) })
	return "there is no flag --" + name, didYouMean(flags, "--"+name, "")
}

// valueForm returns what a flag takes, in words.
func valueForm(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "int", "uint64":
		return "a whole number"
	case "uint8":
		return "a number from 0 to 255"
	case "uint16": // only --window has this type; the format uses 65535 for any TLB window
		return "a number from 0 to 65534"
	case "uint32":
		return "a number from 0 to 4294967295"
	case "bool":
		return "true or false"
	case "float32":
		return "a number"
	case "duration":
		return "a time such as 500ms, 20s or 1h"
	}
	return "a value of type " + flag.Value.Type()
}

// unknownCommand fails if the first argument is no command.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if like := didYouMean(c, args[0], "lm "); like != "" {
		failUsage("there is no command lm %s%s", args[0], like)
	}
	return newFault(hal.Usage, "there is no command lm %s; lm --help lists the commands", args[0])
}

// addNameCandidate adds a name for didYouMean to choose from, in the form in which cobra compares
// names: that of a command.
func addNameCandidate(to *cobra.Command, name string) {
	to.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
}

// didYouMean returns the end of a message on an unknown name: the names below a command that
// resemble it, each after a prefix. It returns an empty string if none does.
func didYouMean(c *cobra.Command, name, prefix string) string {
	c.SuggestionsMinimumDistance = 2 // insertions, deletions and replacements of a letter
	like := c.SuggestionsFor(name)
	if len(like) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(like, " or "+prefix) + "?"
}
