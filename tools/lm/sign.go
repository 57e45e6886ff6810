package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime/signed"
	"lightmetal/tools/files"
	"lightmetal/tools/lmb"

	"github.com/spf13/cobra"
)

func signCommand() *cobra.Command {
	var private, out, fresh string
	c := &cobra.Command{
		Use: "sign --key KEY.pem IMAGE.lmb",
		Args: func(_ *cobra.Command, args []string) error {
			if (fresh != "") == (len(args) == 1 && private != "") || len(args) > 1 || fresh != "" && private+out != "" {
				return usage("sign takes --key KEY.pem and one image, or --new-key KEY.pem alone; lm sign --help tells more")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if fresh != "" {
				return newKey(fresh)
			}
			if out == "" {
				out = args[0]
			}
			return sign(args[0], private, out)
		},
	}
	c.Flags().StringVar(&private, "key", "", "file of the private key")
	c.Flags().StringVarP(&out, "out", "o", "", "file to write (default: the image itself)")
	c.Flags().StringVar(&fresh, "new-key", "", "make a key and write it to this file and its .pub")
	return c
}

// newKey writes a new private key and its public one. A key that is there is
// not replaced: nothing could make it again.
func newKey(path string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	half, err := files.Create(path+".pub", 0o644)
	if err != nil {
		return err
	}
	defer half.Discard()
	if _, err := half.Write([]byte(hex.EncodeToString(public) + "\n")); err != nil {
		return err
	}
	if err := files.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600, files.Create); err != nil {
		return err
	}
	if err := half.Commit(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s signs, and is to be kept secret; %s.pub goes to the targets\n", path, path)
	return nil
}

func sign(path, keyPath, out string) error {
	if err := files.Distinct([]string{out}, keyPath); err != nil {
		return err
	}
	key, err := privateKey(keyPath)
	if err != nil {
		return err
	}
	file, _, err := verified(path)
	if err != nil {
		return err
	}
	image, _, err := fbs.SplitSignature(file.Bytes())
	if err != nil {
		return err
	}
	digest := sha512.Sum512(image)
	public := key.Public().(ed25519.PublicKey)
	whole := append(bytes.Clone(image), lmb.SignatureBlock(public, ed25519.Sign(key, digest[:]))...)
	if err := writeFile(out, whole); err != nil {
		return err
	}
	fmt.Fprintf(tell(out), "%s: signed by %x\n", out, public)
	return nil
}

func privateKey(path string) (ed25519.PrivateKey, error) {
	text, err := readFile(path, keysMax)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, usage("%s is no private key in PEM (PKCS #8); lm sign --new-key makes one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, usage("%s: %v", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, usage("%s is a key of another kind than Ed25519; lm sign --new-key makes one", path)
	}
	return private, nil
}

// publicKeys reads a file of public keys.
func publicKeys(path string) (signed.Keys, error) {
	text, err := readFile(path, keysMax)
	if err != nil {
		return nil, err
	}
	keys, err := signed.ParseKeys(string(text))
	if err != nil {
		return nil, wrong(hal.CodeOf(err), "%s: %s", path, err.(*hal.Fault).Reason)
	}
	return keys, nil
}
