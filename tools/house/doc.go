// Package house holds no code, only the tests that keep the project's shape:
// which package imports which, where unsafe may stand, what the target links.
package house
