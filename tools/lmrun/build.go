package main

import (
	"strings"

	"lightmetal/tools/lmrun/args"
)

// This file rejects options that this lmrun does not support because of a build tag. Each of the
// build tags norings, nowatchdog, nolock, nofaults, nojson and nocounter omits the code of one
// option. This makes lmrun smaller for products that do not need the option.

// rejectOmittedOptions returns an error if an option needs code that was omitted by a build tag.
// The error names the build tag.
func rejectOmittedOptions(o args.Options) error {
	switch {
	case !hasRings && (usesRing(o.Inputs) || usesRing(o.Outputs)):
		return buildTagError("NAME="+ringPrefix+"FILE", "norings")
	case !hasWatchdog && o.Watchdog != "":
		return buildTagError("-watchdog", "nowatchdog")
	case !hasMemoryLock && o.LockMemory:
		return buildTagError("-lock", "nolock")
	case !hasFaultRecorder && o.FaultFile != "":
		return buildTagError("-faults", "nofaults")
	case !hasJSON && o.PrintJSON:
		return buildTagError("-json", "nojson")
	case omitsVersionCounter && o.VersionCounterFile != "":
		return buildTagError("-version-counter", "nocounter")
	}
	return nil
}

// usesRing reports whether one of the bindings connects a tensor with a ring.
func usesRing(bindings []args.Binding) bool {
	for _, b := range bindings {
		if strings.HasPrefix(b.Path, ringPrefix) {
			return true
		}
	}
	return false
}

// buildTagError returns the usage error for an option that this lmrun does not support, because
// lmrun was built with the given tag.
func buildTagError(option, tag string) error {
	return args.UsageError(option + ": this lmrun was built with the tag `" + tag +
		"`; build lmrun without that tag")
}
