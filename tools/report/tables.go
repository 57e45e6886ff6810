package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// rowsMax bounds the rows of a table on a terminal or a page.
const rowsMax = 100

// Write prints the report for a terminal.
func (r *Report) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps its first error
	fmt.Fprintf(out, "%s: %s, for %s\n", plain(r.Image), bytesText(r.Bytes), r.targetText())
	if r.Origin != "" {
		fmt.Fprintf(out, "from %s\n", plain(r.Origin))
	}
	fmt.Fprintf(out, "counted: %s; a poll as one load\n", plain(r.Counted))
	for _, table := range filled(r.tables()) {
		table.write(out)
	}
	return out.Flush()
}

func (r *Report) targetText() string {
	var names []string
	for i := range r.Targets {
		names = append(names, r.Targets[i].text())
	}
	return strings.Join(names, " and ")
}

func (t *Target) text() string {
	name := t.Title
	if name == "" {
		name = plain(t.Board)
	}
	return name + " (PCI " + t.ID + ")"
}

// targetPrefix names the target where there is more than one.
func (r *Report) targetPrefix(target int) string {
	if len(r.Targets) == 1 {
		return ""
	}
	return fmt.Sprintf("%s %d: ", plain(r.Targets[target].Board), target)
}

func (r *Report) tables() []Table {
	return []Table{r.sequenceTable(), r.opcodeTable(), r.windowTable(), r.rangeTable(),
		r.tileTable(), r.tensorTable(), r.segmentTable()}
}

func (r *Report) sequenceTable() Table {
	t := Table{Title: "Sequences", Note: "one run, with what it calls",
		Columns: []string{"sequence", ">commands", ">carried out", ">loads", ">stores", ">bytes in",
			">bytes out", ">compared", ">waits at most"}}
	return rows(t, r.Sequences, func(_ int, s *Sequence) []string {
		return []string{plain(s.Name), countText(s.Commands), countText(s.Executed),
			countText(s.Loads), countText(s.Stores), bytesText(s.Written),
			bytesText(s.Read), none(s.Compared, bytesText), waitText(s.WaitUs)}
	})
}

func (r *Report) opcodeTable() Table {
	t := Table{Title: "Opcodes",
		Columns: []string{"opcode", ">count", ">bytes in", ">bytes out", ">compared", ">1 byte",
			">2 bytes", ">4 bytes", ">8 bytes", ">bulk"}}
	return rows(t, r.Opcodes, func(_ int, o *Opcode) []string {
		row := []string{o.Name, countText(o.Count), none(o.Written, bytesText),
			none(o.Read, bytesText), none(o.Compared, bytesText)}
		for _, n := range o.Accesses {
			row = append(row, none(n, countText))
		}
		return append(row, none(o.Bulk, bytesText))
	})
}

func (r *Report) windowTable() Table {
	t := Table{Title: "Windows", Columns: []string{"window", "kind", "place", ">size", ">pointed",
		">commands", ">bytes in", ">bytes out", ">compared"}}
	return rows(t, r.Windows, func(_ int, w *Window) []string {
		return []string{w.label(), w.Kind, r.targetPrefix(w.Target) + w.Place, bytesText(w.Size),
			none(w.Points, countText), countText(w.Commands),
			none(w.Written, bytesText), none(w.Read, bytesText), none(w.Compared, bytesText)}
	})
}

// label is the window's name, or its number.
func (w *Window) label() string {
	if w.Name != "" {
		return plain(w.Name)
	}
	return fmt.Sprintf("w%d", w.Index)
}

func (r *Report) rangeTable() Table {
	t := Table{Title: "Device memory", Columns: []string{"space", "first", "last", ">size", "there",
		">bytes in", ">bytes out", ">compared"}}
	total := 0
	for i := range r.Spaces {
		s := &r.Spaces[i]
		total += len(s.Ranges)
		for j := range s.Ranges[:min(len(s.Ranges), rowsMax-min(rowsMax, len(t.Rows)))] {
			x := &s.Ranges[j]
			t.add(r.targetPrefix(s.Target)+s.Name, fmt.Sprintf("0x%x", x.First),
				fmt.Sprintf("0x%x", x.Last), bytesText(x.Bytes()), x.Area,
				none(x.Written, bytesText), none(x.Read, bytesText), none(x.Compared, bytesText))
		}
	}
	t.cut(total)
	return t
}

func (r *Report) tileTable() Table {
	t := Table{Title: "Tiles", Note: "a multicast counts on every tile",
		Columns: []string{"tile", "kind", ">bytes in", ">bytes out", ">compared"}}
	return rows(t, r.Tiles, func(_ int, x *Tile) []string {
		return []string{fmt.Sprintf("%s%d,%d", r.targetPrefix(x.Target), x.X, x.Y), x.Kind,
			none(x.Written, bytesText), none(x.Read, bytesText),
			none(x.Compared, bytesText)}
	})
}

func (r *Report) tensorTable() Table {
	t := Table{Title: "Tensors", Columns: []string{"tensor", "role", "type", "shape", ">size",
		">moved", "data"}}
	return rows(t, r.Tensors, func(_ int, x *Used) []string {
		data := "to be given"
		switch {
		case x.Recorded && x.Role == "output":
			data = "golden"
		case x.Recorded:
			data = "recorded"
		case x.Role == "output":
			data = ""
		}
		return []string{plain(x.Name), x.Role, x.DType, shapeText(x.Shape), bytesText(x.Bytes),
			bytesText(x.Moved), data}
	})
}

func shapeText(shape []uint32) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", " x ")
}

func (r *Report) segmentTable() Table {
	t := Table{Title: "Payload", Columns: []string{"segment", ">offset", ">size", ">CRC-32C"}}
	return rows(t, r.Segments, func(i int, s *Segment) []string {
		return []string{fmt.Sprint(i), fmt.Sprintf("0x%x", s.Offset), bytesText(s.Bytes), s.CRC32C}
	})
}

// rows fills a table with what a list has, as far as tables go, by index.
func rows[T any](t Table, list []T, cells func(int, *T) []string) Table {
	for i := range limit(len(list)) {
		t.add(cells(i, &list[i])...)
	}
	t.cut(len(list))
	return t
}

func limit(n int) int { return min(n, rowsMax) }

// cut says that rows were left out.
func (t *Table) cut(total int) {
	if total <= len(t.Rows) {
		return
	}
	note := fmt.Sprintf("the first %d of %s; --json has them all", len(t.Rows),
		countText(uint64(total)))
	t.Note = strings.TrimPrefix(t.Note+"; "+note, "; ")
}
