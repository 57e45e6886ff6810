package main

import (
	"strings"

	"lightmetal/tools/lmrun/args"
)

// This file rejects options whose code a build tag has left out: norings, nowatchdog and
// nojson each make the program smaller for a product that does not need it.

// checkBuild returns an error that names the build tag if an option needs code that this
// program does not have.
func checkBuild(o args.Options) error {
	switch {
	case !hasRings && (usesRing(o.Inputs) || usesRing(o.Outputs)):
		return omittedError("NAME="+ringPrefix+"FILE", "norings")
	case !hasWatchdog && o.Watchdog != "":
		return omittedError("-watchdog", "nowatchdog")
	case !hasJSON && o.JSON:
		return omittedError("-json", "nojson")
	}
	return nil
}

func usesRing(bindings []args.Binding) bool {
	for _, b := range bindings {
		if strings.HasPrefix(b.Path, ringPrefix) {
			return true
		}
	}
	return false
}

func omittedError(option, tag string) error {
	return args.UsageError(option + ": this lmrun was built with the tag " + tag +
		"; build one without it")
}
