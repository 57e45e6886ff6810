package passthrough

import (
	"encoding/hex"
	"strings"
	"testing"
)

// TestPortTable compares the table with the one that Linux accepted in a guest: a scope with _DSD,
// two packages, and a sum of 0.
func TestPortTable(t *testing.T) {
	want := strings.Join([]string{
		"535344547600000002324c4d52454320", "455854504f525420010000004c4d2020",
		"010000001041055c2f035f53425f5043", "49305330385f085f445344123a021113",
		"0a10cc06ccefac73c34bbff076143807", "c3891223021217020d45787465726e61",
		"6c466163696e67506f72740001120802", "0d5549440000"}, "")
	if got := hex.EncodeToString(PortTable()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
