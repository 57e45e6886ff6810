package importer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs/gen"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

// TestImportsOfTheArchive imports the traces of imports.txtar, which describes its entries.
func TestImportsOfTheArchive(t *testing.T) {
	trace := ""
	golden.Table(t, "testdata/imports.txtar", func(name, data string) string {
		if name != "image" {
			trace = data
			return data
		}
		return importTrace(t, trace, data)
	})
}

// importTrace returns what an archive has for the import of a trace. earlier is what it has now.
func importTrace(t *testing.T, trace, earlier string) string {
	t.Helper()
	var accesses, list []string
	o := Options{From: FromMmiotrace}
	for line := range strings.Lines(trace) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "--") {
			setFlags(t, &o, strings.Split(strings.ReplaceAll(line, " --", "\n--"), "\n"))
		} else if !strings.HasPrefix(line, "#") {
			accesses = append(accesses, strings.Split(line, "; ")...)
		}
	}
	device := map[string]string{"wormhole": whDevice, "blackhole": bhDevice, "edu": eduDevice,
		"ivshmem": shmDevice}[accesses[0]]
	for i, access := range accesses {
		accesses[i] = traceLine(t, access)
	}
	image, report, err := Import(strings.NewReader(mmiotrace(device, accesses[1:]...)), o)
	if err != nil {
		return "error: " + err.Error()
	}
	if _, err := lmb.Encode(image); err != nil {
		t.Errorf("the imported image cannot be encoded: %v\n%s", err, trace)
	}
	for _, tensor := range image.Tensors {
		list = append(list, fmt.Sprintf("%s %s: %s, %x", strings.ToLower(tensor.Role.String()),
			tensor.Name, lmb.TypeText(gen.DType(tensor.DType), tensor.Shape), tensor.Data))
	}
	for line := range strings.Lines(earlier) {
		if pass, _, ok := strings.Cut(line, ":"); ok && isPass(pass) {
			list = append(list, strings.TrimSpace(pass+": "+passSummary(report, pass)))
		}
	}
	for _, warning := range report.Warnings {
		list = append(list, "warning: "+warning.String())
	}
	return imageText(image) + strings.Join(list, "\n")
}

// isPass reports whether a report may have a summary with this name.
func isPass(name string) bool {
	return strings.Contains("lift carry fold expect drop coalesce fence mark tensors read", name)
}

// traceLine returns an access of imports.txtar as a line for the function mmiotrace.
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
		case "--carry":
			var c Carry
			c, err = ParseCarry(value)
			o.Carry = append(o.Carry, c)
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
