package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/english"
)

// freshness is the check of --check-fresh.
type freshness struct {
	random        *rand.Rand
	before, after [][]byte // outputs of the last run but one, and of the last run
}

// checkFreshFlags fails if the check of --check-fresh would show nothing.
func (f *replayFlags) checkFreshFlags(s *session) {
	switch {
	case !f.checkFresh:
		return
	case f.loop < 2:
		failUsage("--check-fresh compares two runs; add --loop 2")
	case f.checkGolden:
		failUsage("--check-fresh makes the inputs of each run, and --check-golden is for those " +
			"that were recorded; leave one of them out")
	case len(s.randomInputs()) == 0:
		failUsage("--check-fresh: %s has no input that --input does not name", s.path)
	case !slices.ContainsFunc(s.view.Tensors, isOutput):
		failUsage("--check-fresh: %s has no output", s.path)
	}
	s.fresh = &freshness{random: rand.New(rand.NewPCG(1, 2))}
}

func isOutput(t fbs.Tensor) bool { return t.Role == gen.RoleOutput }

// randomInputs returns the inputs that --input does not name.
func (s *session) randomInputs() (list []int) {
	for i := range s.view.Tensors {
		named := func(o tensorFile) bool { return o.tensorIndex == i }
		if s.view.Tensors[i].Role == gen.RoleInput && !slices.ContainsFunc(s.inputs, named) {
			list = append(list, i)
		}
	}
	return list
}

// newInputs makes the random inputs of the next run.
func (s *session) newInputs() {
	if s.fresh == nil {
		return
	}
	for _, i := range s.randomInputs() {
		fillRandomly(s.fresh.random, s.replay.Input(i), s.view.Tensors[i].Dtype)
		s.suppliedInputs[i] = true
	}
}

// fillRandomly fills a tensor with random elements: any integers, and numbers between 1/16 and 2 of
// both signs.
func fillRandomly(random *rand.Rand, data []byte, dtype gen.DType) {
	// The number of bits below the exponent, the exponent of 1/16, and all bits but the exponent
	mantissa, least, others := 0, uint64(0), uint64(0)
	switch dtype {
	case gen.DTypeFloat16:
		mantissa, least, others = 10, 11, 0x83ff
	case gen.DTypeBfloat16:
		mantissa, least, others = 7, 123, 0x807f
	case gen.DTypeFloat32:
		mantissa, least, others = 23, 123, 0x807fffff
	case gen.DTypeFloat64:
		mantissa, least, others = 52, 1019, 0x800fffffffffffff
	}
	size := int(fbs.DTypeSize(dtype))
	for at := 0; at < len(data); at += size {
		bits := random.Uint64()
		if others != 0 {
			bits = bits&others | (least+random.Uint64N(5))<<mantissa
		}
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], bits)
		copy(data[at:at+size], element[:])
	}
}

func (s *session) keepOutputs() {
	if s.fresh != nil {
		s.fresh.before, s.fresh.after = s.fresh.after, s.copyOutputs()
	}
}

func (s *session) copyOutputs() (list [][]byte) {
	for i := range s.view.Tensors {
		if isOutput(s.view.Tensors[i]) {
			list = append(list, bytes.Clone(s.replay.Output(i)))
		}
	}
	return list
}

// compareFresh runs the sequence once more with the inputs of the last run, after the sequence of
// --before. It fails if an output is not that of the last run, or if no output of the last run
// differs from that of the run before.
func (s *session) compareFresh(end *outcome) error {
	if s.fresh == nil || s.stop.requested.Load() != 0 {
		return nil
	}
	for _, index := range []int{s.beforeIndex, s.sequenceIndex} {
		if err := end.addResult(s, s.runOnce(index)); err != nil {
			return err
		}
	}
	first, differ := s.copyOutputs(), 0
	list := slices.DeleteFunc(slices.Clone(s.view.Tensors),
		func(t fbs.Tensor) bool { return !isOutput(t) })
	for i, t := range list {
		if n := differingElements(s.fresh.after[i], first[i], t.Dtype); n > 0 {
			return newFault(hal.CompareFailed, "%s: output %s: %s of %s of run %d %s not those of "+
				"a first run with the same inputs: later runs read old results, or results "+
				"depend on earlier runs", s.path, s.view.Name(t.Name), english.Number(n),
				english.Count(len(first[i])/int(fbs.DTypeSize(t.Dtype)), "element"), end.Runs,
				map[bool]string{true: "is", false: "are"}[n == 1])
		}
		if !bytes.Equal(s.fresh.before[i], s.fresh.after[i]) {
			differ++
		}
	}
	if differ == 0 {
		return newFault(hal.CompareFailed, "%s: no output differs between runs %d and %d, whose "+
			"inputs do: the runs read old results, or no result depends on an input", s.path,
			end.Runs-1, end.Runs)
	}
	end.fresh = fmt.Sprintf("run %d gave the results of a first run with the same inputs; "+
		"%d of %s differ from those of run %d", end.Runs, differ,
		english.Count(len(list), "output"), end.Runs-1)
	return nil
}

func differingElements(a, b []byte, dtype gen.DType) (n int) {
	size := int(fbs.DTypeSize(dtype))
	for at := 0; at < len(a); at += size {
		if !bytes.Equal(a[at:at+size], b[at:at+size]) {
			n++
		}
	}
	return n
}
