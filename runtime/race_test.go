//go:build race

package runtime_test

// underRace reports whether the race detector is built in. It maps memory and opens files at any
// time, so tests of system calls and of memory cannot run under it.
const underRace = true
