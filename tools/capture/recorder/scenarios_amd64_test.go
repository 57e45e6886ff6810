package recorder

const (
	followsSource = "testdata/follows.c"
	stringsSource = "testdata/strings.c"
)

// followFlags are flags of gcc with which programs are followed.
var followFlags = [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3", "-march=native"},
	{"-Os", "-fstack-protector-all"}}

func init() {
	// Loops of copies in both directions, calls and the stack, code that changes, and ordinary
	// memory at the end of a mapping are followed as the processor executes them.
	for _, name := range []string{"loops", "recursion", "edge", "code"} {
		scenarios[[2]string{followsSource, name}] = expectations{flags: followFlags,
			compares: true, replays: true, listed: true}
	}
	// 50000 instructions that each load and store a word of the BAR do so once, also those before
	// and after which the recorder stops following the program.
	scenarios[[2]string{followsSource, "steps"}] = expectations{replays: true, count: 2 * 50000}
	// A repeated string instruction is one line of the record, with all its accesses in order. If
	// an element depends on the one before, the program sees the right data.
	for name, want := range map[string]struct{ lines, accesses int }{
		"fill":   {1, 1 << 20},
		"write":  {1, 1 << 20},
		"words":  {1, 5000},
		"read":   {2, 20000},
		"down":   {100, 100}, // one line each, because the addresses decrease
		"within": {41, 41},
		// The load whose store faults is made a second time.
		"closed": {2, 2*pageSize + 1},
	} {
		scenarios[[2]string{stringsSource, name}] = expectations{compares: true, replays: true,
			lines: want.lines, count: want.accesses}
	}
}
