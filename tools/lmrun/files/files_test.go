package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// replaceFile replaces or creates a file with a text.
func replaceFile(path, text string) error { return Write(path, []byte(text), 0o666, OpenToReplace) }

// checkFileNames checks that a directory contains exactly the files in want, separated by spaces.
func checkFileNames(t *testing.T, dir, want string) {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("directory %s contains %q, want %q", dir, got, want)
	}
}

func checkContents(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s contains %q, %v; want %q", path, got, err, want)
	}
}

func TestNewFileBelongsToItsWriterAndHasItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0, 0o600, 0o644, 0o777} { // 0: there is no file
		path := filepath.Join(dir, "f")
		_ = os.Remove(path)
		if mode != 0 {
			if err := errors.Join(os.WriteFile(path, []byte("old and longer"), 0o600),
				os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
			_ = os.Chown(path, 1234, 1235) // only root may
		}
		if err := replaceFile(path, "new"); err != nil {
			t.Fatal(err)
		}
		checkContents(t, path, "new")
		var status syscall.Stat_t
		if err := syscall.Stat(path, &status); err != nil || status.Mode&0o777 != 0o640 ||
			int(status.Uid) != os.Geteuid() {
			t.Errorf("file that replaces one of mode %v: mode %o, user %d, %v; want 0640 and %d",
				mode, status.Mode, status.Uid, err, os.Geteuid())
		}
	}
	checkFileNames(t, dir, "f")
}

// TestLinksAreFollowed follows links to a file in another directory, and to a file that does not
// exist yet.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/far", 0o755), os.WriteFile(dir+"/far/f", nil, 0o600),
		os.Symlink("far/f", dir+"/a"), os.Symlink(dir+"/a", dir+"/far/b"),
		os.Symlink("far/new", dir+"/c"), os.Symlink("self", dir+"/self")); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(replaceFile(dir+"/far/b", "one"), replaceFile(dir+"/c", "two"))
	if err != nil {
		t.Fatal(err)
	}
	checkContents(t, dir+"/far/f", "one")
	checkContents(t, dir+"/far/new", "two")
	checkFileNames(t, dir, "a c far self")
	checkFileNames(t, dir+"/far", "b f new")
	for _, link := range []string{"/a", "/far/b", "/c"} {
		if info, err := os.Lstat(dir + link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s after the write: %v, error %v; want a symbolic link", link, info, err)
		}
	}
	if err := replaceFile(dir+"/self", "x"); hal.CodeOf(err) != hal.IO {
		t.Errorf("a link to itself: %v, want code %v", err, hal.IO)
	}
}

func TestAsManyLinksAreFollowedAsInLinux(t *testing.T) {
	const most = 40
	dir := t.TempDir()
	err := os.WriteFile(dir+"/0", nil, 0o600)
	for i := range most + 1 {
		err = errors.Join(err, os.Symlink(fmt.Sprint(i), fmt.Sprint(dir, "/", i+1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(fmt.Sprint(dir, "/", most), "one"); err != nil {
		t.Errorf("%d links: %v", most, err)
	}
	checkContents(t, dir+"/0", "one")
	if err := replaceFile(fmt.Sprint(dir, "/", most+1), "two"); hal.CodeOf(err) != hal.IO {
		t.Errorf("%d links: %v, want code %v", most+1, err, hal.IO)
	}
}

func TestDevicesAndPipesAreWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Symlink("/dev/null", dir+"/null"),
		syscall.Mkfifo(dir+"/pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	nodes := []string{dir + "/null"}
	// the device number of /dev/null
	if err := syscall.Mknod(dir+"/node", syscall.S_IFCHR|0o666, 1<<8|3); err == nil {
		nodes = append(nodes, dir+"/node")
	}
	for _, path := range nodes {
		before, _ := os.Stat(path)
		err := replaceFile(path, "gone")
		if after, _ := os.Stat(path); err != nil || !os.SameFile(before, after) ||
			after.Mode() != before.Mode() {
			t.Errorf("write to %s: %v; mode %v before, %v after; want the same node", path, err,
				before.Mode(), after.Mode())
		}
	}
	_ = os.Remove(dir + "/node")
	text := make(chan string)
	go func() {
		got, _ := os.ReadFile(dir + "/pipe")
		text <- string(got)
	}()
	if err := replaceFile(dir+"/pipe", "through"); err != nil {
		t.Fatal(err)
	}
	if got := <-text; got != "through" {
		t.Errorf("the pipe contains %q, want %q", got, "through")
	}
	checkFileNames(t, dir, "null pipe")
	if err := replaceFile("/dev/full", "x"); hal.CodeOf(err) != hal.IO ||
		!strings.Contains(err.Error(), "no space") {
		t.Errorf("write to /dev/full: %v, want code %v and %q", err, hal.IO, "no space")
	}
}

// TestOutputStaysInItsDirectory changes a link or a directory in the path after OpenToReplace, and
// checks that Commit and Discard still work in the directory that OpenToReplace has opened.
func TestOutputStaysInItsDirectory(t *testing.T) {
	for _, commit := range []bool{true, false} {
		dir := t.TempDir()
		err := errors.Join(os.Mkdir(dir+"/a", 0o755), os.Mkdir(dir+"/b", 0o755),
			os.Symlink("a", dir+"/at"), os.Symlink("../at/f", dir+"/b/link"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenToReplace(dir+"/b/link", 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		err = errors.Join(os.Remove(dir+"/at"), os.Symlink("b", dir+"/at"),
			os.Rename(dir+"/a", dir+"/moved"))
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if commit {
			want, err = "f", f.Commit()
		}
		f.Discard()
		if err != nil {
			t.Errorf("Commit: %v, want no error", err)
		}
		checkFileNames(t, dir+"/moved", want)
		checkFileNames(t, dir+"/b", "link")
	}
}

// TestLeftoversOfKilledWritersAreRemoved creates files with names like those of temporary files.
// Only unlocked regular files with exactly the name of one of this output may be removed.
func TestLeftoversOfKilledWritersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	const digits = "0123456789abcdef"
	for _, name := range []string{"." + digits, "a.b." + digits, "a.." + digits,
		"a." + digits + "0", "a." + digits[1:], "a." + digits[1:] + "g", "ab." + digits,
		"." + "a." + digits} {
		if err := os.WriteFile(dir+"/."+name+".part", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/a."+digits+".part", nil, 0o600),
		os.WriteFile(dir+"/.a."+digits+".party", nil, 0o600),
		os.Mkdir(dir+"/.a."+digits[:15]+"1.part", 0o700),
		os.Symlink("x", dir+"/.a."+digits[:15]+"2.part"),
		syscall.Mkfifo(dir+"/.a."+digits[:15]+"3.part", 0o600)); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	want := len(entries)
	if os.Geteuid() == 0 {
		want++
		if err := errors.Join(os.WriteFile(dir+"/.a."+digits[:15]+"4.part", nil, 0o666),
			os.Chown(dir+"/.a."+digits[:15]+"4.part", 1234, 1235)); err != nil {
			t.Fatal(err)
		}
	}
	living, err := OpenToReplace(dir+"/a", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Discard()
	want++
	for _, left := range []string{"e", "f"} { // as after SIGKILL
		if err := os.WriteFile(dir+"/.a."+digits[:15]+left+".part", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next, err := OpenToReplace(dir+"/a", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	next.RemoveLeftovers()
	entries, _ = os.ReadDir(dir)
	for _, entry := range entries {
		name := entry.Name()
		if name == ".a."+digits[:15]+"e.part" || name == ".a."+digits+".part" {
			t.Errorf("%s is still there, want it removed", name)
		}
	}
	if got := len(entries); got != want+1 {
		t.Errorf("%d files are left, want %d: %v", got, want+1, entries)
	}
	err = errors.Join(Outputs{next}.Commit(), Outputs{living}.Commit())
	if err != nil {
		t.Errorf("Commit after RemoveLeftovers: %v", err)
	}
	stream := &Output{Fd: -1, dirFD: -1}
	stream.RemoveLeftovers() // an output without a temporary file
}

// TestPathsBelowProcAreReplacedCompletely writes to regular files by paths below /proc and
// /dev/fd. The files must be replaced completely. A file without a name is rejected.
func TestPathsBelowProcAreReplacedCompletely(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	paths := []string{"/proc/self/cwd/f", "/proc/thread-self/cwd/f", "/proc/self/fd/", "/dev/fd/"}
	for _, path := range paths {
		if err := os.WriteFile("f", []byte("old and longer"), 0o600); err != nil {
			t.Fatal(err)
		}
		open, err := os.OpenFile("f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "fd/") {
			path += fmt.Sprint(open.Fd())
		}
		if err := replaceFile(path, "new"); err != nil {
			t.Errorf("write to %s: %v", path, err)
		}
		checkContents(t, "f", "new")
		if !strings.HasSuffix(path, "f") { // the open file was replaced, and has no name now
			err := replaceFile(path, "newer")
			if hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("write to %s, a deleted file: %v, want code %v and %q", path, err, hal.IO,
					"deleted")
			}
		}
		open.Close()
		checkFileNames(t, dir, "f")
	}
}

// isAllowed runs the instructions of PrepareSeal for a system call, as seccomp does, and reports
// whether they allow it.
func isAllowed(program []unix.SockFilter, number uintptr, args [6]uintptr) bool {
	words := []uint32{uint32(number), 0, 0, 0} // struct seccomp_data
	for _, arg := range args {
		words = append(words, uint32(arg), uint32(arg>>32))
	}
	value := uint32(0)
	for at := 0; at < len(program); at++ {
		switch i := program[at]; {
		case i.Code&7 == unix.BPF_LD:
			value = words[i.K/4]
		case i.Code&7 == unix.BPF_RET:
			return i.K == unix.SECCOMP_RET_ALLOW
		case value != i.K:
			at += int(i.Jf)
		}
	}
	return false
}

// TestSealAllowsOnlyTheNamesAndDirectoryOfAnOutput changes each argument of the allowed system
// calls.
func TestSealAllowsOnlyTheNamesAndDirectoryOfAnOutput(t *testing.T) {
	f, err := OpenToReplace(t.TempDir()+"/f", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	program := Outputs{f}.PrepareSeal()
	dir, temp := uintptr(f.dirFD), nameAddress(f.tempAndFinalName)
	name := nameAddress(f.tempAndFinalName[f.finalNameOffset:])
	for _, call := range [][]uintptr{
		{unix.SYS_FSYNC}, {unix.SYS_RENAMEAT2, dir, temp, dir, name, 0},
		{unix.SYS_UNLINKAT, dir, temp, 0},
	} {
		number, args := call[0], call[1:]
		var exact [6]uintptr
		copy(exact[:], args)
		if !isAllowed(program, number, exact) {
			t.Errorf("system call %d with %#x is rejected, want it allowed", number, exact)
		}
		for i := range args {
			const currentDirectory = ^uintptr(-unix.AT_FDCWD - 1)
			others := []uintptr{currentDirectory, exact[i] + 1, exact[i] + 1<<32, temp + 1}
			for _, other := range others {
				changed := exact
				changed[i] = other
				if other != exact[i] && isAllowed(program, number, changed) {
					t.Errorf("call %d with %#x is allowed, want %#x only", number, changed, exact)
				}
			}
		}
	}
	if isAllowed(program, unix.SYS_RENAMEAT, [6]uintptr{dir, temp, dir, name}) {
		t.Error("renameat is allowed, want only renameat2")
	}
	f.isSealed = false
	f.Discard()
}

// TestFailureLeavesNoTemporaryFile covers a full file system, a missing directory, and Discard
// before Commit.
func TestFailureLeavesNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	for path, code := range map[string]hal.Code{dir: hal.IO, dir + "/none/f": hal.NoFile,
		dir + "/none/": hal.IO, "": hal.IO} {
		t.Run(path, func(t *testing.T) {
			if err := replaceFile(path, "x"); hal.CodeOf(err) != code {
				t.Errorf("write to %q: %v, want %v", path, err, code)
			}
		})
	}
	if err := os.WriteFile(dir+"/f", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(string, uint32) (*Output, error){
		"OpenToReplace": OpenToReplace, "Create": Create} {
		t.Run(name, func(t *testing.T) {
			path := dir + "/f"
			if name == "Create" {
				path = dir + "/g"
			}
			f, err := open(path, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("half")); err != nil {
				t.Fatal(err)
			}
			f.Discard()
			f.Discard()
		})
	}
	checkContents(t, dir+"/f", "old")
	checkFileNames(t, dir, "f")
	if _, err := Create(dir+"/f", 0o600); hal.CodeOf(err) != hal.Usage {
		t.Errorf("Create of a file that exists: %v, want code %v", err, hal.Usage)
	}
	if err := syscall.Mount("lightmetal", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("only root can mount a small file system, so a full one is not tested: %v", err)
	}
	defer func() { _ = syscall.Unmount(dir, 0) }()
	if err := replaceFile(dir+"/f", "old"); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(dir+"/f", strings.Repeat("x", 1<<20)); hal.CodeOf(err) != hal.IO ||
		!strings.Contains(err.Error(), "no space") {
		t.Errorf("write to a full file system: %v, want code %v and %q", err, hal.IO, "no space")
	}
	checkContents(t, dir+"/f", "old")
	checkFileNames(t, dir, "f")
}

func TestDiscardAfterFailedReplaceClosesNothing(t *testing.T) {
	first, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(first)
	f, err := OpenToReplace(t.TempDir()+"/none/", 0o600)
	if hal.CodeOf(err) != hal.IO {
		t.Fatalf("OpenToReplace of a path that ends with a slash: %v, want code %v", err, hal.IO)
	}
	f.Discard()
	if _, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil {
		t.Errorf("standard input is closed: %v", err)
		_ = unix.Dup3(first, 0, 0)
	}
}

func TestRejectAliases(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.WriteFile("in", nil, 0o600), os.WriteFile("other", nil, 0o600),
		os.Symlink("in", "link"), os.Link("in", "hard"),
		os.Mkdir("far", 0o755), os.Symlink("../new", "far/new")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		outputs, inputs string
		rejected        bool
	}{
		{"in", "in", true}, {"link", "in", true}, {"in", "link", true}, {"hard", "in", true},
		{"./far/../in", "in", true}, {dir + "/in", "in", true},
		{"other", "in", false}, {"new", "in", false}, {"new other", "in", false},
		{"new", "new", true}, {"new", "far/new", true},
		{"new new", "", true}, {"new ./new", "", true}, {"other far/../other", "", true},
		{"new " + dir + "/new", "", true}, {"new far/old", "", false},
		{"/dev/null /dev/null", "/dev/null", false}, {"- /dev/stdout", "", true},
		{"-", "in", false},
	} {
		t.Run(test.outputs+" and "+test.inputs, func(t *testing.T) {
			err := RejectAliases(strings.Fields(test.outputs), strings.Fields(test.inputs)...)
			if (hal.CodeOf(err) == hal.Usage) != test.rejected || !test.rejected && err != nil {
				t.Errorf("outputs %s, inputs %s: %v, want them rejected: %v", test.outputs,
					test.inputs, err, test.rejected)
			}
		})
	}
}

// TestNodesOfOneBlockDeviceAreAliases creates nodes of block devices, but never opens them.
func TestNodesOfOneBlockDeviceAreAliases(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, number := range map[string]uint64{"a": unix.Mkdev(7, 200), "b": unix.Mkdev(7, 200),
		"other": unix.Mkdev(7, 201)} {
		if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(number)); err != nil {
			t.Skipf("only root can create a device node: %v", err)
		}
	}
	for _, test := range []struct {
		output, input string
		rejected      bool
	}{{"a", "a", true}, {"a", "b", true}, {"b", "./a", true}, {"a", "other", false},
		{"a", "/dev/null", false}} {
		t.Run(test.output+" and "+test.input, func(t *testing.T) {
			err := RejectAliases([]string{test.output}, test.input)
			if (hal.CodeOf(err) == hal.Usage) != test.rejected {
				t.Errorf("%+v: RejectAliases: %v, want them rejected: %v", test, err, test.rejected)
			}
			err = RejectAliases([]string{test.output, test.input})
			if (hal.CodeOf(err) == hal.Usage) != test.rejected {
				t.Errorf("%+v, both as outputs: RejectAliases: %v, want them rejected: %v", test,
					err, test.rejected)
			}
		})
	}
}

func TestReadLimitsSizeAndDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(syscall.Mkfifo(dir+"/pipe", 0o600),
		os.WriteFile(dir+"/f", []byte("12345"), 0o600),
		os.WriteFile(dir+"/empty", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		most int
		code hal.Code
		want string
	}{
		{"/f", 5, hal.OK, "12345"}, {"/f", 4, hal.Usage, "larger than the limit of 4 bytes"},
		{"/empty", 0, hal.OK, ""}, {"/none", 9, hal.NoFile, "no such file"},
		{"/pipe", 9, hal.IO, "without a writer"}, {"", 9, hal.IO, "is a directory"},
	} {
		t.Run(fmt.Sprintf("%s at most %d", test.path, test.most), func(t *testing.T) {
			got, err := Read(dir+test.path, test.most)
			if hal.CodeOf(err) != test.code || err == nil && string(got) != test.want ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read(%s, %d): %q, %v; want code %v and %q", test.path, test.most, got,
					err, test.code, test.want)
			}
		})
	}
	if _, err := Read("/dev/zero", 1<<40); hal.CodeOf(err) != hal.Usage {
		t.Errorf("Read of /dev/zero: %v, want code %v", err, hal.Usage)
	}
	if text, err := Read("/proc/self/status", 1<<20); err != nil ||
		!bytes.Contains(text, []byte("Threads:")) {
		t.Errorf("Read of /proc/self/status, which has no size: %q, %v; want its text", text, err)
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"größe":                    "größe",
		"a\nsafe: 0 faults\tb\r\n": `a\nsafe: 0 faults\tb\u000d\n`,
		"\u0085\u2029\xff\ufffd":   `\u0085\u2029\xff` + "\ufffd",
	} {
		t.Run(text, func(t *testing.T) {
			if got := OneLine(text); got != want {
				t.Errorf("OneLine(%q): %q, want %q", text, got, want)
			}
		})
	}
}

func TestEscapeControls(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"plain text\tof\ntwo lines": "plain text\tof\ntwo lines",
		"\x1b[2Jred":                `\u001b[2Jred`,
		"a\x00b\rc\x7f":             `a\u0000b\u000dc\u007f`,
		"\u009b31m ü € 𝄞":           `\u009b31m ü € 𝄞`,
		"\u0080\u009f\u00a0":        "\\u0080\\u009f\u00a0",
		"\u2028\u202e\u2066":        `\u2028\u202e\u2066`,
		"s\u200baf\U000e0020e":      `s\u200baf\udb40\udc20e`,
		"\x9b31m":                   `\x9b31m`,
		"ü\xc3":                     `ü\xc3`,
		"\xed\xa0\x80":              `\xed\xa0\x80`,
		"\ufffd":                    "\ufffd",
	} {
		t.Run(text, func(t *testing.T) {
			if got := string(EscapeControls([]byte(text))); got != want {
				t.Errorf("EscapeControls(%q): %q, want %q", text, got, want)
			}
		})
	}
}
