package fbs_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"

	flatbuffers "github.com/google/flatbuffers/go"
)

// shape is how an image that no encoder writes shares its objects: how many
// references of each kind lead to the same one.
type shape struct {
	names, targets, sequences, tensors int
	nameBytes, originBytes             int
	dims                               int // of the one shape of the tensors
}

// sharedImage is an image of one End in which all of a kind are one.
func sharedImage(s shape) []byte {
	b := flatbuffers.NewBuilder(1 << 20)
	repeated := func(start func(*flatbuffers.Builder, int) flatbuffers.UOffsetT, count int, of flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		start(b, count)
		for range count {
			b.PrependUOffsetT(of)
		}
		return b.EndVector(count)
	}
	name, board := b.CreateString(strings.Repeat("n", s.nameBytes)), b.CreateString("b")
	if s.targets > 1 {
		board = name
	}
	origin := b.CreateString(strings.Repeat("o", s.originBytes))
	gen.TensorStartShapeVector(b, s.dims)
	for range s.dims {
		b.PrependUint32(1)
	}
	dims := b.EndVector(s.dims)
	gen.TensorStart(b)
	gen.TensorAddName(b, name)
	gen.TensorAddShape(b, dims)
	tensor := gen.TensorEnd(b)
	gen.SequenceStart(b)
	gen.SequenceAddName(b, name)
	gen.SequenceAddCount(b, 1)
	sequence := gen.SequenceEnd(b)
	gen.TargetStart(b)
	gen.TargetAddBoard(b, board)
	target := gen.TargetEnd(b)
	gen.OriginStart(b)
	gen.OriginAddTool(b, origin)
	gen.OriginAddSource(b, origin)
	gen.OriginAddGit(b, origin)
	from := gen.OriginEnd(b)
	names := repeated(gen.ImageStartNamesVector, s.names, name)
	targets := repeated(gen.ImageStartTargetsVector, s.targets, target)
	sequences := repeated(gen.ImageStartSequencesVector, s.sequences, sequence)
	tensors := repeated(gen.ImageStartTensorsVector, s.tensors, tensor)
	gen.ImageStartWindowsVector(b, 1)
	gen.CreateWindow(b, gen.WindowKindConfig, 0, 0, 0, fbs.NoSlot, fbs.NoName, 0, 256)
	windows := b.EndVector(1)
	gen.ImageStartCommandsVector(b, 1)
	end := fbs.End(nil)
	gen.CreateCommand(b, end.Opcode, 0, 0, 0, 0, 0, 0, 0, end.Value, end.Mask)
	commands := b.EndVector(1)
	gen.ImageStart(b)
	gen.ImageAddOrigin(b, from)
	gen.ImageAddReservation(b, gen.CreateReservation(b, 0, 0, 0, 1, 1, uint32(s.tensors), uint32(s.sequences), 0, uint32(s.names)))
	gen.ImageAddTargets(b, targets)
	gen.ImageAddWindows(b, windows)
	gen.ImageAddNames(b, names)
	gen.ImageAddSequences(b, sequences)
	gen.ImageAddTensors(b, tensors)
	gen.ImageAddCommands(b, commands)
	b.FinishWithFileIdentifier(gen.ImageEnd(b), []byte(fbs.Identifier))
	flat := b.FinishedBytes()
	file := slices.Concat(flat[:8], make([]byte, fbs.PreambleInsertion), flat[8:])
	binary.LittleEndian.PutUint32(file, binary.LittleEndian.Uint32(file)+fbs.PreambleInsertion)
	lmb.Stamp(file, uint64(len(file)))
	return file
}

var sharedImages = map[string]shape{
	"nothing":      {names: 1, targets: 1, sequences: 1, nameBytes: 1},
	"names":        {names: fbs.NamesMax, targets: 1, sequences: 1, nameBytes: fbs.NameMax},
	"long names":   {names: fbs.NamesMax, targets: 1, sequences: 1, nameBytes: 1 << 12},
	"targets":      {targets: fbs.TargetsMax, sequences: 1, nameBytes: 1 << 12},
	"sequences":    {targets: 1, sequences: fbs.SequencesMax, nameBytes: fbs.NameMax},
	"long titles":  {targets: 1, sequences: fbs.SequencesMax, nameBytes: 1 << 12},
	"tensors":      {targets: 1, sequences: 1, tensors: fbs.TensorsMax, nameBytes: fbs.NameMax, dims: fbs.DimsMax},
	"long tensors": {targets: 1, sequences: 1, tensors: fbs.TensorsMax, nameBytes: 1 << 12, dims: 1 << 10},
	"origin":       {targets: 1, sequences: 1, nameBytes: 1, originBytes: 1 << 20},
}

// TestVerifyTakesASmallMultipleOfTheFile: 65,536 names that are one string of a
// megabyte would be 64 GiB where each is copied, and 256 MiB of 4 KiB as here. What the limits of the format
// allow of tables beyond that is half a megabyte.
func TestVerifyTakesASmallMultipleOfTheFile(t *testing.T) {
	for name, s := range sharedImages {
		file := sharedImage(s)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := fbs.Verify(file)
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if took > 5*uint64(len(file))+512<<10 {
			t.Errorf("%s: %d bytes for a file of %d", name, took, len(file))
		}
		fits := s.nameBytes <= fbs.NameMax && s.originBytes <= fbs.OriginMax && s.sequences == 1 && s.tensors == 0
		if fits != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("evidence: %s: %d bytes taken for a file of %d", name, took, len(file))
	}
}

// TestTwoGoroutinesMayVerifyAtOnce does so as the first thing of a process; the
// race detector tells.
func TestTwoGoroutinesMayVerifyAtOnce(t *testing.T) {
	const first = "LM_TEST_FIRST_VERIFY"
	if os.Getenv(first) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), first+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	file := make([]byte, 200) // comes as far as the checksum of a signature
	binary.LittleEndian.PutUint64(file[24:], 72)
	copy(file[72:], fbs.SignatureMagic)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := fbs.Verify(file); err == nil {
				t.Error("zeros are accepted")
			}
		})
	}
	both.Wait()
}
