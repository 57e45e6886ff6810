package main

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

func init() {
	steps["encrypts"] = step{"DEVICE IMAGE", checkEncryption}
	steps["break-seal"] = step{"IMAGE", breakSeal}
	childModes["narrow"] = accessNarrowly
	childModes["break-seal"] = breakOwnSeal
}

// checkEncryption compares what a device encrypts with the result of the standard library.
func checkEncryption(_ *guest, args []string) error {
	random := rand.NewChaCha8([32]byte{})
	for range 3 {
		flags := []string{"-device", args[0], "-sequence", "encrypt", "-output",
			"result=/tmp/result"}
		data := map[string][]byte{"key": make([]byte, 16), "iv": make([]byte, 16),
			"text": make([]byte, 64)}
		for name, content := range data {
			_, _ = random.Read(content)
			if err := os.WriteFile("/tmp/"+name, content, 0o600); err != nil {
				return err
			}
			flags = append(flags, "-input", name+"=/tmp/"+name)
		}
		output, exit := run("/lmrun", append(flags, args[1])...)
		if err := checkEnd("0", "done", output, exit); err != nil {
			return err
		}
		key, err := aes.NewCipher(data["key"])
		if err != nil {
			return err
		}
		want := make([]byte, 64)
		cipher.NewCBCEncrypter(key, data["iv"]).CryptBlocks(want, data["text"])
		if err := os.WriteFile("/tmp/want", want, 0o600); err != nil {
			return err
		}
		if err := compareFiles("/tmp/want", "/tmp/result"); err != nil {
			return err
		}
	}
	return nil
}

// unknownDevice is a device with ids of no board, so that no rule of a board restricts accesses.
type unknownDevice struct{ hal.Device }

func (m unknownDevice) Identity() hal.Identity {
	i := m.Device.Identity()
	i.Vendor, i.Device = 0xffee, 0xffee
	return i
}

// openEdu opens edu, and verifies an image for it.
func openEdu(path string) (hal.Device, *fbs.View, error) {
	device, err := hal.Open("pci:1234:11e8")
	if err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	view, err := fbs.Verify(data)
	return device, view, err
}

// accessNarrowly makes accesses that are too narrow for edu, which answers with a bus error, and
// then one that edu accepts: narrow IMAGE.
func accessNarrowly(args []string) int {
	device, view, err := openEdu(args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for name, want := range map[string]hal.Code{"narrow-load": hal.BusFault,
		"narrow-store": hal.BusFault, "main": hal.OK} {
		r, err := runtime.Load(view, runtime.AnyTLBWindow, unknownDevice{device})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if result := r.Run(view.SequenceByName(name)); result.Code != want ||
			want != hal.OK && (!result.SafeRan || result.SafeSequenceCode != hal.OK) {
			fmt.Printf("%s: got %+v, want %v\n", name, result, want)
			return 1
		}
	}
	return 0
}

// breakSeal runs this program sealed, and checks that the kernel kills it for each forbidden call.
func breakSeal(_ *guest, args []string) error {
	const killed = 128 + int(unix.SIGSYS)
	for what, want := range map[string]int{"nothing": 0, "open": killed, "map": killed,
		"heap": killed} {
		if output, exit := run("/init", "break-seal", args[0], what); exit != want {
			return fmt.Errorf("%s under the seal: got exit status %d, want %d: %s", what, exit,
				want, output)
		}
	}
	return nil
}

// breakOwnSeal seals this process and then makes the call that WHAT names: break-seal IMAGE WHAT.
func breakOwnSeal(args []string) int {
	device, view, err := openEdu(args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err == nil {
		runtime.DedicateProcess()
		err = errors.Join(r.Freeze(), runtime.Seal())
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	switch args[1] {
	case "open":
		_, _ = unix.Open("/proc/self/status", unix.O_RDONLY, 0)
	case "map":
		_, _ = unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	case "heap":
		memory := make([]byte, 256<<20)
		fmt.Println(&memory[0])
	}
	unix.Exit(0)
	return 0
}
