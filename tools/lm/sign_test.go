package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestInfoPrintsTheKeyOfASignature also checks that only the owner may read a private key.
func TestInfoPrintsTheKeyOfASignature(t *testing.T) {
	key, signed := filepath.Join(t.TempDir(), "key.pem"), filepath.Join(t.TempDir(), "signed.lmb")
	mustRun(t, "", "sign", "--new-key", key)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has mode %v, %v; want 0600", info.Mode(), err)
	}
	mustRun(t, "", "sign", "--key", key, "-o", signed, twoopImage)
	var info struct {
		SignedBy string `json:"signed_by"`
	}
	text, public := mustRun(t, "", "info", "--json", signed), string(mustRead(t, key+".pub"))
	if err := json.Unmarshal([]byte(text), &info); err != nil || info.SignedBy+"\n" != public {
		t.Errorf("lm info prints the public key %q (%v), want %q", info.SignedBy, err, public)
	}
}
