// Package house contains no code, only the tests that keep the project's shape:
// which package imports which, where unsafe may be used, what the target links, how
// long functions and lines are. It also prints how many statements there are.
package house
