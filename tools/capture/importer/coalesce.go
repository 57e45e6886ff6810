package importer

import (
	"fmt"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

const (
	// Minimum number of accesses for a copy or compare. Registers need more, because a few single
	// stores are clearer and not larger.
	memoryRunMin   = 2
	registerRunMin = 8

	// Minimum number of equal stores for a fill, if they are a run of their own. Inside another
	// run, a fill must also save the bytes of two more commands and the gaps between two more
	// payloads.
	fillMin      = 9
	fillBytesMin = 256

	runBytesMax = 1 << 30
)

// commandBuilder turns steps into commands.
type commandBuilder struct {
	*program
	fences            fencer
	verdict           verdict
	fillSummary       string   // report of the pass fill
	sequenceSummaries []string // report of the pass cut: sequences and their sizes

	sequences      []lmb.Sequence // only "main" if nothing is cut
	commands       *lmb.Packed    // commands that are not in sequences yet
	currentSegment segment        // segment of these commands
	// For each window: 1 plus the index of its target in program.targets; 0: none
	pointedTo []int32

	// Number of times that the program pointed a window
	programPoints int
	// commandCount includes fences and points
	commandCount, pointCount                                      int
	writes, copies, fills, polls, expects, compares, outputCopies int // numbers of commands by kind
	// Expects of loads whose values are not compared
	ignoredExpects int
	// Number of accesses in copies, fills, compares and output copies
	storedAccesses, filledAccesses, comparedAccesses, readAccesses int
	compareLine                                                    int // line of the first compare
}

// position is access k of step i.
type position struct {
	i int
	k uint32
}

// buildCommands turns the steps into commands. Loads are compared with the recorded values; without
// the pass expect, their values are ignored.
func (m *commandBuilder) buildCommands() (out passResult, err error) {
	m.removeEmptySteps()
	front, did := m.initialHostCommands()
	m.fillSummary, m.pointedTo = did, make([]int32, len(m.windows))
	m.noteLoads()
	for i := range front {
		m.emit(&front[i])
	}
	for at := (position{}); at.i < m.steps.count; {
		at = m.emitAccess(at)
	}
	m.fences.emitLastFence(m)
	if m.commandCount >= fbs.CommandsMax {
		return out, traces.TraceError(0,
			"the image would have %d commands, but may have at most %d: "+
				"import a part with --part FROM..TO",
			m.commandCount+1, fbs.CommandsMax)
	}
	m.steps, m.runData, m.verdict.registers = stepList{}, runArena{}, nil
	switch n := m.expects - m.ignoredExpects + m.comparedAccesses; {
	case n > 0 && m.isPassEnabled("expect"):
		out.summary = fmt.Sprintf("%s must return the recorded values", english.Count(n, "load"))
	case n > 0:
		out.summary = fmt.Sprintf("off: the value of %s is ignored", english.Count(n, "load"))
	}
	return out, nil
}

// reportPoints reports the Point commands that were not needed.
func (m *commandBuilder) reportPoints() (out passResult, err error) {
	if m.programPoints > 0 && m.isPassEnabled("drop") {
		out.summary = fmt.Sprintf("%d of %s dropped, because they have no effect",
			m.programPoints-m.pointCount,
			english.Count(m.programPoints, "point command"))
	}
	return out, nil
}

// reportCommands is the report of the pass coalesce, which makes one command of adjacent accesses.
// In memory, only the bytes matter; registers keep the width and the address of each access.
func (m *commandBuilder) reportCommands() (out passResult, err error) {
	if len(m.options.Inputs) > 0 && m.compares > 0 {
		out.addWarning(m.compareLine,
			"%s recorded data, and will fail if an input changes the results of the device; "+
				"declare these results with --output",
			compareCountText(m.compares))
	}
	out.summary = m.commandSummary()
	return out, nil
}

// emit appends a command, after a fence if one is needed.
func (m *commandBuilder) emit(c *lmb.Command) {
	if m.isPassEnabled("fence") && m.fences.needsFence(m.program, c) {
		m.emitFence()
	}
	m.append(c)
}

func (m *commandBuilder) emitFence() {
	m.fences.count++
	m.append(&lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
}

func (m *commandBuilder) append(c *lmb.Command) {
	if m.commandCount++; m.commandCount < fbs.CommandsMax {
		m.commands.Append(c)
	}
}

func compareCountText(compares int) string {
	if compares == 1 {
		return "1 compare command expects"
	}
	return fmt.Sprintf("%d compare commands expect", compares)
}

func (m *commandBuilder) commandSummary() string {
	var list clauses
	list.addIfAny(m.writes, "%s", english.Count(m.writes, "write"))
	list.addIfAny(m.copies, "%s made from %s", english.Count(m.copies, "copy"),
		english.Count(m.storedAccesses, "store"))
	list.addIfAny(m.fills, "%s made from %s", english.Count(m.fills, "fill"),
		english.Count(m.filledAccesses, "store"))
	list.addIfAny(m.polls, "%s", english.Count(m.polls, "poll"))
	list.addIfAny(m.expects, "%s", english.Count(m.expects, "expect"))
	list.addIfAny(m.compares, "%s made from %s", english.Count(m.compares, "compare"),
		english.Count(m.comparedAccesses, "load"))
	list.addIfAny(m.outputCopies, "%s made from %s", english.Count(m.outputCopies, "output copy"),
		english.Count(m.readAccesses, "load"))
	text := strings.Join(list, ", ")
	if !m.isPassEnabled("coalesce") {
		text = "off: " + text
	}
	return text
}

// emitAccess emits the commands for an access or a run, and returns the position of the next
// access.
func (m *commandBuilder) emitAccess(at position) (next position) {
	s := m.steps.at(at.i)
	if at.k == 0 {
		m.pointWindow(at.i)
	}
	if s.elementCount() > 1 {
		return m.emitCommand(m.singleAccess(s, at.k), at)
	}
	for range s.count - 1 {
		m.emitCommand(m.singleAccess(s, 0), at)
	}
	return m.emitCommand(m.singleAccess(s, 0), at)
}

// emitCommand emits the command for the access s at a position and for following accesses that the
// command can include. It returns the position after them.
func (m *commandBuilder) emitCommand(s step, at position) (next position) {
	c := lmb.Command{Command: fbs.Command{Width: s.width, Window: s.window, Offset: s.offset}}
	next = m.nextPosition(at)
	switch s.op {
	case stepSequenceStart:
		m.endSequence(&s)
		return next
	case stepHostStores:
		m.emitHostStores(m.hostStoreLists[s.operand])
		return next
	case stepMark:
		c = lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark,
			Mode: uint8(gen.MarkKindPoint)}, Data: []byte(m.markNames[s.operand])}
	case stepDelay:
		c = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeDelay, Amount: s.durationUs}}
	case stepPoll:
		m.setExpect(&c, s.value, m.maskOf(&s))
		c.Amount, c.Index = s.durationUs, s.lineStride
		if s.hasFlag(flagCounter) {
			c.Mode = uint8(gen.ConditionReached)
		}
		if s.hasFlag(flagChanged) {
			c.Mode = uint8(gen.ConditionNotEqual)
		}
		m.polls++
		if s.hasFlag(flagInterrupt) {
			m.verdict.behindInterrupts++
		}
	case stepIgnore:
		m.setExpect(&c, 0, 0)
		m.expects++
		m.ignoredExpects++
		m.verdict.ignored++
	case stepRelocate:
		c = relocateCommand(s.width, s.window, uint64(s.offset), m.hostSpaces[s.operand].window,
			s.value)
		m.writes++
	case stepCarryOut, stepCarryIn:
		m.setCarry(&c, &s)
	case stepStore:
		next = m.setStore(&c, &s, at)
	case stepLoad:
		next = m.setLoad(&c, &s, at)
	}
	m.emit(&c)
	return next
}

// emitHostStores emits the commands that repeat stores of the program to host memory.
func (m *commandBuilder) emitHostStores(list []hostStore) {
	for _, s := range mergeStores(list) {
		copies := m.hostCopies(&m.hostSpaces[s.host], s)
		pointers := m.relocationsIn(&m.hostSpaces[s.host], s)
		for _, c := range append(copies, pointers...) {
			m.emit(&c)
		}
	}
}

func (m *commandBuilder) setExpect(c *lmb.Command, value, mask uint64) {
	c.Opcode, c.Mode, c.Option = gen.OpcodeExpect, uint8(gen.ConditionEqual), uint8(gen.PolicyFail)
	c.Value, c.Mask = value&mask, mask
}

func (m *commandBuilder) setStore(c *lmb.Command, s *step, at position) (next position) {
	e, fill := m.longestStoreExtent(at)
	if s.tensorIndex() < 0 && !e.isWorthCommand(s) {
		c.Opcode, c.Value = gen.OpcodeWrite, s.value
		m.writes++
		return m.nextPosition(at)
	}
	e.setRange(c, s)
	c.Opcode = gen.OpcodeCopyIn
	switch {
	case s.tensorIndex() >= 0:
		c.Index, c.Value = m.indexOfTensor(s.operand), s.value
	case fill:
		c.Opcode, c.Mode, c.Value = gen.OpcodeFill, uint8(gen.AccessExact), s.value
		if s.hasFlag(flagMemory) {
			m.widenFill(c)
		}
		m.fills++
		m.filledAccesses += e.count
		return e.end
	default:
		c.Data = m.extentData(&e)
		c.Amount = 0 // Encode sets it
	}
	m.copies++
	m.storedAccesses += e.count
	return e.end
}

// widenFill changes a fill of memory to wider stores if the alignment allows it.
func (m *commandBuilder) widenFill(c *lmb.Command) {
	place := uint64(c.Offset) | uint64(c.Amount) | m.windows[c.Window].Offset
	for c.Width < 8 && place%uint64(2*c.Width) == 0 {
		c.Value |= c.Value << (8 * c.Width)
		c.Width *= 2
	}
}

func (m *commandBuilder) setLoad(c *lmb.Command, s *step, at position) (next position) {
	var e extent
	if s.tensorIndex() >= 0 || s.hasFlag(flagMemory) && m.isPassEnabled("expect") {
		e = m.longestExtent(at)
	}
	switch {
	case s.tensorIndex() >= 0:
		e.setRange(c, s)
		c.Opcode, c.Index, c.Value = gen.OpcodeCopyOut, m.indexOfTensor(s.operand), s.value
		m.outputCopies++
		m.readAccesses += e.count
	case s.hasFlag(flagMemory) && e.isWorthCommand(s):
		c.Opcode, c.Option, c.Data = gen.OpcodeCompare, uint8(gen.PolicyFail), m.extentData(&e)
		if m.compares++; m.compares == 1 {
			m.compareLine = int(s.line)
		}
		m.comparedAccesses += e.count
	default:
		mask := m.significantMask(s)
		if m.isPassEnabled("expect") {
			m.addExpect(s)
		} else {
			mask = 0
			m.verdict.ignored++
		}
		m.setExpect(c, s.value, mask)
		m.expects++
		return m.nextPosition(at)
	}
	return e.end
}

// reportHostFill reports the initial contents of host memory.
func (m *commandBuilder) reportHostFill() (passResult, error) {
	return passResult{summary: m.fillSummary}, nil
}
