//go:build signed && nocounter

package main

// readVersionCounter returns 0, the lowest version: checkBuildTags rejects -version-counter in this
// build.
func readVersionCounter(string) (uint32, error) { return 0, nil }
