package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// TestListingOfASmallImageIsComplete: it has every command with its number, in order.
func TestListingOfASmallImageIsComplete(t *testing.T) {
	for name, file := range allImages(t) {
		view := verify(t, file)
		if len(view.Commands) > listingMax {
			continue
		}
		list := Analyze(view, WholeFile, nil).listing(nil)
		if list.Note != "" || len(list.Sequences) != len(view.Sequences) {
			t.Errorf("%s: the listing has %d of %d sequences and the note %q, want all and no note",
				name, len(list.Sequences), len(view.Sequences), list.Note)
		}
		for i, s := range list.Sequences {
			number := 0
			for _, line := range s.Lines {
				if line.Mark != "" {
					continue
				}
				index := int(view.Sequences[i].First) + number
				if line.Number != fmt.Sprint(number) || int(line.Index) != index ||
					line.Text != shortenName(CommandText(view, index), listingColumns) {
					t.Errorf("%s: line %d of sequence %s is %+v, want command %d", name, number,
						s.Name, line, index)
				}
				number++
			}
			if number != int(view.Sequences[i].Count)-1 {
				t.Errorf("%s: sequence %s has %d commands, want %d", name, s.Name, number,
					view.Sequences[i].Count-1)
			}
		}
	}
}

// TestListingOfALargeImageShowsWhatTheTablesName, the failed command and the commands around it,
// and how many commands it omits.
func TestListingOfALargeImageShowsWhatTheTablesName(t *testing.T) {
	const commands = 30_000
	view := verify(t, largeImage(t, commands))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	const failed = 23_456
	p.Failed = &Failure{Command: failed}
	list := Analyze(view, WholeFile, nil).listing(p)
	for _, index := range p.namedCommands() {
		if !list.shown[index] && view.Commands[index].Opcode != gen.OpcodeEnd {
			t.Errorf("command %d, which a table names, is not shown", index)
		}
	}
	for index := uint32(failed - failureContext); index <= failed+failureContext; index++ {
		if !list.shown[index] {
			t.Errorf("command %d, next to the failed one, is not shown", index)
		}
	}
	shown, omitted := 0, 0
	for _, s := range list.Sequences {
		for _, line := range s.Lines {
			var n int
			switch {
			case line.Gap != "":
				if _, err := fmt.Sscan(strings.ReplaceAll(line.Gap, ",", ""), &n); err != nil {
					t.Fatal(err)
				}
				omitted += n
			case line.Mark == "":
				shown++
			}
		}
	}
	all := len(view.Commands) - len(view.Sequences) // without the End commands
	if shown != listingMax || shown+omitted != all {
		t.Errorf("%d commands are shown, want %d; %d are omitted, of %d in all", shown, listingMax,
			omitted, all)
	}
	want := fmt.Sprintf("The listing shows 500 of %s commands", countText(uint64(all)))
	if !strings.HasPrefix(list.Note, want) {
		t.Errorf("the note is %q, want %q", list.Note, want)
	}
}

// TestLinksOfThePageHaveTargets, also on the page of a large image.
func TestLinksOfThePageHaveTargets(t *testing.T) {
	files := map[string][]byte{"failed": assemble(t, failingListing),
		"large": largeImage(t, 30_000), "twoop": readImage(t, "wh.twoop.lmb")}
	link := regexp.MustCompile(`(?:href|data-line)="#([a-z0-9]+)"`)
	for name, file := range files {
		page := string(examplePage(t, name, file))
		links := link.FindAllStringSubmatch(page, -1)
		if len(links) < 15 {
			t.Errorf("%s: the page has %d links, want at least 15", name, len(links))
		}
		for _, m := range links {
			if strings.Count(page, fmt.Sprintf(` id="%s"`, m[1])) != 1 {
				t.Errorf("%s: the page must have the link target %s exactly once", name, m[1])
			}
		}
	}
}

// TestPageWithLongNamesIsLimited has names of 255 bytes, which are longer in HTML, wherever an
// image has names.
func TestPageWithLongNamesIsLimited(t *testing.T) {
	longName := func(n int) string { return fmt.Sprintf("%03d", n) + strings.Repeat(`"`, 252) }
	image, err := lmb.Decode(largeImage(t, 20_000))
	if err != nil {
		t.Fatal(err)
	}
	image.Windows[0].Name = longName(0)
	for i := range image.Sequences {
		image.Sequences[i].Name = longName(i)
		for j := range image.Sequences[i].Commands {
			if c := &image.Sequences[i].Commands[j]; c.Opcode == lmb.OpcodeMark {
				c.Data = []byte(longName(j / 1000))
			}
		}
	}
	for i := range 300 {
		image.Tensors = append(image.Tensors, lmb.Tensor{Name: longName(i), Role: gen.RoleInput,
			DType: gen.DTypeInt8, Shape: []uint32{1}})
		image.Sequences = append(image.Sequences, lmb.Sequence{Name: longName(i + 500),
			Commands: []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodeFence}}}})
	}
	view := verify(t, encode(t, image))
	p, _ := profileRuns(t, view, recordingMock(view), longName(0), 1)
	var out bytes.Buffer
	r := Analyze(view, WholeFile, nil)
	r.Image = longName(1)
	if err := r.WritePage(&out, p, testGenerator); err != nil {
		t.Fatal(err)
	}
	checkPage(t, out.Bytes())
	if out.Len() > pageBytesMax {
		t.Errorf("the page has %d bytes, want at most %d", out.Len(), pageBytesMax)
	}
}
