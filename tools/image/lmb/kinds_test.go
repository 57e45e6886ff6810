package lmb

import (
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// TestEveryOpcodeIsAKind: tables by opcode list every command but End, and an Expect with a
// deadline as a poll.
func TestEveryOpcodeIsAKind(t *testing.T) {
	for op := gen.OpcodeWrite; int(op) < len(gen.EnumNamesOpcode); op++ {
		if slices.Contains(CommandKinds, op) == (op == gen.OpcodeEnd) {
			t.Errorf("opcode %v is in no table, or is End", op)
		}
	}
	poll := fbs.Command{Opcode: gen.OpcodeExpect, Amount: 1}
	if kind := CommandKind(&poll); OpcodeName(kind) != "poll" {
		t.Errorf("an Expect with a deadline is called %s", OpcodeName(kind))
	}
}
