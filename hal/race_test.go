//go:build race

package hal

const underRace = true
