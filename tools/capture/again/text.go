package again

import (
	"fmt"
	"strings"

	"lightmetal/tools/image/english"
)

// String returns one line with the totals, and one for each place that differs.
func (c *Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "again     %s and %s in both recordings; %d of the loads returned the same",
		english.Count(c.Stores, "store"), english.Count(c.Loads, "load"), c.Agreed)
	if c.Unaligned > 0 {
		fmt.Fprintf(&b, "; %s in one only", english.Count(c.Unaligned, "store"))
	}
	b.WriteByte('\n')
	for i := range c.Differences {
		fmt.Fprintf(&b, "again     %s\n", c.Differences[i].text())
	}
	return b.String()
}

func (d *Difference) text() string {
	lines := fmt.Sprintf("%s, lines %d and %d: 0x%x and 0x%x", d.Place, d.LineA, d.LineB, d.A, d.B)
	count := english.Count(d.Count, "time")
	switch d.Kind {
	case Varies:
		return fmt.Sprintf("%s (%s): the value is not compared", lines, count)
	case Waits:
		return fmt.Sprintf("%s, line %d: loaded %d and %s (%s): each load waits", d.Place, d.LineA,
			d.A, english.Count(int(d.B), "time"), count)
	case Input:
		return fmt.Sprintf("%s (%s): data of an input", lines, count)
	}
	return fmt.Sprintf("%s (%s): %s", lines, count, d.Kind)
}
