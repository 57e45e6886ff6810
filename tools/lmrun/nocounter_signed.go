//go:build signed && nocounter

package main

// readVersionCounter returns 0, the lowest version, because there is no version counter:
// rejectOmittedOptions rejects -version-counter in this build.
func readVersionCounter(string) (uint32, error) { return 0, nil }
