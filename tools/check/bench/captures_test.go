package main

import (
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// TestRepeatedRecordingsKeepAllCommands checks that every command of a recording is measured except
// marks, delays and calls. A bare recording also lacks Points and Fences.
func TestRepeatedRecordingsKeepAllCommands(t *testing.T) {
	b := &bench{testdata: testdataDir}
	for _, path := range recordings {
		image := b.readRecording(path)
		count := func(commands []lmb.Command, opcode gen.Opcode) (n int) {
			for j := range commands {
				if commands[j].Opcode == opcode {
					n++
				}
			}
			return n
		}
		body := inlineCalls(image)
		for _, bare := range []bool{false, true} {
			repeated := repeatMain(image, bare)
			memory := makeChecksPass(repeated)
			main := repeated.Sequences[0].Commands
			rounds := count(main, gen.OpcodeWrite) / count(body, gen.OpcodeWrite)
			if rounds < 2 || len(main) < minRepeatedCommands || len(memory) == 0 {
				t.Fatalf("%s: %d commands, %d rounds, memory of %d bytes: too few",
					path, len(main), rounds, len(memory))
			}
			for opcode := gen.OpcodeWrite; opcode < gen.OpcodeEnd; opcode++ {
				want := rounds * count(body, opcode)
				switch {
				case opcode == gen.OpcodeDelay || opcode == gen.OpcodeCall ||
					bare && opcode == gen.OpcodeFence:
					want = 0
				case bare && opcode == gen.OpcodePoint:
					want = count(main, opcode) // one for each window
				}
				if got := count(main, opcode); got != want {
					t.Errorf("%s, bare %v: %d commands %v, want %d", path, bare, got, opcode, want)
				}
			}
		}
	}
}

// TestRepeatedRecordingsPassTheirChecks replays each recording with the runtime and the tuned
// loops. Every check must pass.
func TestRepeatedRecordingsPassTheirChecks(t *testing.T) {
	program := compileC(t)
	b := &bench{testdata: testdataDir}
	for _, path := range recordings {
		image := b.readRecording(path)
		repeated := repeatMain(image, false)
		before := makeChecksPass(repeated)
		once := compareSides(t, program, writeImageFile(t, repeated), before)
		if once.status != 0 || once.ignored != 0 {
			t.Fatalf("%s: the runtime ends with status %d at command %d, %d failures ignored",
				path, once.status, once.command, once.ignored)
		}
		registers := len(before) - pageSize
		if fbs.Checksum(once.memory[:registers]) != fbs.Checksum(before[:registers]) {
			t.Errorf("%s: a run changes the memory", path)
		}
	}
}
