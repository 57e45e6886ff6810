// Lmrun replays one Light Metal binary on one device (or one device a target)
// and exits with a documented status. It is static, links nothing but the
// runtime, and can be a machine's only program: as process 1 it mounts what it
// needs, runs itself as a child, reports and powers the machine off.
package main
