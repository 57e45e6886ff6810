package fbs

// This file defines how long each operation may take. verifyCommands adds up these times to
// compute the longest time of a sequence. FORMAT.md section 6.3 has the same times, and the
// sources of the times.

// Longest time of each operation, in microseconds.
const (
	commandOverheadUs     = 1                    // one command, in addition to its accesses
	accessDurationUs      = 1                    // one load or store
	pointDurationUs       = 4 * accessDurationUs // to program a TLB window: three stores, one load
	deviceQueryDurationUs = DeviceQueryUs

	worstCaseLimitUs = 1 << 62 // largest value in View.WorstCaseUs
)

// DeviceQueryUs is the longest time, in microseconds, of one check whether a device still responds.
const DeviceQueryUs = 10

// accessCount returns how many accesses of m.Width bytes cover m.Amount bytes, rounded up. `shift`
// is the binary logarithm of m.Width: 0, 1, 2 or 3 for the width 1, 2, 4 or 8. For any other width,
// the result is meaningless, and checkAccess rejects the command.
func accessCount(m *Command) uint64 {
	shift := m.Width/2 - m.Width/8
	return (uint64(m.Amount) + uint64(m.Width) - 1) >> shift
}
