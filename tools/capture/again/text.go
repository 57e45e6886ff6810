package again

import (
	"fmt"
	"strings"

	"lightmetal/tools/image/english"
)

// String returns one line with the totals, and one for each place that differs.
func (c *Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "again     %s and %s in both recordings; %s of the loads returned the same",
		english.Count(c.Stores, "store"), english.Count(c.Loads, "load"), english.Number(c.Agreed))
	if c.Transfers > 0 {
		fmt.Fprintf(&b, "; %s of host memory", english.Count(c.Transfers, "transfer"))
	}
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
	lines := fmt.Sprintf("%s, line %d, and %d of the other: 0x%x and 0x%x", d.Place, d.LineA,
		d.LineB, d.A, d.B)
	count := english.Count(d.Count, "place")
	switch d.Kind {
	case Varies:
		return fmt.Sprintf("%s (%s): the value varies", lines, count)
	case Waits:
		return fmt.Sprintf("%s, line %d, and %d of the other: loaded %s and %d (%s): a wait",
			d.Place, d.LineA, d.LineB, english.Count(int(d.A), "time"), d.B, count)
	case Missing:
		if d.LineB == 0 {
			return fmt.Sprintf("%s, line %d: only this recording stores there (%s)", d.Place,
				d.LineA, count)
		}
		return fmt.Sprintf("%s, line %d of the other: only that one stores there (%s)", d.Place,
			d.LineB, count)
	case Gone:
		return "all loads of one recording returned only ones"
	case Carried:
		return fmt.Sprintf("%s (%s): what %s returned", lines, count, d.Source)
	case Derived:
		return fmt.Sprintf("%s (%s): the value of %s%s", lines, count, d.Source, d.How)
	case Interrupt:
		return fmt.Sprintf("%s (%s): interrupt addresses", lines, count)
	case Address:
		return fmt.Sprintf("%s (%s): a bus address of each recording", lines, count)
	case Returned:
		return fmt.Sprintf("%s (%s): a number that the program chose, and the device returned",
			lines, count)
	case Input:
		return fmt.Sprintf("%s (%s): data of an input, or of --as-data", lines, count)
	}
	return fmt.Sprintf("%s (%s): no reason is known", lines, count)
}
