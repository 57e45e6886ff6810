package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"lightmetal/tools/image/lmb"
)

// rowsMax is the largest number of rows of a table on a terminal or a page.
const rowsMax = 100

// Write prints the report for a terminal.
func (r *Report) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // Flush returns the first error
	fmt.Fprintf(out, "%s: %s, for %s\n", sanitize(r.Image), lmb.SizeText(r.Bytes), r.devicesText())
	fmt.Fprintf(out, "checksum %s, SHA-256 without signature %s\n", r.Checksum, r.SHA256)
	if r.Origin != "" {
		fmt.Fprintf(out, "from %s\n", sanitize(r.Origin))
	}
	fmt.Fprintf(out, "counted: %s; a poll counts as one load\n", sanitize(r.Counted))
	for _, table := range omitEmpty(r.tables(nil)) {
		table.write(out)
	}
	return out.Flush()
}

func (r *Report) devicesText() string {
	var names []string
	for i := range r.Devices {
		names = append(names, r.Devices[i].text())
	}
	return strings.Join(names, " and ")
}

func (t *Device) text() string {
	name := t.Title
	if name == "" {
		name = sanitize(t.Board)
	}
	return name + " (PCI " + t.ID + ")"
}

// devicePrefix returns a prefix with the name of a device, or an empty string if the image has only
// one device.
func (r *Report) devicePrefix(device int) string {
	if len(r.Devices) == 1 {
		return ""
	}
	return fmt.Sprintf("%s %d: ", sanitize(r.Devices[device].Board), device)
}

// tables returns the tables of a report; a profile adds what it compared with golden data.
func (r *Report) tables(profile *Profile) []Table {
	return []Table{r.sequenceTable(), r.tensorTable(profile), r.opcodeTable(), r.windowTable(),
		r.ringTable(), r.rangeTable(), r.tileTable(), r.segmentTable()}
}

func (r *Report) sequenceTable() Table {
	t := Table{Title: "Sequences", Note: "one run, including called sequences; " +
		"bytes written: host to device, bytes read: device to host",
		Columns: []string{"sequence", ">commands", ">executed", ">loads", ">stores",
			">bytes written", ">bytes read", ">compared", ">waits at most"}}
	return fillTable(t, r.Sequences, func(_ int, s *Sequence) []string {
		return []string{sanitize(s.Name), countText(s.Commands), countText(s.Executed),
			countText(s.Loads), countText(s.Stores), lmb.SizeText(s.Written),
			lmb.SizeText(s.Read), emptyIfZero(s.Compared, lmb.SizeText), lmb.WaitText(s.WaitUs)}
	})
}

func (r *Report) opcodeTable() Table {
	t := Table{Title: "Opcodes",
		Columns: []string{"opcode", ">count", ">bytes written", ">bytes read", ">compared",
			">1 byte", ">2 bytes", ">4 bytes", ">8 bytes", ">bulk"}}
	return fillTable(t, r.Opcodes, func(_ int, o *Opcode) []string {
		row := []string{o.Name, countText(o.Count), emptyIfZero(o.Written, lmb.SizeText),
			emptyIfZero(o.Read, lmb.SizeText), emptyIfZero(o.Compared, lmb.SizeText)}
		for _, n := range o.Accesses {
			row = append(row, emptyIfZero(n, countText))
		}
		return append(row, emptyIfZero(o.BulkBytes, lmb.SizeText))
	})
}

func (r *Report) windowTable() Table {
	t := Table{Title: "Windows", Columns: []string{"window", "kind", "place", ">size", ">pointed",
		">commands", ">bytes written", ">bytes read", ">compared"}}
	return fillTable(t, r.Windows, func(_ int, w *Window) []string {
		return []string{w.label(), w.Kind, r.devicePrefix(w.Device) + w.Place, lmb.SizeText(w.Size),
			emptyIfZero(w.Points, countText), countText(w.Commands),
			emptyIfZero(w.Written, lmb.SizeText), emptyIfZero(w.Read,
				lmb.SizeText), emptyIfZero(w.Compared, lmb.SizeText)}
	})
}

func (r *Report) ringTable() Table {
	t := Table{Title: "Rings", Note: "positions that rise from run to run",
		Columns: []string{"ring", ">begin", ">end", ">first"}}
	return fillTable(t, r.Rings, func(_ int, ring *Ring) []string {
		return []string{sanitize(ring.Name), fmt.Sprintf("0x%x", ring.Begin),
			fmt.Sprintf("0x%x", ring.End), fmt.Sprintf("0x%x", ring.First)}
	})
}

// label returns the name of the window or, without one, its index, such as w0.
func (w *Window) label() string {
	if w.Name != "" {
		return sanitize(w.Name)
	}
	return fmt.Sprintf("w%d", w.Index)
}

func (r *Report) rangeTable() Table {
	t := Table{Title: "Device memory", Columns: []string{"space", "first", "last", ">size", "area",
		">bytes written", ">bytes read", ">compared"}}
	total := 0
	for i := range r.Spaces {
		s := &r.Spaces[i]
		total += len(s.Ranges)
		for j := range s.Ranges[:min(len(s.Ranges), rowsMax-min(rowsMax, len(t.Rows)))] {
			x := &s.Ranges[j]
			t.addRow(r.devicePrefix(s.Device)+s.Name, fmt.Sprintf("0x%x", x.First),
				fmt.Sprintf("0x%x", x.Last), lmb.SizeText(x.Bytes()), x.Area,
				emptyIfZero(x.Written, lmb.SizeText), emptyIfZero(x.Read,
					lmb.SizeText), emptyIfZero(x.Compared, lmb.SizeText))
		}
	}
	t.noteOmittedRows(total)
	return t
}

func (r *Report) tileTable() Table {
	t := Table{Title: "Tiles", Note: "a multicast counts for every tile",
		Columns: []string{"tile", "kind", ">bytes written", ">bytes read", ">compared"}}
	return fillTable(t, r.Tiles, func(_ int, x *Tile) []string {
		return []string{fmt.Sprintf("%s%d,%d", r.devicePrefix(x.Device), x.X, x.Y), x.Kind,
			emptyIfZero(x.Written, lmb.SizeText), emptyIfZero(x.Read, lmb.SizeText),
			emptyIfZero(x.Compared, lmb.SizeText)}
	})
}

func (r *Report) tensorTable(profile *Profile) Table {
	t := Table{Title: "Tensors", Columns: []string{"tensor", "role", "type", "shape", ">size",
		">moved", "data", "compared with golden data"}}
	return fillTable(t, r.Tensors, func(_ int, x *TensorUse) []string {
		data := "none, needs --input"
		switch {
		case x.HasData && x.Role == "output":
			data = "golden"
		case x.HasData:
			data = "default"
		case x.Role != "input":
			data = ""
		}
		return []string{sanitize(x.Name), x.Role, x.DType, lmb.ShapeText(x.Shape),
			lmb.SizeText(x.Bytes), lmb.SizeText(x.Moved), data, profile.goldenText(x)}
	})
}

func (r *Report) segmentTable() Table {
	t := Table{Title: "Payload", Columns: []string{"segment", ">offset", ">size", ">CRC-32C"}}
	return fillTable(t, r.Segments, func(i int, s *Segment) []string {
		return []string{fmt.Sprint(i), fmt.Sprintf("0x%x", s.Offset), lmb.SizeText(s.Bytes),
			s.CRC32C}
	})
}

// fillTable adds a row for each element of a list, up to rowsMax.
func fillTable[T any](t Table, list []T, cells func(int, *T) []string) Table {
	for i := range limitRows(len(list)) {
		t.addRow(cells(i, &list[i])...)
	}
	t.noteOmittedRows(len(list))
	return t
}

func limitRows(n int) int { return min(n, rowsMax) }

// noteOmittedRows adds to the note of a table that rows were left out.
func (t *Table) noteOmittedRows(total int) {
	if total <= len(t.Rows) {
		return
	}
	note := fmt.Sprintf("the first %d of %s rows; --json prints all rows", len(t.Rows),
		countText(uint64(total)))
	t.Note = strings.TrimPrefix(t.Note+"; "+note, "; ")
}

// omitEmpty returns the tables that have rows, without their empty columns.
func omitEmpty(tables []Table) (list []Table) {
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		widths := t.widths()
		full := Table{Title: t.Title, Note: t.Note, Columns: cellsWithText(t.Columns, widths),
			commandColumn: t.commandColumn, commands: t.commands}
		for _, row := range t.Rows {
			full.addRow(cellsWithText(row, widths)...)
		}
		list = append(list, full)
	}
	return list
}

func cellsWithText(cells []string, widths []int) (kept []string) {
	for i, cell := range cells {
		if widths[i] > 0 {
			kept = append(kept, cell)
		}
	}
	return kept
}
