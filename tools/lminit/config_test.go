package main

import (
	"bufio"
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

func TestConfigurationsBecomeCommandLines(t *testing.T) {
	got, err := parseConfiguration("c",
		"# a machine\r\n\n  on-failure\trestart 3 reboot\non-success halt\n"+
			"module /vfio.ko a=1 b=2\nhugepages 016\n"+
			"bind vfio-pci 0000:01:00.0\nmount /dev/sda1 /data ext4 ro\nimage /a b.lmb\n"+
			"\tdevice  pci:1234:11e8\ninput x=/i=1\nseal\nimage b.lmb\nloop forever\n"+
			"deadline 20ms\n")
	want := configuration{
		preparations: []preparation{
			{"c:5", &machineDirectives[2], []string{"/vfio.ko", "a=1", "b=2"}},
			{"c:6", &machineDirectives[3], []string{"16"}},
			{"c:7", &machineDirectives[4], []string{"vfio-pci", "0000:01:00.0"}},
			{"c:8", &machineDirectives[5], []string{"/dev/sda1", "/data", "ext4", "ro"}},
		},
		replayArguments: [][]string{{"-device=pci:1234:11e8", "-input=x=/i=1", "-seal", "/a b.lmb"},
			{"-loop=forever", "-deadline=20ms", "b.lmb"}},
		onSuccess: restartPolicy{nil, "halt"}, onFailure: restartPolicy{restartSteps(3), "reboot"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parsed as %+v, %v\nwant %+v", got, err, want)
	}
	for _, line := range want.replayArguments {
		if _, err := args.Parse(line); err != nil {
			t.Errorf("lmrun does not accept the arguments %q: %v", line, err)
		}
	}
}

func TestConfigurationErrorsNameTheLine(t *testing.T) {
	const onFailure = "c:1: on-failure takes halt, poweroff, reboot"
	for text, want := range map[string]string{
		"":                       "c: no image",
		"on-success halt":        "c: no image",
		"seal":                   "c:1: seal is unknown, or must follow a line `image PATH`",
		"image":                  "c:1: image takes the path",
		"image -seal":            "c:1: image takes the path",
		"image x\n\nfrob 1":      "c:3: unknown flag -frob",
		"image x\nfrob":          "c:2: -frob is unknown or has no value",
		"image x\nseal yes":      "c:2: seal takes no value",
		"image x\nloop 0":        "c:2: -loop takes",
		"image x\nloop":          "c:2: -loop is unknown or has no value",
		"image x\ndeadline":      "c:2: -deadline is unknown or has no value",
		"image x\nhelp":          "c:2: help is allowed only on the command line of lminit",
		"image x\ncheck":         "c:2: check is allowed only on the command line of lminit",
		"image x\nsupervised":    "c:2: supervised is allowed only on the command line of lminit",
		"image x\nversion":       "c:2: version is allowed only on the command line of lminit",
		"image x\x00":            `c:1: image takes the path of an image, not "x\x00"`,
		"image x\ninput a=b\x00": "c:2: input takes a value without NUL bytes",
		"mount a b ext4 rw\nimage x": `c:1: mount takes SOURCE DIRECTORY TYPE [ro], ` +
			`not "a b ext4 rw"`,
		"image x\nconfig y":        "c:2: config is allowed only on the command line of lminit",
		"image x\non-failure halt": "c:2: on-failure must be before",
		"on-failure\nimage x": "c:1: on-failure takes halt, poweroff, reboot, " +
			"`restart forever`, or",
		"on-failure stop\nimage x":                    onFailure,
		"on-failure restart 3\nimage x":               onFailure,
		"on-failure halt 3 reboot\nimage x":           onFailure,
		"on-failure restart 0 reboot\nimage x":        onFailure,
		"on-failure restart 9999999999 halt\nimage x": onFailure,
		"on-failure restart 1 restart\nimage x":       onFailure,
		"hugepages many\nimage x":                     "c:1: hugepages takes a number",
		"bind vfio-pci\nimage x":                      `bind takes DRIVER ADDRESS, not "vfio-pci"`,
		"mount a b\nimage x":                          `[ro], not "a b"`,
		"module\nimage x":                             `module takes FILE [PARAMETER...], not ""`,
		"image x\nwindow \xff":                        "c:2: -window takes",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := parseConfiguration("c", text)
			if hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestLinesBeforeAnErrorApply(t *testing.T) {
	for text, want := range map[string]restartPolicy{
		"on-failure restart 2 reboot\nfrob\n": {restartSteps(2), "reboot"},
		"on-failure nonsense\n":               {nil, "poweroff"},
	} {
		t.Run(text, func(t *testing.T) {
			if c, _ := parseConfiguration("c", text); !reflect.DeepEqual(c.onFailure, want) {
				t.Errorf("on-failure is parsed as %+v, want %+v", c.onFailure, want)
			}
		})
	}
}

// TestExampleInTheManualIsValid parses the code blocks of CONFIGURATION.md as one configuration.
func TestExampleInTheManualIsValid(t *testing.T) {
	page, err := os.ReadFile("CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for i, part := range strings.Split(string(page), "```\n") {
		text += []string{"", part}[i%2]
	}
	if c, err := parseConfiguration("page", text); err != nil || len(c.preparations) < 5 ||
		len(c.replayArguments) != 1 || len(c.replayArguments[0]) < 8 {
		t.Errorf("parsed as %+v, %v; want at least 5 preparations and one replay with 8 "+
			"arguments; the text is\n%s", c, err, text)
	}
}

// FuzzConfiguration parses any text. An error must name the line, and lmrun must accept the
// arguments of an accepted configuration.
func FuzzConfiguration(f *testing.F) {
	f.Add("on-failure restart 3 reboot\nimage /a.lmb\ndevice pci:1234:11e8\nloop forever\nseal\n")
	f.Add("mount a b c\nhugepages 1\nimage x\ninput a=b\ndeadline 1\nwatchdog /dev/watchdog=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfiguration("c", text)
		if err != nil && (hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), "c:")) {
			t.Fatalf("error %v, want a usage error with the place c:", err)
		}
		for _, line := range c.replayArguments {
			if _, err := args.Parse(line); err != nil {
				t.Fatalf("%q is accepted, but lmrun does not accept its arguments %q: %v", text,
					line, err)
			}
		}
	})
}

func TestSplitConfigFlag(t *testing.T) {
	for line, want := range map[string]string{
		"x.lmb":               "|x.lmb",
		"-config c":           "c|",
		"--config=c -json":    "c|-json",
		"-json -config c -x":  "c|-json -x",
		"-config":             "|-config",
		"-config= x.lmb":      "|-config= x.lmb",
		"config c":            "|config c",
		"-output config=c":    "|-output config=c",
		"-configuration=1 -h": "|-configuration=1 -h",
	} {
		t.Run(line, func(t *testing.T) {
			path, rest := splitConfigFlag(strings.Fields(line))
			if got := path + "|" + strings.Join(rest, " "); got != want {
				t.Errorf("splitConfigFlag(%q): %q, want %q", line, got, want)
			}
		})
	}
}

// writeConfiguration writes a configuration next to a copy of an image, and returns its path.
func writeConfiguration(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(eduImage)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "edu.lmb"), data, 0o644)
	}
	path := filepath.Join(dir, "lmrun.conf")
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// imageID returns what identifies edu.lmb beside a configuration.
func imageID(t *testing.T, configuration string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(configuration), "edu.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	return fbs.ImageID(fbs.ReadStruct[fbs.Preamble](data).Checksum)
}

func TestImagesOfAConfigurationAreReplayedInOrder(t *testing.T) {
	path := writeConfiguration(t, "image edu.lmb\nimage edu.lmb\nsequence none\n")
	if _, stderr, exit := runLminit(t, "-check", "-config", path); exit != 64 ||
		!strings.Contains(stderr, "no sequence none") {
		t.Errorf("a missing sequence: exit %d, %q; want 64 and the name", exit, stderr)
	}
	path = writeConfiguration(t, "image edu.lmb\nimage edu.lmb\nsequence main\n")
	stdout, stderr, exit := runLminit(t, "-check", "-config", path)
	line := "lmrun: edu.lmb: the image is valid, checksum " + imageID(t, path) +
		"; nothing was replayed\n"
	if want := line + line; exit != 0 || stdout != want {
		t.Errorf("two images: exit %d, stdout %q, stderr %q; want 0 and %q", exit, stdout, stderr,
			want)
	}
	path = writeConfiguration(t, "image none.lmb\nimage edu.lmb\n")
	if stdout, stderr, exit = runLminit(t, "-check", "-config", path); exit != 66 || stdout != "" ||
		!strings.Contains(stderr, "none.lmb") {
		t.Errorf("first image missing: exit %d, stdout %q, stderr %q; want 66 and no check of the "+
			"second image", exit, stdout, stderr)
	}
}

func TestCheckPreparesNothing(t *testing.T) {
	path := writeConfiguration(t, "module /no/such.ko\nimage edu.lmb\n")
	if _, stderr, exit := runLminit(t, "-config", path, "-check"); exit != 0 {
		t.Errorf("-check: exit %d, want 0; %q", exit, stderr)
	}
	if _, stderr, exit := runLminit(t, "-config", path); exit != 66 ||
		!strings.Contains(stderr, path+":1: module /no/such.ko: ") {
		t.Errorf("without -check: exit %d, want 66 and the line of the module; %q", exit, stderr)
	}
}

// TestFailedPreparationReportsTheReason expects a message about the source of a mount, not about
// the directory that lminit has just created, and the reason of the kernel for a module that it
// rejects.
func TestFailedPreparationReportsTheReason(t *testing.T) {
	dir := t.TempDir() + "/at"
	path := writeConfiguration(t, "mount /no/device "+dir+" ext4\nimage edu.lmb\n")
	if _, stderr, exit := runLminit(t, "-config", path); exit == 0 ||
		!strings.Contains(stderr, ": /no/device on "+dir) {
		t.Errorf("mount of a missing device: exit %d, want a failure that names it; %q", exit,
			stderr)
	}
	path = writeConfiguration(t, "module edu.lmb\nimage edu.lmb\n")
	if _, stderr, exit := runLminit(t, "-config", path); exit != 70 ||
		!strings.Contains(stderr, ":1: module edu.lmb: the kernel rejects the module: ") {
		t.Errorf("module that is not one: exit %d, want 70 and the reason; %q", exit, stderr)
	}
}

// TestConfigurationPathMayBeginWithADash checks that such a path is not taken for a flag of lmrun.
func TestConfigurationPathMayBeginWithADash(t *testing.T) {
	t.Chdir(filepath.Dir(writeConfiguration(t, "image edu.lmb\n")))
	if err := os.Rename("lmrun.conf", "-c.conf"); err != nil {
		t.Fatal(err)
	}
	if _, stderr, exit := runLminit(t, "-check", "-config=-c.conf"); exit != 0 {
		t.Errorf("-config=-c.conf: exit %d, want 0; %q", exit, stderr)
	}
}

// TestCommandLineErrorIsNotRestarted checks that lminit does not restart after an error that would
// occur again.
func TestCommandLineErrorIsNotRestarted(t *testing.T) {
	path := writeConfiguration(t, "on-failure restart 1 halt\nimage edu.lmb\n")
	for _, more := range []string{"-frobnicate=1", "-loop=0", "edu.lmb"} {
		if _, stderr, exit := runLminit(t, "-config", path, more); exit != 64 ||
			strings.Contains(stderr, "restart") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("argument %s: exit %d, want 64, one line and no restart; %s", more, exit,
				stderr)
		}
	}
}

func TestReplayIsRestartedAsOftenAsConfigured(t *testing.T) {
	path := writeConfiguration(t, "on-failure restart 2 reboot\nimage none.lmb\n")
	_, stderr, exit := runLminit(t, "-config", path)
	if exit != 66 || strings.Count(stderr, "lmrun: no such file") != 3 ||
		strings.Count(stderr, "restarting after exit status 66") != 2 {
		t.Errorf("exit %d, want 66 after 3 replays and 2 restarts; %q", exit, stderr)
	}
}

// TestFailedImageIsLogged uses an lmrun that reports its stop time and the checksum of its image.
func TestFailedImageIsLogged(t *testing.T) {
	path := writeConfiguration(t, "image edu.lmb\n")
	for exit, want := range map[string]int{"76": 1, "0": 0} {
		script := "printf '1\\n0x01234567\\n' >&3; exit " + exit
		out, _ := lminitWithScript(t, script, "-config", path).CombinedOutput()
		line := "lminit: image 0x01234567 ended with exit status " + exit + "\n"
		if n := strings.Count(string(out), line); n != want {
			t.Errorf("exit status %s: %q; want %q %d times", exit, out, line, want)
		}
	}
}

// TestPermanentFailureIsNotRestarted covers usage errors, missing permissions, and images that the
// replay rejects. Input data of the wrong size can be correct the next time. lminit must rely on
// what the replay reports through descriptor 3, and must not read the image afterwards.
func TestPermanentFailureIsNotRestarted(t *testing.T) {
	for _, test := range []struct {
		restarts     int
		script, text string
	}{
		{0, "exit 64", "image edu.lmb\n"}, {0, "exit 77", "image edu.lmb\n"},
		{0, "echo 1 >&3; exit 77", "image edu.lmb\n"},
		{0, "exit 65", "image edu.lmb\n"}, {0, "echo x >&3; exit 65", "image edu.lmb\n"},
		{2, "echo 1 >&3; exit 65", "image edu.lmb\n"},
		{2, "echo 1 >&3; exit 65", "image lmrun.conf\n"},
		{0, "[ -e first ] && exit 65; >first; echo 1 >&3", "image edu.lmb\nimage edu.lmb\n"},
		{2, "exit 66", "image none.lmb\n"}, {2, "exit 69", "image edu.lmb\n"},
		{2, "exit 75", "image lmrun.conf\n"},
	} {
		path := writeConfiguration(t, "on-failure restart 2 halt\n"+test.text)
		out, _ := lminitWithScript(t, test.script, "-config", path).CombinedOutput()
		if n := strings.Count(string(out), "restarting after exit status"); n != test.restarts {
			t.Errorf("script %q, configuration %q: %d restarts, want %d: %s", test.script,
				test.text, n, test.restarts, out)
		}
	}
	for lines, want := range map[string]int{
		"image edu.lmb\nsequence none\n": 64, "image edu.lmb\nlongest 1us\n": 65,
		"image lmrun.conf\n": 65,
	} {
		path := writeConfiguration(t, "on-failure restart 2 halt\n"+lines)
		_, stderr, exit := runLminit(t, "-config", path)
		if exit != want || strings.Contains(stderr, "restarting after") {
			t.Errorf("%s: exit %d, want %d and no restart; %s", lines, exit, want, stderr)
		}
	}
}

// TestCheckIsNotRestarted runs -check with restarts in the configuration, with success and with a
// failure.
func TestCheckIsNotRestarted(t *testing.T) {
	for head, want := range map[string]int{"on-success restart forever\nimage edu.lmb\n": 0,
		"on-failure restart 2 reboot\nimage none.lmb\n": 66} {
		stdout, stderr, exit := runLminit(t, "-config", writeConfiguration(t, head), "-check")
		if exit != want || strings.Contains(stderr, "restarting after") ||
			strings.Count(stdout, "the image is valid") > 1 {
			t.Errorf("configuration %q: exit %d, want %d and no restart; stdout %q, stderr %q",
				head, exit, want, stdout, stderr)
		}
	}
}

// TestDiskThatHangsDoesNotPreventTheReboot replaces sync(2) by a function that returns never, or
// at once.
func TestDiskThatHangsDoesNotPreventTheReboot(t *testing.T) {
	started, hang := make(chan bool, 1), make(chan struct{})
	defer close(hang)
	defer func(old func()) { syncDisks = old }(syncDisks)
	syncDisks = func() {
		started <- true
		<-hang
	}
	mounts := []preparation{{"c:1", &machineDirectives[5], []string{"none", "/no/dir", "tmpfs"}}}
	if flushFileSystems(mounts, time.Millisecond) {
		t.Error("the sync that hangs has ended")
	}
	<-started
	syncDisks = func() {}
	if !flushFileSystems(mounts, time.Hour) {
		t.Error("the sync that returns at once has not ended")
	}
}

// TestHugepagesOfTheSizeThatLmrunUses has a kernel whose pages have 16 KiB: its default huge pages
// have 32 MiB. A longer text, of which lminit replaces the first digits, stands for a kernel that
// reserves another number.
func TestHugepagesOfTheSizeThatLmrunUses(t *testing.T) {
	old := sysfsPath
	defer func() { sysfsPath = old }()
	sysfsPath = t.TempDir()
	const text = "hugepages 16\nimage x\n"
	c, err := parseConfiguration("c", text)
	if err != nil {
		t.Fatal(err)
	}
	p := c.preparations[0]
	if err := p.execute(); hal.CodeOf(err) != hal.NoFile ||
		!strings.Contains(err.Error(), "the kernel has no huge pages of 2 MiB; build it with") {
		t.Errorf("no such pages: %v, want that the kernel has none", err)
	}
	folder := sysfsPath + "/kernel/mm/hugepages/"
	for content, want := range map[string]string{"0": "", "512\n": "memory for only 162 huge " +
		"pages of 2 MiB; reserve them before fragmentation: move this line up, or boot Linux " +
		"with `hugepagesz=2M hugepages=16`"} {
		for _, size := range []string{"2048kB", "32768kB"} {
			if err = os.MkdirAll(folder+"hugepages-"+size, 0o755); err == nil {
				err = os.WriteFile(folder+"hugepages-"+size+"/nr_hugepages", []byte(content), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		err := p.execute()
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("the file has %q at first: %v, want %q", content, err, want)
		}
		other, err := os.ReadFile(folder + "hugepages-32768kB/nr_hugepages")
		if err != nil || string(other) != content {
			t.Errorf("number of pages of 32 MiB: %q, %v; want %q as before", other, err, content)
		}
	}
}

// TestReplayEnvironmentOmitsGoVariables expects GOMAXPROCS=1 and no other variable of Go's
// runtime, because some of them would kill a sealed replay.
func TestReplayEnvironmentOmitsGoVariables(t *testing.T) {
	const script = "echo $GOMAXPROCS $GOMEMLIMIT $GOGC $GODEBUG $GOTRACEBACK $KEPT\n"
	c := lminitWithScript(t, script, "-config", writeConfiguration(t, "image edu.lmb\n"))
	c.Env = append(os.Environ(), "GOMAXPROCS=8", "GOMEMLIMIT=1MiB", "GOGC=1",
		"GODEBUG=harddecommit=1", "GOTRACEBACK=crash", "KEPT=yes")
	if out, err := c.Output(); err != nil || string(out) != "1 yes\n" {
		t.Errorf("the replay has the variables %q, %v; want %q", out, err, "1 yes\n")
	}
}

// TestReplaysAreStartedByTheMainThread replays many times, because Go starts goroutines on any
// thread. The kernel kills a replay when the thread that has started it ends, and only the main
// thread lives as long as the process.
func TestReplaysAreStartedByTheMainThread(t *testing.T) {
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
		t.Skip("the kernel does not list the children of a thread:", err)
	}
	const replays = 100
	path := writeConfiguration(t, strings.Repeat("image edu.lmb\n", replays))
	const script = "read children </proc/$PPID/task/$PPID/children; echo $children of $$\n"
	out, err := lminitWithScript(t, script, "-config", path).Output()
	lines := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(out)), " of ", "="))
	if err != nil || len(lines) != replays {
		t.Fatalf("the replays printed %d lines, want %d; %v", len(lines), replays, err)
	}
	for i, line := range lines {
		if child, pid, _ := strings.Cut(line, "="); child != pid {
			t.Fatalf("replay %d is process %s, but the main thread has the child %q", i, pid, child)
		}
	}
}

// TestFailedWaitIsAnInternalError waits for a child process although this process has none.
func TestFailedWaitIsAnInternalError(t *testing.T) {
	results := make(chan waitResult, 1)
	reapChildren(1<<30, results)
	s := supervisor{}
	if exit := s.exitStatus(<-results); exit != hal.Internal.ExitStatus() {
		t.Errorf("exit status %d, want %d", exit, hal.Internal.ExitStatus())
	}
}

// TestModuleThatIsAPipeIsAnError checks that lminit does not wait for a process that writes to the
// pipe.
func TestModuleThatIsAPipeIsAnError(t *testing.T) {
	path := writeConfiguration(t, "module pipe\nimage edu.lmb\n")
	if err := syscall.Mkfifo(filepath.Join(filepath.Dir(path), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = ":1: module pipe: the kernel rejects the module: "
	if _, stderr, exit := runLminit(t, "-config", path); exit != 70 ||
		!strings.Contains(stderr, want) {
		t.Errorf("exit %d, want 70 and %q; %s", exit, want, stderr)
	}
}

// TestReplayDiesWithItsSupervisor kills the supervisor. The replay, which would keep the device
// busy, must end as well. The replay is a shell script that waits for a line of input and would
// then print a text.
func TestReplayDiesWithItsSupervisor(t *testing.T) {
	path := writeConfiguration(t, "image edu.lmb\n")
	word := filepath.Join(filepath.Dir(path), "word")
	if err := syscall.Mkfifo(word, 0o600); err != nil {
		t.Fatal(err)
	}
	c := lminitWithScript(t, "echo begun; read x <word; echo alive\n", "-config", path)
	lines := startReplay(t, c)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(word, os.O_RDWR, 0)
	if err == nil {
		defer fifo.Close()
		_, err = fifo.WriteString("word\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("the replay still runs after its supervisor died: it printed %q", lines.Text())
	}
}

// TestSignalEndsASupervisor sends the signal after the supervisor has printed its first restart.
// The signal arrives before the next replay, or during it. In the first case the exit status is
// that of the last replay. In the second case the replay waits until it is ended.
func TestSignalEndsASupervisor(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		path := writeConfiguration(t, "on-failure restart forever\nimage edu.lmb\n")
		if err := syscall.Mkfifo(filepath.Join(filepath.Dir(path), "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		const script = "[ ! -e second ] || exec cat pipe\n>second\nexit 66\n"
		c := lminitWithScript(t, script, "-config", path)
		stderr := signalAtRestart(t, c, signal)
		if exit := c.ProcessState.ExitCode(); exit != 66 && exit != 0 ||
			strings.Count(stderr, "restarting after exit status 66") != 1 {
			t.Errorf("%v: exit %d, stderr %q; want exit 66 or 0 and one restart", signal, exit,
				stderr)
		}
	}
}

// lminitWithScript returns a command that runs lminit with a shell script instead of lmrun. The
// command is not started.
func lminitWithScript(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	if err := os.Link(filepath.Join(programs, "lminit"), filepath.Join(dir, "lminit")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lmrun"), []byte("#!/bin/sh\n"+script),
		0o755); err != nil {
		t.Fatal(err)
	}
	return exec.Command(filepath.Join(dir, "lminit"), args...)
}

// TestImagesWithAKeyAreReplayedByTheSignedProgram: lmrun-signed starts only for images with a key,
// and only if it is there.
func TestImagesWithAKeyAreReplayedByTheSignedProgram(t *testing.T) {
	path := writeConfiguration(t, "image edu.lmb\nimage edu.lmb\nkey keys.pub\n")
	for want, signedProgram := range map[string]bool{
		"plain\nsigned\n": true,
		"plain\nplain\n":  false,
	} {
		c := lminitWithScript(t, "echo plain\n", "-config", path)
		if signedProgram {
			program := filepath.Join(filepath.Dir(c.Path), "lmrun-signed")
			if err := os.WriteFile(program, []byte("#!/bin/sh\necho signed\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if stdout, err := c.Output(); err != nil || string(stdout) != want {
			t.Errorf("output %q, error %v; want %q", stdout, err, want)
		}
	}
}

// startReplay starts a command of lminit, and waits until its replay prints "begun". It returns the
// further lines.
func startReplay(t *testing.T, c *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "begun" {
		t.Fatalf("the replay printed %q, %v; want %q", lines.Text(), lines.Err(), "begun")
	}
	return lines
}

// signalAtRestart runs a command, and sends a signal to it each time it prints that it restarts.
func signalAtRestart(t *testing.T, c *exec.Cmd, signal syscall.Signal) (stderr string) {
	t.Helper()
	pipe, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		stderr += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "restarting after") {
			_ = c.Process.Signal(signal)
		}
	}
	_ = c.Wait()
	return stderr
}

// programs is a directory with lminit and lmrun.
var programs string

func TestMain(m *testing.M) { os.Exit(runWithPrograms(m)) }

// runWithPrograms builds lminit and lmrun, and runs the tests.
func runWithPrograms(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "lminit-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programs)
	if out, err := exec.Command("go", "build", "-o", programs, "lightmetal/tools/lminit",
		"lightmetal/tools/lmrun").CombinedOutput(); err != nil {
		panic(err.Error() + string(out))
	}
	return m.Run()
}

const eduImage = "../../testdata/images/edu.lmb"

// runLminit runs the program as a process of its own.
func runLminit(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	c := exec.Command(filepath.Join(programs, "lminit"), args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func TestLineWithoutValueIsRejected(t *testing.T) {
	for _, name := range []string{"device", "sequence", "before", "after", "input", "output",
		"loop", "deadline", "watchdog", "window", "key", "longest", "at-least"} {
		if _, err := parseConfiguration("c", "image x\n"+name+"\n"); hal.CodeOf(err) != hal.Usage ||
			!strings.Contains(err.Error(), "c:2: -"+name+" is unknown or has no value") {
			t.Errorf("line %s: %v, want a usage error of line 2", name, err)
		}
	}
	for _, line := range [][]string{{}, {"-config", ""}, {"-config=", eduImage},
		{"-config", "", eduImage}, {eduImage}} {
		if _, stderr, exit := runLminit(t, line...); exit != 64 ||
			!strings.Contains(stderr, "no -config given") {
			t.Errorf("lminit %q: exit %d, want 64; %s", line, exit, stderr)
		}
	}
	if stdout, _, exit := runLminit(t, "-help"); exit != 0 || stdout != usage {
		t.Errorf("-help: exit %d, stdout %q; want 0 and the usage", exit, stdout)
	}
	if stdout, stderr, exit := runLminit(t, "-version"); exit != 0 || stdout != version+"\n" ||
		stderr != "" {
		t.Errorf("-version: exit %d, stdout %q, stderr %q; want 0 and %q", exit, stdout, stderr,
			version+"\n")
	}
}

// TestKillDelayIncludesTheReportedTime also checks the largest time, and that an invalid report
// leaves only killGraceTime.
func TestKillDelayIncludesTheReportedTime(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for text, want := range map[string]time.Duration{
		"5000000\n": killGraceTime + 5*time.Second, "0\n": killGraceTime,
		"": killGraceTime, "\n": killGraceTime, "5": killGraceTime, "-1\n": killGraceTime,
		"1e3\n":                  killGraceTime,
		"5000000\n0x01234567\n":  killGraceTime + 5*time.Second,
		"18446744073709551616\n": killGraceTime,
		"18446744073709551615\n": most / 1000 * 1000, "13835058055282163\n": most / 1000 * 1000,
	} {
		t.Run(text, func(t *testing.T) {
			var pipe [2]int
			if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
				t.Fatal(err)
			}
			_, err := unix.Write(pipe[1], []byte(text))
			if delay := killDelay(pipe[0]); err != nil || delay/1000*1000 != want {
				t.Errorf("report %q: kill delay %v, %v; want %v", text, delay, err, want)
			}
			unix.Close(pipe[1])
			unix.Close(pipe[0])
		})
	}
}

// TestHungReplayIsKilledAfterItsImageChanged uses an image file that can take 115 days. The replay
// has reported nothing, or 1 us, as for another image. The time of the file must not delay SIGKILL.
func TestHungReplayIsKilledAfterItsImageChanged(t *testing.T) {
	slow := "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0x0 size 1MiB\n" +
		"main:\n" + strings.Repeat("  call pause\n", 1000) +
		"pause:\n  write.4 r+0x4 0x1\n" + strings.Repeat("  delay 10s\n", 1000)
	data := lmbtest.File(t, slow)
	for _, report := range []string{"", "echo 1 >&3; "} {
		path := writeConfiguration(t, "image edu.lmb\n")
		err := os.WriteFile(filepath.Join(filepath.Dir(path), "edu.lmb"), data, 0o600)
		if err == nil {
			err = syscall.Mkfifo(filepath.Join(filepath.Dir(path), "never"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		script := "trap '' TERM; " + report + "echo begun; read x <never\n"
		template := lminitWithScript(t, script, "-config", path)
		c := exec.CommandContext(ctx, template.Path, template.Args[1:]...)
		var errs bytes.Buffer
		c.Stderr = &errs
		startReplay(t, c)
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 70 || !strings.Contains(errs.String(), "SIGKILL") {
			t.Errorf("report %q: %v, %s; want exit status 70 after SIGKILL", report, c.ProcessState,
				errs.String())
		}
	}
}

// restartSteps returns the steps of `restart N`.
func restartSteps(count int) []recoveryStep {
	return []recoveryStep{{&stepTypes[0], count, stepTypes[0].defaultPause}}
}
