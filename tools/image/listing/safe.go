package listing

import (
	"strings"

	"lightmetal/fbs"
)

// MissingSafe returns a warning if an image has no sequence "safe", otherwise "". The warning names
// a sequence with a similar name.
func MissingSafe(view *fbs.View) string {
	if view.SequenceByName("safe") >= 0 {
		return ""
	}
	text := "the image has no sequence safe, so nothing stops the device after a failed run"
	for i := range view.Sequences {
		name := view.Name(view.Sequences[i].Name)
		lower := strings.ToLower(name)
		if strings.Contains(lower, "safe") || editDistance(lower, "safe") == 1 {
			return text + "; is " + fbs.Quote(name) + " meant?"
		}
	}
	return text
}
