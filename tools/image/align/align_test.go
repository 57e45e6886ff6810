package align

import (
	"slices"
	"testing"
)

func TestCommonElementsArePaired(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want []Pair
	}{
		{"", "", nil},
		{"abc", "abc", []Pair{{0, 0}, {1, 1}, {2, 2}}},
		{"abc", "axc", []Pair{{0, 0}, {2, 2}}},
		{"abc", "ac", []Pair{{0, 0}, {2, 1}}},
		{"ac", "abbc", []Pair{{0, 0}, {1, 3}}},
		{"abc", "", nil},
		{"ab", "cd", nil},
	} {
		if got := Common([]byte(c.a), []byte(c.b)); !slices.Equal(got, c.want) {
			t.Errorf("Common(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestElementsBeyondTheSurrogatesArePaired(t *testing.T) {
	var a []int
	for i := range 0xe100 {
		a = append(a, i)
	}
	b := slices.Delete(slices.Clone(a), 0xd900, 0xd901)
	got := Common(a, b)
	if len(got) != len(b) || got[0xd900] != (Pair{0xd901, 0xd900}) {
		t.Errorf("%d pairs, at the gap %v; want %d and {0xd901 0xd900}", len(got), got[0xd900],
			len(b))
	}
}
