package scenario

import (
	"fmt"
	"strings"
	"testing"
)

func TestParsedStepsHaveFileAndLine(t *testing.T) {
	list, err := Parse("a.txt", `# of devices
scenario First on plain iommu
  lmrun 76 "golden mismatch: \"x\"" -device $edu \
    /i.lmb   # a comment
  repeat 2
    same /a /b
    kill 5ms
  end
scenario Second on plain
  say hello
`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{First [plain iommu] [` +
		`{a.txt:3 [lmrun 76 golden mismatch: "x" -device $edu /i.lmb]} ` +
		`{a.txt:6 [same /a /b]} {a.txt:7 [kill 5ms]} ` +
		`{a.txt:6 [same /a /b]} {a.txt:7 [kill 5ms]}]} ` +
		`{Second [plain] [{a.txt:10 [say hello]}]}]`
	if got := fmt.Sprint(list); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestInvalidScenariosAreRejectedWithTheLine(t *testing.T) {
	const head = "scenario A on plain\n"
	for text, want := range map[string]string{
		"say x":                     "a.txt:1: a step must follow",
		"scenario A":                "a.txt:1: want `scenario NAME on MACHINE...`",
		head + "say \"x":            "a.txt:2: a quote is not closed",
		head + "repeat x":           "a.txt:2: repeat: invalid number",
		head + "repeat 2":           "a.txt: a `repeat` without `end`",
		head + "repeat 2\nrepeat 2": "a.txt:3: want `repeat TIMES`",
		head + "say \\\n x\nend":    "a.txt:4: `end` without `repeat`",
		head + "repeat 2\n" + head:  "a.txt:3: want `scenario NAME on MACHINE...`",
	} {
		if _, err := Parse("a.txt", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want %s", text, err, want)
		}
	}
}
