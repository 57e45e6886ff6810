package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSignedImageIsVerifiedByItsKeyAlone(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours.pem"), filepath.Join(dir, "theirs.pem")
	for _, path := range []string{ours, theirs} {
		if exit, _, stderr := lm(t, "sign", "--new-key", path); exit != 0 {
			t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the private key has mode %v, %v", info.Mode(), err)
		}
	}
	image := assemble(t, edu+"main:\n  write.4 r+0x8 0x5\n")
	plain, _ := os.ReadFile(image)
	signed := filepath.Join(dir, "signed.lmb")
	check := func(want int, reason string, args ...string) string {
		t.Helper()
		exit, stdout, stderr := lm(t, args...)
		if exit != want || !strings.Contains(stderr, reason) {
			t.Errorf("lm %v: exit %d, %s; want %d, %s", args, exit, stderr, want, reason)
		}
		return stdout
	}
	check(77, "not signed", "verify", "--key", ours+".pub", image)
	check(0, "", "sign", "--key", ours, "-o", signed, image)
	check(0, "", "verify", "--key", ours+".pub", signed)
	check(0, "", "verify", signed)
	check(77, "not in the list of public keys", "verify", "--key", theirs+".pub", signed)
	if now, _ := os.ReadFile(image); !bytes.Equal(now, plain) {
		t.Error("-o changed the image itself")
	}
	// The signature does not change the listing. lm info prints the public key.
	dumped := check(0, "", "dump", image)
	if check(0, "", "dump", signed) != dumped {
		t.Error("lm dump prints the signed image differently")
	}
	var info struct {
		SignedBy string `json:"signed_by"`
	}
	public, _ := os.ReadFile(ours + ".pub")
	if err := json.Unmarshal([]byte(check(0, "", "info", "--json", signed)), &info); err != nil ||
		info.SignedBy+"\n" != string(public) {
		t.Errorf("lm info prints the public key %q (%v), want %q", info.SignedBy, err, public)
	}
	// Signing again replaces the signature. The same key makes the same bytes.
	first, _ := os.ReadFile(signed)
	check(0, "", "sign", "--in-place", "--key", theirs, signed)
	check(0, "", "verify", "--key", theirs+".pub", signed)
	check(0, "", "sign", "--in-place", "--key", ours, signed)
	if again, _ := os.ReadFile(signed); !bytes.Equal(again, first) || len(first) != len(plain)+128 {
		t.Errorf("signing again with the same key made other bytes, or the signature adds %d "+
			"bytes, want 128", len(first)-len(plain))
	}
}

func TestVersionOfASignedImageIsShownAndChecked(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	signed := filepath.Join(dir, "signed.lmb")
	check := func(want int, reason string, args ...string) string {
		t.Helper()
		exit, stdout, stderr := lm(t, args...)
		if exit != want || !strings.Contains(stdout+stderr, reason) {
			t.Errorf("lm %v: exit %d, %s%s; want %d, %s", args, exit, stdout, stderr, want, reason)
		}
		return stdout
	}
	check(0, "", "sign", "--new-key", key)
	image := assemble(t, edu+"main:\n  write.4 r+0x8 0x5\n")
	check(0, "signed as version 7; public key", "sign", "--key", key, "--version", "7", "-o",
		signed, image)
	check(0, "as version 7; public key", "info", signed)
	if text := check(0, "", "info", "--json", signed); !strings.Contains(text, `"version": 7`) &&
		!strings.Contains(text, `"version":7`) {
		t.Errorf("lm info --json does not print version 7: %s", text)
	}
	check(0, "", "verify", "--key", key+".pub", "--at-least", "7", signed)
	check(77, "has version 7, but must have at least version 8", "verify", "--key", key+".pub",
		"--at-least", "8", signed)
	check(64, "--at-least needs --key", "verify", "--at-least", "7", signed)
	public, _ := os.ReadFile(key + ".pub")
	revoked := tempFile(t, "keys", strings.TrimSpace(string(public))+" versions -6\n")
	check(77, "its key may sign only versions 0 to 6", "verify", "--key", revoked, signed)
	// Signing again without --version removes the version.
	check(0, "signed; public key", "sign", "--key", key, "--in-place", signed)
	check(77, "has version 0", "verify", "--key", key+".pub", "--at-least", "1", signed)
	if text := check(0, "signed       public key", "info", "--json=false",
		signed); strings.Contains(text, "as version") {
		t.Errorf("lm info prints a version of an image that has none: %s", text)
	}
	for _, version := range []string{"-1", "4294967296", "x", ""} {
		check(64, "--version", "sign", "--key", key, "--version="+version, "--in-place", signed)
	}
	check(64, "or --new-key KEY.pem alone", "sign", "--new-key", key+"2", "--version", "7")
}

func TestSignRejectsInvalidImagesKeysAndFlags(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	if exit, _, stderr := lm(t, "sign", "--new-key", key); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	image := assemble(t, edu+"main:\n  write.4 r+0x8 0x5\n")
	const ecKey = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
	// openssl genpkey -algorithm x25519
	const otherKind = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB
-----END PRIVATE KEY-----
`
	signArgs := func(key, image string) []string {
		return []string{"--in-place", "--key", key, image}
	}
	noImage := tempFile(t, "x.lmb", strings.Repeat("x", 200))
	for _, test := range []struct {
		exit   int
		reason string
		args   []string
	}{
		{64, "exists and will not be replaced", []string{"--new-key", key}},
		{64, "or --new-key KEY.pem alone", []string{}},
		{64, "or --new-key KEY.pem alone", []string{image}},
		{64, "or --new-key KEY.pem alone", []string{"--key", key}},
		{64, "or --new-key KEY.pem alone", []string{"--key", key, "--new-key", key + "2", image}},
		{64, "or --new-key KEY.pem alone", []string{"--key", key, image, image}},
		{64, "is not a private key in PEM", []string{"--in-place", "--key", key + ".pub", image}},
		{64, "is not an Ed25519 key", signArgs(tempFile(t, "x", otherKind), image)},
		{64, "is not a private key in PEM", signArgs(tempFile(t, "x", ecKey), image)},
		{65, "not a Light Metal image", signArgs(key, noImage)},
		{66, "no such file", []string{"--in-place", "--key", key, filepath.Join(dir, "none.lmb")}},
		{66, "no such file", []string{"--in-place", "--key", filepath.Join(dir, "none"), image}},
	} {
		if exit, _, stderr := lm(t, append([]string{"sign"}, test.args...)...); exit != test.exit ||
			!strings.Contains(stderr, test.reason) {
			t.Errorf("lm sign %v: exit %d, %s; want %d, %s", test.args, exit, stderr, test.exit,
				test.reason)
		}
	}
}

func TestWorstWaitIgnoresPollIntervals(t *testing.T) {
	image := assemble(t,
		edu+"main:\n  poll.4 r+0x20 & 0x1 == 0x0 within 10ms every 3ms\n  delay 1ms\n  call sub\n"+
			"sub:\n  delay 500us\n")
	_, stdout, _ := lm(t, "info", "--json", image)
	var info struct {
		Sequences []struct {
			WaitMaxUs int `json:"wait_max_us"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &info); err != nil ||
		info.Sequences[0].WaitMaxUs != 11_500 {
		t.Errorf("lm info --json: %v, %+v; want a longest wait of 11500 us", err, info)
	}
}
