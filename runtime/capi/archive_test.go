//go:build cgo && !race && !purego && !emulated

package main

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/fakekernel"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/faultlog"
)

// These tests build the archive as build.sh does and link it into C programs. They need to run only
// once, not also under the race detector, with purego or in an emulator.

const root = "../.."

// artifacts are built by the first test that needs them.
var artifacts struct {
	mock  func() (path string, err error) // archive with mocks and signatures
	plain func() (path string, err error) // archive as for targets, but with its symbols
	host  func() (path string, err error) // program testdata/host.c
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lightmetal-capi-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	artifacts.mock = sync.OnceValues(func() (string, error) {
		return buildArchive(root, filepath.Join(dir, "mock"), "-tags", "mock,signed")
	})
	artifacts.plain = sync.OnceValues(func() (string, error) {
		return buildArchive(root, filepath.Join(dir, "plain"), "-ldflags", "-buildid=")
	})
	artifacts.host = sync.OnceValues(func() (string, error) {
		return linkProgram(filepath.Join(dir, "host"), "testdata/host.c")
	})
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// buildArchive builds the archive of a source tree into a directory and returns its path.
func buildArchive(tree, dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "liblightmetal.a")
	args := append([]string{"build", "-buildmode=c-archive", "-trimpath", "-ldflags",
		"-s -w -buildid=", "-o", path}, flags...)
	build := exec.Command("go", append(args, "./runtime/capi")...)
	build.Dir = tree
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-O2", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return path, nil
}

// linkProgram compiles a C program and links it with the archive that has mocks and signatures. It
// returns the path of the program.
func linkProgram(output string, sources ...string) (string, error) {
	library, err := artifacts.mock()
	if err != nil {
		return "", err
	}
	args := []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", ".", "-o",
		output}
	return output, runGCC(append(append(args, sources...), library, "-lpthread")...)
}

// runGCC runs gcc, and returns an error with its output if it fails.
func runGCC(args ...string) error {
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// runHost runs a scenario of testdata/host.c, and returns its output and wait status.
func runHost(t *testing.T, args ...string) (output string, status syscall.WaitStatus) {
	t.Helper()
	effort.SkipShort(t)
	path, err := artifacts.host()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := exec.Command(path, args...)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), c.ProcessState.Sys().(syscall.WaitStatus)
}

// mustRunHost runs a scenario of testdata/host.c and fails the test if the scenario fails.
func mustRunHost(t *testing.T, args ...string) string {
	t.Helper()
	out, status := runHost(t, args...)
	if status != 0 {
		t.Fatalf("host %s: exit %d, signal %v\n%s", strings.Join(args, " "), status.ExitStatus(),
			status.Signal(), out)
	}
	return out
}

const (
	factorialImage = root + "/testdata/images/edu-factorial.lmb"
	memoryDevice   = "mock:ivshmem"
)

// framesListing describes an image with the sequences that the scenarios of testdata/host.c run.
const framesListing = `tensor a input uint32[] = uint32 1
tensor d output uint32[]
main:
  write.4 m+0x0 0x600df00d
  copy.4 m+0x1000 <- pattern 0x2 size 16384
empty:
frame:
  copy.4 m+0x0 <- a[:]
  copy.4 d[:] <- m+0x0
sleeps:
  delay 200us
expect:
  expect.4 m+0x0 == 0x7
compare:
  compare.4 m+0x0 uint32 == uint32 3
`

func TestStructLayoutsOfCAndGoAgree(t *testing.T) {
	want := slices.Concat(structLayout("lm_error", lastError{}),
		structLayout("lm_image", imageInfo{}), structLayout("lm_tensor", tensorInfo{}),
		structLayout("lm_version", versionInfo{}))
	got := strings.Split(strings.TrimSpace(mustRunHost(t, "layout")), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("C has\n%s\nGo has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMisuseFromCReturnsAStatus(t *testing.T) {
	mustRunHost(t, "misuse", factorialImage, root+"/testdata/bad/random.lmb")
}

func TestImageInTheHostsMemoryRuns(t *testing.T) { mustRunHost(t, "memory", factorialImage) }

// TestOpenSignedAcceptsOnlySignedImages checks that the archive passes on the keys and the least
// version; tests of runtime/signed check the signatures.
func TestOpenSignedAcceptsOnlySignedImages(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	file := assembleImage(t, framesListing)
	public := key.Public().(ed25519.PublicKey)
	value := ed25519.Sign(key, signed.SignedBytes(file, 3))
	path := filepath.Join(t.TempDir(), "signed.lmb")
	if err := os.WriteFile(path, append(file,
		lmb.SignatureBlock(3, public, value)...), 0o644); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("ab", ed25519.PublicKeySize)
	keys := fmt.Sprintf("# keys\n%s\n%x\n", other, []byte(public))
	// The arguments are the file, the keys, the least version, and the expected status.
	mustRunHost(t, "signed", path, keys, "3", "0")
	mustRunHost(t, "signed", path, keys, "4", "77")
	mustRunHost(t, "signed", path, other, "0", "77")
	mustRunHost(t, "signed", writeImage(t, framesListing), keys, "0", "77")
}

func TestFailedRunFromC(t *testing.T) {
	out := mustRunHost(t, "status", writeImage(t, framesListing), memoryDevice, "compare", "76",
		"11")
	const want = "golden mismatch: compare, command 0: compare.4 w0+0x0: element 0: got 0x0, " +
		"wanted 0x3 (bits that differ: 0, 1)\n"
	if !strings.HasPrefix(out, want) {
		t.Errorf("host printed %q, want %q", out, want)
	}
}

func TestBusErrorInASealedProcessReturnsAStatusToC(t *testing.T) {
	mustRunHost(t, "cut", writeImage(t, framesListing), memoryDevice)
}

func TestMillionRunsFromCAllocateNothing(t *testing.T) {
	mustRunHost(t, "million", writeImage(t, framesListing), memoryDevice, "noseal")
}

func TestMillionSealedRunsFromCSurvive(t *testing.T) {
	mustRunHost(t, "million", writeImage(t, framesListing), memoryDevice, "seal")
}

// TestFailuresAreRecordedFromC reads a ring of three slots after five failures.
func TestFailuresAreRecordedFromC(t *testing.T) {
	path, image := filepath.Join(t.TempDir(), "faults"), writeImage(t, framesListing)
	data, err := os.ReadFile(image)
	if err == nil {
		err = os.WriteFile(path, make([]byte, 3*faultlog.EntryBytes), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 5 {
		mustRunHost(t, "record", image, memoryDevice, path)
	}
	ring, err := os.ReadFile(path)
	if err != nil || len(ring) != 3*faultlog.EntryBytes {
		t.Fatal(len(ring), err)
	}
	for i, number := range []uint64{4, 5, 3} {
		var e faultlog.Entry
		copy(e.Bytes(), ring[i*faultlog.EntryBytes:])
		at := time.Unix(0, int64(e.TimeNs))
		reason := string(bytes.TrimRight(e.Reason[:], "\x00"))
		const want = "expect, command 0: expect.4 w0+0x0 == 0x7: got 0x600df00d (11 bits differ)"
		r := e.Result
		r.Command = 0 // index in the image
		if !e.IsComplete() || e.EntryNumber != number || e.Runs != 1 || at.Before(start) ||
			time.Since(at) < 0 || reason != want ||
			e.ImageChecksum != fbs.ReadStruct[fbs.Preamble](data).Checksum ||
			r != (runtime.Result{Code: hal.ExpectFailed, Got: 0x600df00d, Want: 7,
				Mask: 1<<32 - 1}) {
			t.Errorf("slot %d: entry %d, %d runs, %v, %+v, %q; want entry %d, 1 run, %q", i,
				e.EntryNumber, e.Runs, at, e.Result, reason, number, want)
		}
	}
}

// TestFreezeWaitsUntilSysmonRuns: if sysmon, a thread of Go, began after Seal, the kernel would
// kill the process.
func TestFreezeWaitsUntilSysmonRuns(t *testing.T) {
	program, err := linkProgram(filepath.Join(t.TempDir(), "late"), "testdata/late.c")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, writeImage(t, framesListing), memoryDevice).CombinedOutput()
	if err != nil {
		t.Errorf("program late: %v: %s", err, out)
	}
}

func TestSignalHandlersOfTheHostStillWork(t *testing.T) {
	mustRunHost(t, "signals", writeImage(t, framesListing), memoryDevice)
}

func TestImagesOnSmallStacksOfManyThreads(t *testing.T) {
	mustRunHost(t, "threads", writeImage(t, framesListing), memoryDevice)
}

func TestFreezeDoesNotChangeTheHostsThreadsSignalsOrScheduling(t *testing.T) {
	mustRunHost(t, "own", writeImage(t, framesListing), memoryDevice)
}

func TestForkAndExecWorkAfterFreeze(t *testing.T) {
	mustRunHost(t, "spawn", writeImage(t, framesListing), memoryDevice)
}

// TestCostOfACallIsMeasured sets no upper limit for the times, because they depend on the machine.
func TestCostOfACallIsMeasured(t *testing.T) {
	out := mustRunHost(t, "cost", writeImage(t, framesListing), memoryDevice)
	t.Log(out)
	var abi, run, find float64 // in ns
	if _, err := fmt.Sscanf(out, "ns, best of 7 rounds: lm_abi %f, lm_run of an empty sequence %f,"+
		" lm_find_tensor %f\n", &abi, &run, &find); err != nil || min(abi, run, find) <= 0 {
		t.Errorf("host printed %q, %v; want three times above 0", out, err)
	}
}

func TestFaultInHostCodeEndsTheHost(t *testing.T) {
	if out, status := runHost(t, "crash"); status.Signal() != syscall.SIGSEGV {
		t.Errorf("host that crashes: exit %d, signal %v, want %v\n%s", status.ExitStatus(),
			status.Signal(), syscall.SIGSEGV, out)
	}
}

// TestSignalsAndThreadsAreAsTheManualSays checks what README.md says about the effects of the
// archive on a process.
func TestSignalsAndThreadsAreAsTheManualSays(t *testing.T) {
	out := mustRunHost(t, "process", factorialImage, "mock:edu")
	t.Log(out)
	var onstack []string
	for _, m := range regexp.MustCompile(
		`(?m)^signal (\d+) onstack 1 siginfo 1 restart 1$`).FindAllStringSubmatch(out, -1) {
		onstack = append(onstack, m[1])
	}
	inherited := ignoredSignals(t) // for example under nohup
	if want := "7 8 11 13 23"; strings.Join(onstack, " ") != want ||
		strings.Count(out, "\nsignal ") != len(onstack)+bits.OnesCount64(inherited) {
		t.Errorf("signals %v have a handler on an alternate stack, want only %s (SIGBUS, SIGFPE, "+
			"SIGSEGV, SIGPIPE, SIGURG)", onstack, want)
	}
	var rss, size, threads, blocked, ignored, caught [2]uint64
	for i, name := range []string{"main", "frozen"} {
		_, rest, _ := strings.Cut(out, name+" ")
		if _, err := fmt.Sscanf(rest, "VmSize:%d VmRSS:%d Threads:%d SigBlk:%d SigIgn:%d SigCgt:%d",
			&size[i], &rss[i], &threads[i], &blocked[i], &ignored[i], &caught[i]); err != nil {
			t.Fatal(err)
		}
	}
	if urg := uint64(1) << (syscall.SIGURG - 1); blocked != [2]uint64{0, urg} ||
		ignored != [2]uint64{inherited, inherited} || caught[0]&urg == 0 {
		t.Errorf("signals before and after freezing: blocked %x, want %x; ignored %x, want %x; "+
			"caught %x, want SIGURG before", blocked, [2]uint64{0, urg}, ignored, inherited, caught)
	}
	if rss[1] > 16<<10 {
		t.Errorf("%d KiB are resident after freezing; README.md says less than 16 MiB", rss[1])
	}
}

// ignoredSignals returns the signals that this process ignores. Its children inherit them.
func ignoredSignals(t *testing.T) (set uint64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	if _, err := fmt.Sscanf(rest, "%x", &set); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestFirstCallWithoutProcIsAnError(t *testing.T) {
	dir := t.TempDir()
	library, err := artifacts.mock()
	if err != nil {
		t.Fatal(err)
	}
	if err := runGCC("-static", "-std=c11", "-O2", "-I", ".", "-o", filepath.Join(dir, "host"),
		"testdata/host.c", library, "-lpthread"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(factorialImage)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "image.lmb"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/host", "blind", "/image.lmb")
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	out, err := c.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("changing the root directory requires root")
	}
	if err != nil || !strings.Contains(string(out), "/proc was not mounted at the first call") {
		t.Errorf("host without /proc: %v: %s", err, out)
	}
}

// TestLoadOfADeviceInUseIsAnError mounts the files of a fake PCI function over /sys.
func TestLoadOfADeviceInUseIsAnError(t *testing.T) {
	host, err := artifacts.host()
	if err != nil {
		t.Fatal(err)
	}
	kernel := fakekernel.New(t.TempDir(), t.Errorf)
	f := kernel.AddFunction("0000:01:00.0", 0x1af4, 0x1110, [6]uint64{2: 1 << 20})
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		t.Skip("mounting requires root or user namespaces")
	}
	image := writeImage(t, "main:\n  write.4 m+0x0 0x1\n")
	out, err := exec.Command("unshare", "-rm", "sh", "-c", `mount --bind "$0" /sys && exec "$@"`,
		kernel.Dir+"/sys", host, "owner", image, "pci:"+f.Address).CombinedOutput()
	if err != nil {
		t.Errorf("host owner: %v\n%s", err, out)
	}
}

// exportedFunctions returns the functions lm_* that an archive exports.
func exportedFunctions(t *testing.T, library string) (names []string) {
	t.Helper()
	out, err := exec.Command("nm", "-g", "--defined-only", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(
		`(?m)^[0-9a-f]+ T (lm_\w+)$`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// declaredFunctions returns the functions that a header declares.
func declaredFunctions(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prototype := regexp.MustCompile(`(?m)^(?:extern )?(?:int|uint32_t|GoInt32|GoUint32) (lm_\w+)\(`)
	for _, m := range prototype.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// TestHeaderDeclaresWhatTheArchiveExports compares the names of functions, and compiles
// lightmetal.h together with the header of cgo: the compiler rejects two prototypes of a function
// that differ.
func TestHeaderDeclaresWhatTheArchiveExports(t *testing.T) {
	effort.SkipShort(t)
	library, err := artifacts.plain()
	if err != nil {
		t.Fatal(err)
	}
	generated := strings.TrimSuffix(library, ".a") + ".h"
	want := declaredFunctions(t, "lightmetal.h")
	if len(want) != 21 {
		t.Errorf("%d functions in lightmetal.h, want 21: %v", len(want), want)
	}
	if got := exportedFunctions(t, library); !slices.Equal(got, want) {
		t.Errorf("the archive exports %v, lightmetal.h declares %v", got, want)
	}
	if got := declaredFunctions(t, generated); !slices.Equal(got, want) {
		t.Errorf("the header of cgo declares %v, lightmetal.h declares %v", got, want)
	}
	compile := func(change func(string) string) error {
		dir := t.TempDir()
		text, err := os.ReadFile("lightmetal.h")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "lightmetal.h"), []byte(change(string(text))),
			0o644); err != nil {
			t.Fatal(err)
		}
		return runGCC("-fsyntax-only", "-Werror", "-I", dir, "-x", "c", generated)
	}
	if err := compile(func(text string) string { return text }); err != nil {
		t.Errorf("lightmetal.h with the header of cgo: %v", err)
	}
	for _, name := range want {
		prototype := regexp.MustCompile(`(?m)^(int|uint32_t) ` + name + `\(`)
		if err := compile(func(text string) string {
			return prototype.ReplaceAllString(text, "int16_t "+name+"(")
		}); err == nil {
			t.Errorf("the compiler accepts another result type of %s", name)
		}
		if err := compile(func(text string) string {
			return prototype.ReplaceAllString(text, "${1} "+name+"(int16_t more, ")
		}); err == nil {
			t.Errorf("the compiler accepts one more argument of %s", name)
		}
	}
}

func TestHeaderIsCAndCpp(t *testing.T) {
	const user = "#include \"lightmetal.h\"\nint main(void) { return lm_abi() != LM_ABI; }\n"
	library, err := artifacts.mock()
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []struct{ compiler, standard, suffix string }{
		{"gcc", "-std=c11", "c"}, {"g++", "-std=c++11", "cpp"}, {"g++", "-std=c++20", "cpp"},
	} {
		t.Run(language.compiler+" "+language.standard, func(t *testing.T) {
			if _, err := exec.LookPath(language.compiler); err != nil {
				t.Logf("%s is not installed", language.compiler)
				return
			}
			dir := t.TempDir()
			source := filepath.Join(dir, "user."+language.suffix)
			program := filepath.Join(dir, "user")
			if err := os.WriteFile(source, []byte(user), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(language.compiler, language.standard, "-Wall", "-Wextra",
				"-pedantic", "-Werror", "-I", ".", "-o", program, source, library,
				"-lpthread").CombinedOutput(); err != nil {
				t.Errorf("compiling with %s: %v\n%s", language.standard, err, out)
			} else if err := exec.Command(program).Run(); err != nil {
				t.Errorf("running the program of %s: %v", language.standard, err)
			}
		})
	}
}

// heavySymbols are prefixes of symbols that a target must not contain, as in tools/check/house.
var heavySymbols = []string{"fmt.", "reflect.Value.", "log.", "encoding/", "context.",
	"lightmetal/hal/mock."}

func TestArchiveForTargetsHasNoMocksOrHeavyPackages(t *testing.T) {
	path, err := artifacts.plain()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("nm", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), " lightmetal/runtime.Load") ||
		!strings.Contains(string(out), " T lm_run") {
		t.Fatal("nm lists neither lightmetal/runtime.Load nor lm_run, or only one of them")
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for _, prefix := range heavySymbols {
			if len(fields) == 3 && strings.HasPrefix(fields[2], prefix) {
				t.Errorf("the archive contains %s, want no symbol that begins with %s", fields[2],
					prefix)
			}
		}
	}
}

// TestArchiveDoesNotDependOnTheBuildDirectory builds the archive twice, in directories with
// different names, the second time with an empty cache.
func TestArchiveDoesNotDependOnTheBuildDirectory(t *testing.T) {
	effort.SkipUnlessNightly(t)
	var archives [2][]byte
	for i, name := range []string{"a", "a-folder-of-another-name"} {
		dir := filepath.Join(t.TempDir(), name)
		for _, source := range []string{"fbs", "boards", "hal", "runtime"} {
			if err := os.CopyFS(filepath.Join(dir, source),
				os.DirFS(filepath.Join(root, source))); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("GOTMPDIR", t.TempDir())
		if i == 1 {
			t.Setenv("GOCACHE", t.TempDir())
		}
		path, err := buildArchive(dir, filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(archives[i], []byte(dir)) ||
			bytes.Contains(archives[i], []byte(os.Getenv("GOTMPDIR"))) {
			t.Errorf("the archive contains the name of %s or of GOTMPDIR", dir)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("two archives differ, of %d and %d bytes", len(archives[0]), len(archives[1]))
	}
}
