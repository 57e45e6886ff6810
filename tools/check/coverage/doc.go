// Coverage reports, function by function, which instructions of the shipped lmrun ran in a guest,
// and which of its conditional branches went both ways.
//
//	coverage [-json] [-functions] [-left] [-held FILE] LMRUN=SEEN[,SEEN...]...
//
// LMRUN is a program, and SEEN a directory that boots of the guest have filled (LM_GUEST_COVERAGE,
// tools/check/guest). If there are several, the instruction counts if it ran in any of them. Names
// and lines come from the table that Go leaves in a program without symbols, so that exactly the
// shipped lmrun is inspected.
//
// Unreachable code of the compiler is recognized by its form (form.go). All other unreached code of
// the loop, the verifier and Load must be in a list (left.txt), with the function, the number of
// instructions and branches, and the reason. With -held, coverage prints how much of each group is
// listed, and fails if a function of any program has more than that.
package main
