// Lmrun replays one Light Metal binary on one device (or one device a target) and
// exits with a documented status. What starts it as often as wanted is lminit.
package main
