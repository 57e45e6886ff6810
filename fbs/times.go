package fbs

// This file has the parts of the longest time of a command. FORMAT.md section 6.3
// has the same numbers, and their sources.

// Times in microseconds.
const (
	commandUs = 1            // every command
	accessUs  = 1            // every load and store
	pointUs   = 4 * accessUs // three registers, one of them read back
	queryUs   = 10           // a query of a device's state, when a load may have failed

	worstCaseMaxUs = 1 << 62 // limit of View.WorstCaseUs
)

// accesses returns amount / width, rounded up. The shift divides by 1, 2, 4 or 8.
func accessCount(m *Command) uint64 {
	shift := m.Width/2 - m.Width/8
	return (uint64(m.Amount) + uint64(m.Width) - 1) >> shift
}
