// Bootimage makes a boot image with which an arm64 board only replays: an initramfs with lminit as
// PID 1, lmrun, the images and a configuration, and the files that the board's boot loader needs.
// Equal inputs result in equal bytes.
//
//	bootimage image -board NAME -lmrun LMRUN -lminit LMINIT -verifier LMINIT -out DIR [flags] \
//	    IMAGE.lmb...
//	bootimage sbom -name NAME FILE...
//	bootimage boards
package main
