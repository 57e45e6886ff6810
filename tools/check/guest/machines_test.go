package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// setUpSteps are the steps that set a machine of scenarios up.
var setUpSteps = map[string]hostStep[*scenarioRun]{
	"only":        {"VARIABLE", skipUnless}, // if it is set
	"kernel":      {"new|full", (*scenarioRun).setKernel},
	"modules":     {"[FILE...]", (*scenarioRun).addNamedModules},
	"iommu":       {"smmu|virtio", (*scenarioRun).addNamedIOMMU}, // with the backend vfio
	"vendor":      {"", (*scenarioRun).addVendorsDriver},         // with the backend tt
	"timeout":     {"TIME", setTimeout},
	"processors":  {"COUNT", setProcessors},
	"kernel-line": {"ARGUMENT...", addKernelArguments},
	"qemu":        {"ARGUMENT...", addQemuArguments},
	"new-qemu":    {"", func(r *scenarioRun, _ []string) error { r.addServed(r.t); return nil }},
	"trace":       {"", func(r *scenarioRun, _ []string) error { r.enableTrace(); return nil }},
	"recorder":    {"", (*scenarioRun).addRecorder},
	"serve":       {"DEVICE [FLAG...]", serve},
	"root-ports":  {"", (*scenarioRun).addRootPorts},
	"monitor":     {"", (*scenarioRun).addMonitor},
	"kept-memory": {"", (*scenarioRun).addKeptMemory},
	// The watchdog resets the machine in the last scenario, or a step kills the first server.
	"ends-by-watchdog": {"", (*scenarioRun).setEndsByWatchdog},
	"server-dies":      {"", (*scenarioRun).setServerDies},
	"images":           {"IMAGE...", nothing}, // /images/NAME.lmb
	"put":              {"PATH IMAGE", putImage},
	"workloads":        {"BOARD", (*scenarioRun).addWorkloads},
	"lm":               {"", (*scenarioRun).addLm},
	"file":             {"PATH FILE", addHostFile},
	"data":             {"PATH TEXT", addData},
	"pattern":          {"PATH SEED SIZE", addPattern},
	"program":          {"SOURCE", (*scenarioRun).addPrograms}, // /NAME, from NAME.c
	"debian":           {"PATH...", (*scenarioRun).addDebian},
	"debian-files":     {"PATTERN...", (*scenarioRun).addDebianFiles},
}

func skipUnless(r *scenarioRun, args []string) error {
	if os.Getenv(args[0]) == "" {
		r.t.Skipf("%s is booted only if %s is set", path.Base(r.t.Name()), args[0])
	}
	return nil
}

func nothing(*scenarioRun, []string) error { return nil }

func (r *scenarioRun) addRecorder([]string) error {
	addRecorder(r.t, r.machine)
	return nil
}

func (r *scenarioRun) setEndsByWatchdog([]string) error {
	r.endsByWatchdog = true
	return nil
}

func (r *scenarioRun) setServerDies([]string) error {
	r.serverDies = true
	return nil
}

func (r *scenarioRun) setKernel(args []string) error {
	name := strings.ToUpper(args[0])
	r.kernel = fromEnv(r.t, "LM_GUEST_"+name+"_KERNEL")
	r.modules = "LM_GUEST_" + name + "_MODULES"
	return nil
}

// addNamedModules adds modules of the kernel, or all. A missing one may be part of the kernel.
func (r *scenarioRun) addNamedModules(names []string) error {
	if len(names) == 0 {
		r.addModules(r.t, r.modules)
	}
	for _, name := range names {
		if path := filepath.Join(fromEnv(r.t, r.modules), name); fileExists(path) {
			r.addFile(r.t, "/modules/"+name, path)
		}
	}
	return nil
}

// addNamedIOMMU puts all devices behind an IOMMU. Served devices need virtio, and it the new
// kernel.
func (r *scenarioRun) addNamedIOMMU(args []string) error {
	r.backend, r.machineType = "vfio", iommuMachine
	if args[0] == "virtio" {
		r.addIOMMU()
	}
	return r.addNamedModules(nil)
}

// addVendorsDriver adds Tenstorrent's driver for the full kernel, which LM_TTKMD names.
func (r *scenarioRun) addVendorsDriver([]string) error {
	r.backend, r.kernel = "tt", fromEnv(r.t, "LM_GUEST_FULL_KERNEL")
	r.addFile(r.t, "/modules/tenstorrent.ko", os.Getenv("LM_TTKMD"))
	return nil
}

func setTimeout(r *scenarioRun, args []string) (err error) {
	r.timeout, err = time.ParseDuration(args[0])
	return err
}

func setProcessors(r *scenarioRun, args []string) (err error) {
	r.processors, err = strconv.Atoi(args[0])
	return err
}

func addKernelArguments(r *scenarioRun, args []string) error {
	r.kernelArgs += " " + strings.Join(args, " ")
	return nil
}

func addQemuArguments(r *scenarioRun, args []string) error {
	r.extraArgs = append(r.extraArgs, args...)
	return nil
}

func serve(r *scenarioRun, args []string) error {
	r.addServed(r.t)
	r.servedDevices = append(r.servedDevices, args)
	return nil
}

// addRootPorts serves each device behind a root port, and inserts it again after its slot has lost
// power.
func (r *scenarioRun) addRootPorts([]string) error {
	r.rootPorts = true
	err := r.addMonitor(nil)
	r.beforeBoot = func(qemuArgs []string) { go r.monitor.reinsertDevices(qemuArgs) }
	return err
}

func (r *scenarioRun) addMonitor([]string) error {
	r.monitor = new(qemuMonitor)
	r.extraArgs = append(r.extraArgs, r.monitor.start(r.t, r.dir)...)
	return nil
}

// addKeptMemory adds 16 MiB of memory that the kernel does not use. The device tree declares that
// its contents survive a reset. The kernel makes it accessible as /dev/pmem0.
func (r *scenarioRun) addKeptMemory([]string) error {
	const kernelMiB, first = "448", "5c000000" // memory starts at 1 GiB
	tree := filepath.Join(r.dir, "tree.dtb")
	for _, line := range []string{
		"qemu-system-aarch64 -M virt,dumpdtb=" + tree + " -cpu cortex-a72 -smp 2 -m 512 -nic none",
		"fdtput -p -t s " + tree + " /pmem@" + first + " compatible pmem-region",
		"fdtput -t x " + tree + " /pmem@" + first + " reg 0 " + first + " 0 1000000",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w, %s", line, err, out)
		}
	}
	r.kernelArgs += " mem=" + kernelMiB + "M"
	// QEMU uses the last action. Without it, QEMU would end at a reset, because of -no-reboot.
	r.extraArgs = append(r.extraArgs, "-dtb", tree, "-action", "reboot=reset")
	return nil
}

func putImage(r *scenarioRun, args []string) error {
	r.files[args[0]] = buildImage(r.t, args[1])
	return nil
}

// addWorkloads adds the images of all workloads, captured on the host API, as BOARD/NAME.
func (r *scenarioRun) addWorkloads(args []string) error {
	list, err := exec.Command(fromEnv(r.t, "LM_GUEST_LM"), "capture",
		repository+"/testdata/workloads/run", "--list").Output()
	program := goBuild(r.t, runtime.GOARCH, "lightmetal/testdata/workloads/run")
	for line := range strings.Lines(string(list)) {
		name := strings.Fields(line)[0]
		image := args[0] + "/" + name
		r.addImage(r.t, image, buildOnce(image, func() []byte {
			path, _ := makeImage(r.t, "capture", program, name, "--device", "mock:"+args[0])
			return readFile(r.t, path)
		}))
	}
	return err
}

func (r *scenarioRun) addLm([]string) error {
	r.addFile(r.t, "/lm", buildForGuest(r.t, "lightmetal/tools/lm"))
	return nil
}

func addHostFile(r *scenarioRun, args []string) error {
	r.addFile(r.t, args[0], args[1])
	return nil
}

func addData(r *scenarioRun, args []string) (err error) {
	r.files[args[0]], err = dataOf(args[1:])
	return err
}

// dataOf returns the bytes of a text, once or several times: TEXT [TIMES].
func dataOf(args []string) (data []byte, err error) {
	times := 1
	if len(args) > 1 {
		times, err = strconv.Atoi(args[1])
	}
	return bytes.Repeat([]byte(args[0]), times), err
}

func addPattern(r *scenarioRun, args []string) error {
	data, err := patternOf(args[1:])
	r.files[args[0]] = data
	return err
}

// patternOf returns the bytes of a pattern of the listing language: SEED SIZE.
func patternOf(args []string) ([]byte, error) {
	var seed uint32
	var size int
	if _, err := fmt.Sscan(strings.Join(args, " "), &seed, &size); err != nil {
		return nil, err
	}
	return xorshift32(seed, (size+3)/4*4)[:size], nil
}

func (r *scenarioRun) addPrograms(args []string) error {
	for _, source := range args {
		r.addProgram(r.t, source)
	}
	return nil
}

func (r *scenarioRun) addDebian(paths []string) error {
	r.addDebianPrograms(r.t, paths...)
	return nil
}

func (r *scenarioRun) addDebianFiles(patterns []string) error {
	for _, pattern := range patterns {
		r.addPlugins(r.t, pattern)
	}
	return nil
}
