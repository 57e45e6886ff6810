package importer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/importer/traces"
)

// TestLineOfSeveralAccessesEqualsSeparateLines imports accesses to memory and to registers, aligned
// and misaligned, as one line and as separate lines.
func TestLineOfSeveralAccessesEqualsSeparateLines(t *testing.T) {
	data := make([]byte, 48)
	for i := range data {
		data[i] = byte(37 * i)
	}
	for _, kind := range []string{"W", "R"} {
		for _, width := range []int{1, 2, 4, 8} {
			for _, c := range []struct{ bar, offset int }{{1, 0x100}, {1, 0x101}, {0, 0}} {
				if c.bar == 0 && width != 4 {
					continue // its registers have 4 bytes
				}
				bytes := data
				if c.bar == 0 {
					bytes = data[:8]
				}
				several := fmt.Sprintf("%sS %d %d %x %d %x", kind, c.bar, width, c.offset,
					len(bytes), bytes)
				var single []string
				at := c.offset
				for one := range slices.Chunk(bytes, width) {
					single = append(single, fmt.Sprintf("%s %d %x %d %x", kind, c.bar, at, width,
						one))
					at += width
				}
				got, _ := mustImport(t, shmRecord(several), Options{From: FromRecord})
				want, _ := mustImport(t, shmRecord(single...), Options{From: FromRecord})
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\ngot  %+v\nwant %+v", several, got, want)
				}
				sums := [2]*traces.Summary{}
				for i, lines := range [][]string{{several}, single} {
					s, err := Summarize(strings.NewReader(shmRecord(lines...)),
						Options{From: FromRecord})
					if err != nil {
						t.Fatal(err)
					}
					sums[i] = s
				}
				if !reflect.DeepEqual(sums[0].Regions, sums[1].Regions) {
					t.Errorf("%s: summary %v, want %v", several, sums[0].Regions, sums[1].Regions)
				}
			}
		}
	}
}

// shmRecord returns a recording of an ivshmem device, with the memory as BAR 1.
func shmRecord(list ...string) string {
	return fmt.Sprintf("LMRECORD 2\nDEVICE 0 1af4 1110 0000:00:02.0\nBAR 0 0 0 0 100\n"+
		"BAR 1 0 2 0 400000\n%s\nEND %d\n", strings.Join(list, "\n"), 3+len(list))
}
