// Coverage tells, function by function, which instructions of lmrun as it ships were
// carried out in a guest, and which of its conditional branches went both ways.
//
//	coverage [-json] [-functions] [-left] [-held FILE] LMRUN=SEEN[,SEEN...]...
//
// LMRUN is a program, and SEEN a folder that the guest's boots filled
// (LM_GUEST_COVERAGE, tools/check/guest); what several saw adds up. Names and lines come from
// the table that Go leaves in a program without symbols, so that lmrun is inspected as it ships.
//
// What a compiler made and nobody can reach is recognised by its form (form.go).
// What else was not reached of the loop, the verifier and Load stands in a list
// (left.txt) by function, how much, and why; -held tells how much of each group is listed
// and how much is not, and fails where anything of any program is not.
package main
