package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/hal"
)

func TestStepsHaveCountsAndWaits(t *testing.T) {
	const text = "on-failure restart 2, reset function 1  wait 2s,reset bus 4,\trescan 3 , " +
		"power-cycle 1 wait 30s, restart 1 wait 5ms, halt\nimage x\ndevice pci:0000:01:00.0\n"
	c, err := parseConfiguration("c", text)
	want := restartPolicy{[]recoveryStep{
		{&stepTypes[0], 2, stepTypes[0].defaultPause}, {&stepTypes[1], 1, 2 * time.Second},
		{&stepTypes[2], 4, time.Second}, {&stepTypes[3], 3, time.Second},
		{&stepTypes[4], 1, 30 * time.Second}, {&stepTypes[0], 1, 5 * time.Millisecond},
	}, "halt"}
	if err != nil || !reflect.DeepEqual(c.onFailure, want) {
		t.Errorf("on-failure is parsed as %+v, %v; want %+v", c.onFailure, err, want)
	}
}

func TestMistakesInStepsAreErrors(t *testing.T) {
	for _, steps := range []string{
		"2, reboot", "7 wait 3s, halt", "restart", "restart, reboot", "rescan forever, halt",
		"restart forever, rescan 1, halt", "restart forever wait 0s, halt", "restart -1, halt",
		"restart 2, reset function 1", "restart 2, hammer 1, halt", "reset 2, halt",
		"rescans 1, halt", "rescan, halt", "rescan 0, halt", "rescan x, halt", "rescan -1, halt",
		"rescan 9999999999, halt", "rescan 1 2, halt", "rescan 1 wait, halt",
		"rescan 1 wait 0s, halt", "rescan 1 wait 5, halt", "rescan 1 wait 1s 2, halt",
		"rescan wait 1s, halt", "reboot, rescan 1", "rescan 1,, halt", "rescan 1, halt,", ", halt",
	} {
		_, err := parseConfiguration("c", "on-failure "+steps+"\nimage x\ndevice pci:1:2\n")
		const want = "c:1: on-failure takes halt, poweroff, reboot, `restart forever`, or steps " +
			"such as `restart 2, "
		if hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("on-failure %s: %v, want %q", steps, err, want)
		}
	}
	const rescan = " rescan 1, halt\nimage x\n"
	for text, want := range map[string]string{
		"on-success 2, reboot\nimage x": "c:1: on-success takes halt, poweroff, reboot",
		"on-success" + rescan:           "c:1: on-success takes halt, poweroff",
		"on-success restart\nimage x\n": "c:1: on-success takes halt, poweroff, reboot, " +
			"`restart forever`, or `restart N` and then halt",
		"on-failure" + rescan: "c: on-failure has steps for devices, so image x",
		"on-failure" + rescan + "device pci:0000:01:00.0\nimage z": "so image z needs",
		"on-failure" + rescan + "device pci:1e52:401e":             "so image x needs",
	} {
		_, err := parseConfiguration("c", text)
		if hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("configuration %q: %v, want %q", text, err, want)
		}
	}
}

// fakeBus is a directory that replaces /sys/bus/pci. It has the files that steps write.
type fakeBus struct {
	*testing.T
	root string
}

// newFakeBus creates a bus with the PCI function 0000:01:00.0 below a bridge, and another function.
// As in sysfs, the entries of the directory `devices` are links.
func newFakeBus(t *testing.T) fakeBus {
	t.Helper()
	old := sysfsPath
	t.Cleanup(func() { sysfsPath = old })
	sysfsPath = t.TempDir()
	b := fakeBus{t, pciBusPath()}
	for _, path := range []string{"0000:00:01.0", "0000:00:01.0/0000:01:00.0", "0000:00:02.0"} {
		b.addFunction("tree/" + path)
	}
	b.write("rescan", "")
	node := sysfsPath + "/class/tenstorrent/tenstorrent!5"
	err := os.MkdirAll(node, 0o755)
	if err == nil {
		err = os.Symlink("../../../bus/pci/tree/0000:00:01.0/0000:01:00.0", node+"/device")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b fakeBus) addFunction(path string) {
	b.Helper()
	for _, name := range []string{"reset", "reset_method", "remove", "driver_override"} {
		b.write(path+"/"+name, "")
	}
	err := os.MkdirAll(b.root+"/devices", 0o755)
	if err == nil {
		err = os.Symlink("../"+path, b.root+"/devices/"+filepath.Base(path))
	}
	if err != nil {
		b.Fatal(err)
	}
}

// bind binds the function 0000:01:00.0 to a driver.
func (b fakeBus) bind(driver string) {
	b.Helper()
	b.write("drivers/"+driver+"/bind", "")
	b.write("drivers/"+driver+"/unbind", "") // a kernel unbinds a function that it removes
	if err := os.Symlink("../../../drivers/"+driver,
		b.root+"/devices/0000:01:00.0/driver"); err != nil {
		b.Fatal(err)
	}
}

func (b fakeBus) write(name, text string) {
	b.Helper()
	path := b.root + "/" + name
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// remove removes a file, as if the kernel did not have it.
func (b fakeBus) remove(name string) {
	b.Helper()
	if err := os.Remove(b.root + "/" + name); err != nil {
		b.Fatal(err)
	}
}

// writtenFiles returns the files that steps have written, in the form NAME=TEXT. It omits texts
// that end with a newline, because these are texts of the kernel.
func (b fakeBus) writtenFiles() (files []string) {
	err := filepath.WalkDir(b.root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
			files = append(files, strings.TrimPrefix(path, b.root+"/")+"="+string(text))
		}
		return err
	})
	if err != nil {
		b.Error(err)
	}
	return files
}

func TestStepsWriteToTheFilesOfSysfs(t *testing.T) {
	const bridge = "tree/0000:00:01.0/"
	const function = bridge + "0000:01:00.0/"
	none := func(fakeBus) {}
	for name, test := range map[string]struct {
		prepare func(fakeBus)
		step    *stepType
		want    []string
	}{
		"function": {none, &stepTypes[1], []string{function + "reset=1"}},
		"bus": {
			func(b fakeBus) { b.write(bridge+"reset_subordinate", "") }, &stepTypes[2],
			[]string{bridge + "reset_subordinate=1"},
		},
		"bus before Linux 6.13": {
			none, &stepTypes[2],
			[]string{function + "reset=1", function + "reset_method=default"},
		},
		"rescan": {none, &stepTypes[3], []string{"rescan=1", function + "remove=1"}},
		"rescan with a driver": {
			func(b fakeBus) { b.bind("vfio-pci") }, &stepTypes[3],
			[]string{"drivers/vfio-pci/bind=0000:01:00.0",
				"drivers/vfio-pci/unbind=0000:01:00.0", "rescan=1",
				function + "driver_override=vfio-pci", function + "remove=1"},
		},
		"power-cycle": {
			func(b fakeBus) {
				b.write("slots/3/address", "0000:02:00\n")
				b.write("slots/3/power", "")
				b.write("slots/7-1/address", "0000:01:00\n")
				b.write("slots/7-1/power", "")
			}, &stepTypes[4], []string{"slots/7-1/power=1"},
		},
	} {
		for _, device := range []string{"pci:0000:01:00.0", "vfio:0000:01:00.0",
			"tt:/dev/tenstorrent/5"} {
			if name == "function" && strings.HasPrefix(device, "tt:") {
				continue // this reset uses the driver of the device
			}
			t.Run(name+" "+device, func(t *testing.T) {
				b := newFakeBus(t)
				test.prepare(b)
				if err := test.step.performOn(device); err != nil {
					t.Fatal(err)
				}
				want := slices.Clone(test.want)
				slices.Sort(want)
				got := b.writtenFiles()
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("files written: %q, want %q", got, want)
				}
			})
		}
	}
}

// TestStepsThatTheMachineDoesNotHaveAreErrors names the file or the device that is missing.
func TestStepsThatTheMachineDoesNotHaveAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		step   *stepType
		device string
		code   hal.Code
		want   string
	}{
		"no reset":    {&stepTypes[1], "pci:0000:01:00.0", hal.NoFile, "0000:01:00.0/reset"},
		"no method":   {&stepTypes[2], "pci:0000:01:00.0", hal.NoFile, "00.0/reset_method"},
		"no device":   {&stepTypes[1], "pci:0000:09:00.0", hal.NoFile, "0000:09:00.0/reset"},
		"no slot":     {&stepTypes[4], "pci:0000:01:00.0", hal.NoDevice, "no slot for 0000:01"},
		"no function": {&stepTypes[4], "tt:/dev/tenstorrent/6", hal.NoDevice, "has no tt:"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBus(t)
			b.remove("devices/0000:01:00.0/reset")
			b.remove("devices/0000:01:00.0/reset_method")
			err := test.step.performOn(test.device)
			if hal.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("step on %s: %v, want %v with %q", test.device, err, test.code, test.want)
			}
			if got := b.writtenFiles(); len(got) > 0 {
				t.Errorf("files written: %q, want none", got)
			}
		})
	}
}

// TestDriverThatTheKernelLacksIsNamed binds the function to a driver whose module was not loaded.
// The function keeps its driver.
func TestDriverThatTheKernelLacksIsNamed(t *testing.T) {
	b := newFakeBus(t)
	b.bind("nvme")
	err := bindDriver([]string{"vfio-pci", "0000:01:00.0"})
	if hal.CodeOf(err) != hal.NoFile ||
		!strings.Contains(err.Error(), "the kernel has no driver vfio-pci; load its module") {
		t.Errorf("bindDriver: %v, want that the driver is missing", err)
	}
	if got := b.writtenFiles(); len(got) > 0 {
		t.Errorf("files written: %q, want none", got)
	}
}

// TestVFIOWithoutAnIOMMUIsExplained binds the function to vfio-pci, which fails. Without an IOMMU
// group, the error names the missing IOMMU.
func TestVFIOWithoutAnIOMMUIsExplained(t *testing.T) {
	b := newFakeBus(t)
	b.write("drivers/vfio-pci/new_id", "") // the file bind is missing
	err := bindDriver([]string{"vfio-pci", "0000:01:00.0"})
	if hal.CodeOf(err) != hal.NoDevice ||
		!strings.Contains(err.Error(), "no IOMMU is on for this PCI function") ||
		!strings.Contains(err.Error(), "`pci:0000:01:00.0`") {
		t.Errorf("bindDriver without an IOMMU group: %v, want that no IOMMU is on", err)
	}
	b.write("devices/0000:01:00.0/iommu_group", "")
	err = bindDriver([]string{"vfio-pci", "0000:01:00.0"})
	if hal.CodeOf(err) != hal.NoFile || strings.Contains(err.Error(), "no IOMMU") {
		t.Errorf("bindDriver with an IOMMU group: %v, want that the file bind is missing", err)
	}
}

// TestDriverIsBoundWhenTheFunctionIsBack removes the function and adds it again later, or never.
func TestDriverIsBoundWhenTheFunctionIsBack(t *testing.T) {
	old := reappearTimeout
	defer func() { reappearTimeout = old }()
	for _, isBack := range []bool{true, false} {
		b := newFakeBus(t)
		b.bind("vfio-pci")
		link := b.root + "/devices/0000:01:00.0"
		target, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		added := make(chan error, 1)
		k := stepType{perform: func(_, _ string) error {
			b.remove("devices/0000:01:00.0")
			if isBack {
				go func() { added <- os.Symlink(target, link) }()
			}
			return nil
		}}
		if reappearTimeout = time.Millisecond; isBack {
			reappearTimeout = time.Hour
		}
		err = k.performOn("vfio:0000:01:00.0")
		if isBack && (err != nil || <-added != nil) || !isBack && hal.CodeOf(err) != hal.NoDevice {
			t.Errorf("step on a function that is added again: %v: %v", isBack, err)
		}
	}
}

// stepsTaken returns the steps that a policy takes after failures with the given exit statuses,
// until none is left. Steps whose names are in `failing` fail.
func stepsTaken(t *testing.T, text, failing string, exits ...int) string {
	t.Helper()
	return stepsTakenFor(t, text, failing, []string{"pci:0000:01:00.0"}, exits...)
}

// stepsTakenFor does the same for failures of the given devices.
func stepsTakenFor(t *testing.T, text, failing string, devices []string, exits ...int) string {
	t.Helper()
	c, err := parseConfiguration("c", "on-failure "+text+"\nimage x\ndevice pci:0000:01:00.0\n")
	if err != nil {
		t.Fatal(err)
	}
	taken := ""
	for i := range c.onFailure.steps {
		kind := *c.onFailure.steps[i].kind
		c.onFailure.steps[i].kind, c.onFailure.steps[i].pause = &kind, 1
		if perform := kind.perform; perform != nil {
			kind.perform = func(_, _ string) error {
				taken += kind.name + " "
				if strings.Contains(failing, kind.name) {
					return hal.NewFault(hal.NoFile, kind.name)
				}
				return nil
			}
		}
	}
	s := supervisor{configuration: c, usedDevices: devices}
	for _, exit := range exits {
		before := taken
		switch {
		case !s.takeNextStep(&s.onFailure, exit):
			taken += "end "
		case taken == before:
			taken += "restart "
		}
	}
	return strings.TrimSpace(taken)
}

func TestStepsAreTakenInTheirOrderAsOftenAsTheirCounts(t *testing.T) {
	const ladder = "restart 2, reset function 1, reset bus 1, rescan 2, power-cycle 1, reboot"
	for name, test := range map[string]struct {
		ladder, failing, want string
		exits                 []int
	}{
		"a device that is gone": {ladder, "",
			"restart restart reset function reset bus rescan rescan power-cycle end",
			[]int{71, 71, 71, 71, 71, 71, 71, 71}},
		"absent after a step": {ladder, "",
			"restart restart reset function reset bus rescan rescan power-cycle end",
			[]int{75, 75, 71, 69, 69, 69, 69, 69}},
		"no failure of the device": {ladder, "", "restart restart end end end end",
			[]int{66, 70, 74, 66, 78, 65}},
		"of the device later": {ladder, "", "restart restart end reset function end reset bus",
			[]int{74, 76, 74, 71, 74, 76}},
		"a step that fails is dropped": {ladder, "reset bus rescan",
			"restart restart reset function reset bus rescan power-cycle end",
			[]int{71, 71, 71, 71, 71}},
		"restart without end": {"rescan 1, restart forever, halt", "",
			"restart rescan restart restart", []int{66, 71, 75, 66}},
		"restart after a step": {"rescan 1, restart 1, halt", "", "rescan restart end",
			[]int{71, 71, 71}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stepsTaken(t, test.ladder, test.failing, test.exits...); got != test.want {
				t.Errorf("steps taken: %s\nwant: %s", got, test.want)
			}
		})
	}
}

func TestRestartForeverHasNoLastRestart(t *testing.T) {
	for _, text := range []string{"restart forever", "restart forever wait 1ms, halt",
		"restart forever reboot"} {
		c, err := parseConfiguration("c", "on-success "+text+"\nimage x\n")
		if err != nil {
			t.Fatal(err)
		}
		s := supervisor{configuration: c}
		before := s.onSuccess.steps[0]
		if !s.takeNextStep(&s.onSuccess, 0) || s.onSuccess.steps[0].triesLeft != before.triesLeft {
			t.Errorf("on-success %s: %d tries left after a restart, want %d as before", text,
				s.onSuccess.steps[0].triesLeft, before.triesLeft)
		}
	}
}

// TestFailedPreparationResetsOnlyItsOwnDevice lets the first attempt end with a replay on device b,
// and the preparation of the next attempt fail.
func TestFailedPreparationResetsOnlyItsOwnDevice(t *testing.T) {
	const a, b = "0000:00:01.0", "0000:01:00.0"
	const removesB = "tree/0000:00:01.0/0000:01:00.0/remove=1"
	rescan := []string{"rescan=1"}
	mountExit := 66
	if os.Geteuid() != 0 {
		mountExit = 77
	}
	for name, test := range map[string]struct {
		line, absent string
		exit         int
		taken        bool
		written      []string
	}{
		"device a is gone":        {"bind vfio-pci " + a, a, 69, true, rescan},
		"device b is gone":        {"bind vfio-pci " + b, b, 69, true, rescan},
		"device b has no IOMMU":   {"bind vfio-pci " + b, "", 69, true, append(rescan, removesB)},
		"a device of no image":    {"bind vfio-pci 0000:09:00.0", "", 69, true, rescan},
		"a mount fails":           {"mount /dev/none /none ext4", "", mountExit, false, nil},
		"the driver is not there": {"bind uio " + a, "", 66, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bus := newFakeBus(t)
			bus.write("drivers/vfio-pci/new_id", "") // the file bind is missing
			if test.absent != "" {
				bus.remove("devices/" + test.absent)
			}
			c, err := parseConfiguration("c", "on-failure rescan 1 wait 1ms, halt\n"+test.line+
				"\nimage a.lmb\ndevice vfio:"+a+"\nimage b.lmb\ndevice vfio:"+b+"\n")
			if err != nil {
				t.Fatal(err)
			}
			s := supervisor{configuration: c, usedDevices: []string{"vfio:" + b}}
			exit := s.runImagesOnce()
			for _, function := range []string{a, b} { // bindDriver has written to it
				_ = os.Truncate(bus.root+"/devices/"+function+"/driver_override", 0)
			}
			taken := s.takeNextStep(&s.onFailure, exit)
			if exit != test.exit || taken != test.taken {
				t.Errorf("exit status %d, step taken: %v; want %d, %v", exit, taken, test.exit,
					test.taken)
			}
			if got := bus.writtenFiles(); !slices.Equal(got, test.written) {
				t.Errorf("files written: %q, want %q", got, test.written)
			}
		})
	}
}

// TestDeviceStepsNeedADevice fails a preparation that is for no device with a failure of devices.
func TestDeviceStepsNeedADevice(t *testing.T) {
	got := stepsTakenFor(t, "reset function 1, restart 1, halt", "", nil, 69, 69)
	if want := "restart end"; got != want {
		t.Errorf("steps taken: %s, want %s", got, want)
	}
}

// TestSignalEndsTheWaitAfterAStep sends the signal before the step: a wait of an hour must end
// immediately.
func TestSignalEndsTheWaitAfterAStep(t *testing.T) {
	s := supervisor{signals: make(chan os.Signal, 1)}
	s.signals <- os.Interrupt
	step := recoveryStep{&stepTypes[0], 1, time.Hour}
	if err := s.takeStep(&step, 71); err != nil || s.endSignal != os.Interrupt {
		t.Errorf("takeStep: %v, signal %v; want no error and %v", err, s.endSignal, os.Interrupt)
	}
}

// TestPermanentFailureTakesNoStep runs lminit with the exit statuses of permanent failures. The
// function in the configuration does not exist, so a step would fail and print this.
func TestPermanentFailureTakesNoStep(t *testing.T) {
	for exit, want := range map[string]string{"64": "", "65": "", "77": "",
		"66": "restarting", "71": "reset function failed"} {
		path := writeConfiguration(t, "on-failure reset function 1, restart 1, halt\n"+
			"image edu.lmb\ndevice pci:ffff:ff:1f.7\n")
		out, _ := lminitWithScript(t, "exit "+exit+"\n", "-config", path).CombinedOutput()
		isTaken := strings.Contains(string(out), "reset function") ||
			strings.Contains(string(out), "restarting")
		if isTaken != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("replay with exit status %s: output %q, want %q", exit, out, want)
		}
	}
}
