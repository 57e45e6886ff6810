package english

import (
	"strconv"
	"testing"
)

func TestCountUsesThePluralUnlessThereIsOne(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "command", "0 commands"},
		{1, "command", "1 command"},
		{2, "command", "2 commands"},
		{1, "access", "1 access"},
		{2, "access", "2 accesses"},
		{3, "entry", "3 entries"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := Count(c.n, c.noun); got != c.want {
				t.Errorf("Count(%d, %q) is %q, want %q", c.n, c.noun, got, c.want)
			}
		})
	}
}

func TestJoinPutsTheSeparatorBetweenItems(t *testing.T) {
	if got := Join([]int{1, 2, 3}, " or ", strconv.Itoa); got != "1 or 2 or 3" {
		t.Errorf("Join returns %q, want \"1 or 2 or 3\"", got)
	}
	if got := Join(nil, ", ", strconv.Itoa); got != "" {
		t.Errorf("Join of an empty list returns %q, want \"\"", got)
	}
}
