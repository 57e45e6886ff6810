package scenario

import (
	"fmt"
	"strings"
	"testing"
)

func TestParsedStepsHaveFileAndLine(t *testing.T) {
	f, err := Parse("a.txt", `# of devices
machine plain
  qemu -device "a b"
image tiny of edu 5 6
  main:
    repeat 2
    fence
    end
scenario First on plain iommu
  lmrun 76 "golden mismatch: \"x\"" -device $edu \
    /i.lmb   # a comment
  repeat 2
    each n|m 1|x "2|y"
      same /a{n} /{m}
    end
    kill 5ms
  end
scenario Second on plain
  host say hello
machine other like plain
  trace
`)
	if err != nil {
		t.Fatal(err)
	}
	const same = `{a.txt:14 [same /a1 /x]} {a.txt:14 [same /a2 /y]} {a.txt:16 [kill 5ms]}`
	const want = `{[{First [plain iommu] [` +
		`{a.txt:10 [lmrun 76 golden mismatch: "x" -device $edu /i.lmb]} ` + same + ` ` + same +
		`]} {Second [plain] [{a.txt:19 [host say hello]}]}] ` +
		`[{plain [] [{a.txt:3 [qemu -device a b]}]} ` +
		`{other [] [{a.txt:3 [qemu -device a b]} {a.txt:21 [trace]}]}] ` +
		"[{a.txt:4 tiny [of edu 5 6] main:\n  fence\n  fence\n false}]} [{a.txt:19 [say hello]}]"
	if got := fmt.Sprint(f, " ", f.Scenarios[1].HostSteps()); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestInvalidScenariosAreRejectedWithTheLine(t *testing.T) {
	const head = "scenario A on plain\n"
	for text, want := range map[string]string{
		"say x":                         "a.txt:1: a step must follow",
		"image x\nsay x":                "a.txt:2: a step must follow",
		"scenario A":                    "a.txt:1: want `scenario NAME on MACHINE...`",
		head + "say \"x":                "a.txt:2: a quote is not closed",
		head + " repeat x\nend":         "a.txt:2: repeat: invalid number",
		head + " repeat 2":              "a.txt:2: a `repeat` without `end`",
		head + " repeat 2\n each n 2\n": "a.txt:2: a `repeat` without `end`",
		head + "say \\\n x\nend":        "a.txt:4: `end` without `repeat`",
	} {
		if _, err := Parse("a.txt", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want %s", text, err, want)
		}
	}
}
