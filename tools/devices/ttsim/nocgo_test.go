//go:build !cgo

package ttsim

import (
	"strings"
	"testing"
)

func TestOpenWithoutCgoSaysSo(t *testing.T) {
	_, err := Open("ttsim:/some/libttsim.so")
	if err == nil || !strings.Contains(err.Error(), "without cgo") {
		t.Error(err)
	}
}
