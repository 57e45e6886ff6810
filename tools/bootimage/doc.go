// Bootimage makes what an arm64 board boots to do nothing but replay: an
// initramfs with lmrun as process 1, the images and a configuration, and what
// the board's boot loader wants beside it. Equal inputs give equal bytes.
//
//	bootimage image -board NAME -lmrun LMRUN -verifier LMRUN -out DIR [flags] IMAGE.lmb...
//	bootimage sbom -name NAME FILE...
//	bootimage boards
package main
