//go:build !cgo

package ttsim

import (
	"strings"
	"testing"
)

func TestOpenWithoutCgoReportsMissingCgo(t *testing.T) {
	_, err := Open("ttsim:/some/libttsim.so")
	if err == nil || !strings.Contains(err.Error(), "without cgo") {
		t.Errorf("Open: error %v, want one with \"without cgo\"", err)
	}
}
