package fbs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
)

// TestMemoryOfVerifyIsLimitedByTheFileSize measures the memory that Verify allocates: at most the
// size of the file and 64 KiB. The image has one or the maximum number of sequences and tensors,
// which all share a name of 255 bytes.
func TestMemoryOfVerifyIsLimitedByTheFileSize(t *testing.T) {
	effort.SkipShort(t)
	for name, n := range map[string]int{"few": 1, "many": fbs.SequencesMax} {
		t.Run(name, func(t *testing.T) {
			file := imageWithSharedName(t, n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := fbs.Verify(file)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			took := after.TotalAlloc - before.TotalAlloc
			if took > uint64(len(file))+64<<10 {
				t.Errorf("%s: Verify allocates %d bytes for a file of %d, want at most 64 KiB more",
					name, took, len(file))
			}
			t.Logf("evidence: %s: %d bytes allocated for a file of %d", name, took, len(file))
		})
	}
}

// imageWithSharedName returns an image with n sequences and n tensors that share a name.
func imageWithSharedName(t *testing.T, n int) []byte {
	t.Helper()
	image := sampleImage()
	image.Windows, image.Tensors, image.Sequences = image.Windows[3:], nil, nil
	for i := range n {
		name := strings.Repeat("n", fbs.NameMax-4) + fmt.Sprintf("%04d", i)
		image.Sequences = append(image.Sequences, lmb.Sequence{Name: name})
		image.Tensors = append(image.Tensors,
			lmb.Tensor{Name: name, Role: gen.RoleInput, DType: gen.DTypeInt8, Shape: []uint32{1}})
	}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range view.Sequences {
		view.Sequences[i].Name, view.Tensors[i].Name = view.Sequences[0].Name,
			view.Sequences[0].Name
	}
	lmb.Stamp(file, uint64(len(file)))
	return file
}

// TestTwoGoroutinesMayVerifyAtOnce runs two first calls of Verify in a new process at the same
// time. The race detector reports a data race.
func TestTwoGoroutinesMayVerifyAtOnce(t *testing.T) {
	const first = "LM_TEST_FIRST_VERIFY"
	if os.Getenv(first) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), first+"=1")
		out, err := child.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("this program runs in an emulator, and cannot start itself")
		}
		if err != nil {
			t.Fatalf("child: %v\n%s", err, out)
		}
		return
	}
	file := make([]byte, 200) // Verify reads up to the checksum of the signature
	binary.LittleEndian.PutUint64(file[24:], 72)
	copy(file[72:], fbs.SignatureMagic)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := fbs.Verify(file); err == nil {
				t.Error("Verify accepts a file of zeros")
			}
		})
	}
	both.Wait()
}
