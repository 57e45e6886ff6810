package mock

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

func TestLimitedJournalDoesNotGrowWhileItRecords(t *testing.T) {
	const most = 2000
	d := New(&boards.Ivshmem)
	a := mapBAR(t, d, 2)
	d.RecordAtMost(most)
	allocations := testing.AllocsPerRun(1, func() { // AllocsPerRun calls the function twice
		for range most / 2 {
			store(t, d, &a, 0, 4, 1)
		}
	})
	if allocations != 0 {
		t.Errorf("%d recorded stores allocate memory %v times", most/2, allocations)
	}
	if StoreAt(&a, 0, 4, 1) == hal.OK {
		t.Error("a store was accepted although the journal is full")
	}
	if !strings.Contains(d.Refusal(), "the journal may have at most 2000 accesses") {
		t.Errorf("reason for the rejected store: %q, want the limit of the journal", d.Refusal())
	}
}
