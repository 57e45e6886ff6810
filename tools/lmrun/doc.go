// Lmrun replays one Light Metal binary on one device (or one device a target)
// and exits with a documented status. It is static and links nothing but the
// runtime. What starts it, again and again or as a machine's process 1, is lminit.
package main
