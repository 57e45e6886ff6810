//go:build race

package runtime_test

// underRace: the race detector maps memory and opens files as it likes.
const underRace = true
