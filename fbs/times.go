package fbs

// This file defines the times from which the longest time of a sequence is computed.
// FORMAT.md section 6.3 has the same numbers, and their sources.

// Longest times in microseconds.
const (
	commandUs = 1            // of every command, without its accesses
	accessUs  = 1            // of one load or store
	pointUs   = 4 * accessUs // of programming a TLB window: three stores and one load
	queryUs   = 10           // of asking whether a device still responds

	worstCaseMaxUs = 1 << 62 // largest value in View.WorstCaseUs
)

// accessCount returns the number of accesses of a command that accesses m.Amount bytes. The
// shift divides by m.Width, which is 1, 2, 4 or 8.
func accessCount(m *Command) uint64 {
	shift := m.Width/2 - m.Width/8
	return (uint64(m.Amount) + uint64(m.Width) - 1) >> shift
}
