package runtime

import "testing"

// TestMappingsThatCannotBeReadAreNotLocked passes for every user and every RLIMIT_MEMLOCK, because
// it does not lock memory.
func TestMappingsThatCannotBeReadAreNotLocked(t *testing.T) {
	for _, line := range []string{
		"c000400000-c004000000 ---p 00000000 00:00 0 ",                            // reserved by Go
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]",   // amd64
		"ffffffffff600000-ffffffffff601000 r-xp 00000000 00:00 0    [vsyscall]\n", // older kernels
	} {
		if err := lockMapping(line); err != nil {
			t.Errorf("lockMapping(%q): %v, want nothing to be locked", line, err)
		}
	}
}
