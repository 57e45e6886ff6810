package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime/signed"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
)

func signCommand() *cobra.Command {
	var private, out, fresh string
	var version uint32
	c := &cobra.Command{
		Use: "sign --key KEY.pem IMAGE.lmb",
		Args: func(_ *cobra.Command, args []string) error {
			if (fresh != "") == (len(args) == 1 && private != "") || len(args) > 1 ||
				fresh != "" && (private+out != "" || version != 0) {
				failUsage("sign takes --key KEY.pem and one image, " +
					"or --new-key KEY.pem alone; see lm sign --help")
			}
			return nil
		},
		Run: func(_ *cobra.Command, args []string) {
			if fresh != "" {
				newKey(fresh)
			} else {
				sign(args[0], private, out, version)
			}
		},
	}
	c.Flags().StringVar(&private, "key", "", "file with the private key (PEM)")
	outputFlags(c.Flags(), &out)
	c.Flags().Uint32Var(&version, "version", 0,
		"version of the image, for lmrun -at-least (default: no version)")
	c.Flags().StringVar(&fresh, "new-key", "",
		"make a key pair: the private key in this file, "+
			"the public key in this file with .pub added")
	return c
}

// newKey writes a new private key and its public key. It never replaces a file: a lost key cannot
// be made again.
func newKey(path string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	fail.On(err)
	der := fail.Must(x509.MarshalPKCS8PrivateKey(private))
	half := fail.Must(files.Create(path+".pub", 0o644))
	defer half.Discard()
	fail.Must(half.Write([]byte(hex.EncodeToString(public) + "\n")))
	fail.On(files.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		0o600, files.Create))
	fail.On(half.Commit())
	printLine(stdout, "%s: private key, which must stay secret; %s.pub: public key for the targets",
		path, path)
}

func sign(path, keyPath, out string, version uint32) {
	key := privateKey(keyPath)
	file, view := openVerified(path)
	image, _, err := fbs.SplitSignature(file.Bytes())
	fail.On(err)
	public := key.Public().(ed25519.PublicKey)
	value := ed25519.Sign(key, signed.SignedBytes(image, version))
	whole := append(bytes.Clone(image), lmb.SignatureBlock(version, public, value)...)
	writeFile(out, whole)
	content := fail.Must(lmb.StreamView(view))
	text := ""
	if version != 0 {
		text = fmt.Sprintf(" as version %d", version)
	}
	printWritten(out, content, len(whole), fmt.Sprintf("; signed%s; public key %x", text, public))
}

func privateKey(path string) ed25519.PrivateKey {
	text := readFile(path, keysMax)
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		failUsage("%s is not a private key in PEM (PKCS #8); lm sign --new-key makes one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	failIf(hal.Usage, path, err)
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		failUsage("%s is not an Ed25519 key; lm sign --new-key makes one", path)
	}
	return private
}

func publicKeys(path string) signed.Keys {
	text := readFile(path, keysMax)
	keys, err := signed.ParseKeys(string(text))
	if err != nil {
		fail.With(hal.CodeOf(err), "%s: %s", path, err.(*hal.Fault).Reason)
	}
	return keys
}
