// Bootimage makes what an arm64 board boots to do nothing but replay: an
// initramfs with lminit as process 1, lmrun, the images and a configuration, and what
// the board's boot loader wants beside it. Equal inputs give equal bytes.
//
//	bootimage image -board NAME -lmrun LMRUN -lminit LMINIT -verifier LMINIT -out DIR [flags]
//
// IMAGE.lmb...
//
//	bootimage sbom -name NAME FILE...
//	bootimage boards
package main
