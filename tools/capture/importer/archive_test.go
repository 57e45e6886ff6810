package importer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// TestImportsOfTheArchive imports the traces of testdata/imports.txt, which describes its syntax.
// With the flag -update, it writes the results to the file.
func TestImportsOfTheArchive(t *testing.T) {
	const path = "testdata/imports.txt"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for paragraph := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n\n") {
		got := importParagraph(t, paragraph)
		if got != paragraph && !*update {
			t.Errorf("%s: got\n%s\nwant\n%s\n(-update writes the file)", path, got, paragraph)
		}
		written = append(written, got)
	}
	if *update {
		text := strings.Join(written, "\n\n") + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// importParagraph imports the trace of an entry, and returns the entry with the results.
func importParagraph(t *testing.T, paragraph string) string {
	t.Helper()
	var head, flags, trace, passes []string
	for line := range strings.SplitSeq(paragraph, "\n") {
		accesses, isTrace := strings.CutPrefix(line, "$ ")
		pass, _, isSummary := strings.Cut(line, ":")
		switch {
		case isTrace:
			trace = append(trace, strings.Split(accesses, "; ")...)
		case strings.HasPrefix(line, "--"):
			for flag := range strings.SplitSeq(line, " --") {
				flags = append(flags, "--"+strings.TrimPrefix(flag, "--"))
			}
		case isSummary && isPass(pass):
			passes = append(passes, pass)
		}
		if isTrace || strings.HasPrefix(line, "--") || strings.HasPrefix(line, "#") {
			head = append(head, line)
		}
	}
	if trace == nil {
		return paragraph // a comment
	}
	o := Options{From: FromMmiotrace}
	setFlags(t, &o, flags)
	device := map[string]string{"wormhole": whDevice, "blackhole": bhDevice, "edu": eduDevice,
		"ivshmem": shmDevice}[trace[0]]
	for i, access := range trace {
		trace[i] = traceLine(t, access)
	}
	image, report, err := Import(strings.NewReader(mmiotrace(device, trace[1:]...)), o)
	if err != nil {
		return strings.Join(append(head, "error: "+err.Error()), "\n")
	}
	if _, err := lmb.Encode(image); err != nil {
		t.Errorf("the imported image cannot be encoded: %v\n%s", err, paragraph)
	}
	head = append(head, strings.TrimSuffix(imageText(image), "\n"))
	for _, tensor := range image.Tensors {
		head = append(head, fmt.Sprintf("%s %s: %s, %x", strings.ToLower(tensor.Role.String()),
			tensor.Name, lmb.TypeText(gen.DType(tensor.DType), tensor.Shape), tensor.Data))
	}
	for _, pass := range passes {
		head = append(head, strings.TrimSpace(pass+": "+passSummary(report, pass)))
	}
	for _, warning := range report.Warnings {
		head = append(head, "warning: "+warning.String())
	}
	return strings.Join(head, "\n")
}

// isPass reports whether a report may have a summary with this name.
func isPass(name string) bool {
	return strings.Contains("lift fold expect drop coalesce fence mark tensors read", name)
}

// traceLine returns an access of imports.txt as a line for the function mmiotrace.
func traceLine(t *testing.T, access string) string {
	t.Helper()
	words := strings.Fields(access)
	if words[0] == "point" {
		x, y, _ := strings.Cut(words[2], ",")
		var list [3]uint64
		for i, word := range []string{x, y, words[3]} {
			n, err := strconv.ParseUint(word, 0, 64)
			if err != nil {
				t.Fatalf("%s: %v", access, err)
			}
			list[i] = n
		}
		register := map[string]uint64{"166": wh166Config, "167": wh167Config}[words[1]]
		return whPoint(register, list[0], list[1], list[2])
	}
	for prefix, window := range map[string]uint64{"166:": wh166, "167:": wh167} {
		if before, offset, ok := strings.Cut(access, prefix); ok {
			offset, value, _ := strings.Cut(offset, " ")
			n, err := strconv.ParseUint(offset, 0, 64)
			if err != nil {
				t.Fatalf("%s: %v", access, err)
			}
			return fmt.Sprintf("%s0x%x %s", before, window+n, value)
		}
	}
	return access
}

// setFlags sets options from flags of lm import.
func setFlags(t *testing.T, o *Options, flags []string) {
	t.Helper()
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, " ")
		var err error
		switch name {
		case "--frame":
			o.Frame, err = ParsePart(value)
		case "--stop":
			o.Stop, err = ParsePart(value)
		case "--input":
			o.Inputs = append(o.Inputs, mustTensor(t, value))
		case "--output":
			o.Outputs = append(o.Outputs, mustTensor(t, value))
		case "--poll":
			o.Poll = append(o.Poll, mustRange(t, value))
		case "--ignore":
			o.Ignore = append(o.Ignore, mustRange(t, value))
		case "--wait":
			o.Wait, err = ParseRanges(value)
		case "--keep-pauses":
			o.KeepPauses, err = time.ParseDuration(value)
		case "--omit":
			o.Omit, err = ParseRanges(value)
		case "--as-data":
			o.AsData, err = ParseRanges(value)
		case "--without":
			o.Without = append(o.Without, value)
		case "--omit-management":
			o.OmitManagement = true
		case "--bar":
			_, err = fmt.Sscan(value, &o.Bar)
		default:
			t.Fatalf("unknown flag %s", flag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
