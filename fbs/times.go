package fbs

// This file defines how long each operation may take. verifyCommands adds up these times to
// compute the longest time of a sequence. FORMAT.md section 6.3 has the same times, and the
// sources of the times.

// Longest time of each operation, in microseconds.
const (
	commandOverheadUs = 1            // the overhead of one command, without its accesses
	accessUs          = 1            // one load or store
	pointUs           = 4 * accessUs // programming of a TLB window: three stores and one load
	deviceQueryUs     = 10           // a check whether a device still responds

	worstCaseMaxUs = 1 << 62 // largest value in View.WorstCaseUs
)

// accessCount returns how many accesses of the width m.Width are needed for m.Amount bytes,
// rounded up. `shift` is the binary logarithm of m.Width: 0, 1, 2 or 3 for the width 1, 2, 4 or 8.
// The result for any other width has no meaning, but checkAccess rejects a command with such a
// width.
func accessCount(m *Command) uint64 {
	shift := m.Width/2 - m.Width/8
	return (uint64(m.Amount) + uint64(m.Width) - 1) >> shift
}
