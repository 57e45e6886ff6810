package main

import (
	"slices"
	"strconv"
	"strings"

	"lightmetal/tools/lmrun/args"
)

// CONFIGURATION.md describes the format of configurations.

// bootConfigurationPath is read by PID 1, unless its arguments name another file.
const bootConfigurationPath = "/lmrun.conf"

type configuration struct {
	preparations    []preparation // before the first image, in this order
	replayArguments [][]string    // for each image: flags of lmrun, then its path
	onSuccess       restartPolicy // of all images
	onFailure       restartPolicy // of a preparation or a replay
}

var defaultConfiguration = configuration{
	onSuccess: restartPolicy{finalAction: "poweroff"},
	onFailure: restartPolicy{finalAction: "poweroff"},
}

// restartPolicy is what follows success or failure. After each step, lminit starts again with the
// first preparation. If no step is left, it exits, or performs the final action as PID 1.
type restartPolicy struct {
	steps       []recoveryStep // the first that has tries left is taken
	finalAction string         // halt, poweroff or reboot
}

// preparation is a line that prepares the machine, such as `bind vfio-pci 0000:01:00.0`. It is
// executed again after every restart, which changes nothing.
type preparation struct {
	location  string // such as "/lmrun.conf:3"
	directive *machineDirective
	values    []string // the words after the first one
}

// machineDirective is a keyword that concerns the machine and not an image, such as `hugepages`.
type machineDirective struct {
	name                 string // the first word of a line
	valueSyntax          string // for messages
	minValues, maxValues int    // words after the name
	// prepare is nil for on-success and on-failure.
	prepare func(values []string) error
}

// machineDirectives are allowed before the first `image` line.
var machineDirectives = [...]machineDirective{
	{"on-success", onSuccessSyntax, 1, 64, nil},
	{"on-failure", onFailureSyntax, 1, 64, nil},
	{"module", "FILE [PARAMETER...]", 1, 64, loadModule},
	{"hugepages", "NUMBER", 1, 1, reserveHugepages},
	{"bind", "DRIVER ADDRESS", 2, 2, bindDriver},
	{"mount", "SOURCE DIRECTORY TYPE [ro]", 3, 4, mountFileSystem},
	// Only `./build.sh image` uses `collisions`.
	{"collisions", "allowed", 1, 1, func([]string) error { return nil }},
}

// splitConfigFlag removes -config and its value from a command line; path is empty without it.
func splitConfigFlag(args []string) (path string, rest []string) {
	for i, arg := range args {
		name, value, inline := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case name != "config" && name != "-config" || !strings.HasPrefix(arg, "-"):
			rest = append(rest, arg)
		case value != "":
			return value, append(rest, args[i+1:]...)
		case !inline && i+1 < len(args) && args[i+1] != "":
			return args[i+1], append(rest, args[i+2:]...)
		default:
			rest = append(rest, arg) // keep -config without a value, so that args.Parse rejects it
		}
	}
	return "", rest
}

// parseConfiguration parses the file at path. Before the first line `image`, the names in
// machineDirectives are allowed; after it, `image` and the names of lmrun's flags.
//
// After an error, it returns the settings before the faulty line: their `on-failure` says what to
// do.
func parseConfiguration(path, text string) (configuration, error) {
	c := defaultConfiguration
	for i, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		name := line[:strings.IndexAny(line+" ", " \t")]
		value := strings.TrimLeft(line[len(name):], " \t")
		location := path + ":" + strconv.Itoa(i+1)
		if err := c.parseLine(location, name, value); err != nil {
			return c, args.UsageError(location + ": " + faultReason(err))
		}
	}
	if len(c.replayArguments) == 0 {
		return c, args.UsageError(path + ": no image; add a line `image PATH`")
	}
	return c, c.requireDeviceAddresses(path)
}

// requireDeviceAddresses requires an address of each image's devices if on-failure has steps that
// act on devices: several devices can have the same PCI ids.
func (c *configuration) requireDeviceAddresses(path string) error {
	hasNoAddress := func(device string) bool { return strings.Count(device, ":") == 2 }
	for _, step := range c.onFailure.steps {
		for i := 0; i < len(c.replayArguments) && step.kind.perform != nil; i++ {
			o, _ := args.Parse(c.replayArguments[i])
			if len(o.Devices) == 0 || slices.ContainsFunc(o.Devices, hasNoAddress) {
				return args.UsageError(path + ": on-failure has steps for devices, so image " +
					o.Image + " needs a line such as `device vfio:0000:01:00.0`")
			}
		}
	}
	return nil
}

func (c *configuration) parseLine(location, name, value string) error {
	if name == "image" {
		if value == "" || value[0] == '-' || strings.IndexByte(value, 0) >= 0 {
			return args.UsageError("image takes the path of an image, not " + strconv.Quote(value))
		}
		c.replayArguments = append(c.replayArguments, []string{value})
		return nil
	}
	for i := range machineDirectives {
		if kind := &machineDirectives[i]; kind.name == name {
			return c.applyMachineDirective(preparation{location, kind, strings.Fields(value)})
		}
	}
	if len(c.replayArguments) == 0 {
		return args.UsageError(name + " is unknown, or must follow a line `image PATH`")
	}
	flag, err := flagForLine(name, value)
	if err != nil {
		return err
	}
	last := &c.replayArguments[len(c.replayArguments)-1]
	image := len(*last) - 1
	*last = append((*last)[:image], flag, (*last)[image])
	return nil
}

// flagForLine returns the argument of lmrun for a line, if it is allowed in a configuration.
func flagForLine(name, value string) (flag string, err error) {
	var o args.Options
	isSwitch := o.SetSwitch(name)
	onlyCommandLine := [...]string{"help", "h", "version", "config", "check", "supervised"}
	switch {
	case slices.Contains(onlyCommandLine[:], name):
		return "", args.UsageError(name + " is allowed only on the command line of lminit")
	case strings.IndexByte(value, 0) >= 0:
		return "", args.UsageError(name + " takes a value without NUL bytes")
	case isSwitch && value != "":
		return "", args.UsageError(name + " takes no value")
	case isSwitch:
		return "-" + name, nil
	}
	return "-" + name + "=" + value, o.SetValue(name, value)
}

func (c *configuration) applyMachineDirective(p preparation) (err error) {
	kind, values := p.directive, p.values
	if len(c.replayArguments) > 0 {
		return args.UsageError(kind.name + " must be before the first line `image PATH`")
	}
	n := len(values)
	isMountOption := kind.name == "mount" && n == 4
	if n < kind.minValues || n > kind.maxValues || isMountOption && values[3] != "ro" {
		return args.UsageError(kind.name + " takes " + kind.valueSyntax + ", not " +
			strconv.Quote(strings.Join(values, " ")))
	}
	switch kind.name {
	case "on-success":
		c.onSuccess, err = parsePolicy(kind, values)
		return err
	case "on-failure":
		c.onFailure, err = parsePolicy(kind, values)
		return err
	case "hugepages":
		n, err := strconv.ParseUint(values[0], 10, 32)
		if err != nil {
			return args.UsageError("hugepages takes a number below 2^32, not " + values[0])
		}
		// Without leading zeros, as in the kernel's text, with which reserveHugepages compares it.
		values[0] = strconv.FormatUint(n, 10)
	}
	c.preparations = append(c.preparations, p)
	return nil
}

const (
	commonPolicySyntax = "halt, poweroff, reboot, `restart forever`, or "
	restartSyntax      = "`restart N` and then halt, poweroff or reboot"
	onSuccessSyntax    = commonPolicySyntax + restartSyntax
	onFailureSyntax    = commonPolicySyntax + recoveryStepSyntax
)

// parsePolicy parses `on-success` or `on-failure`. After an error, the policy is to power off.
func parsePolicy(kind *machineDirective, values []string) (policy restartPolicy, err error) {
	text := strings.Join(values, " ")
	switch {
	case text == "restart forever": // a failure that no restart can repair still needs an action
		text += ",poweroff"
	case len(values) == 3 && values[0] == "restart" && !strings.Contains(text, ","):
		text = "restart " + values[1] + "," + values[2]
	}
	parts := strings.Split(text, ",")
	last := len(parts) - 1
	policy.finalAction = strings.TrimSpace(parts[last])
	isValid := slices.Contains([]string{"halt", "poweroff", "reboot"}, policy.finalAction)
	for i, part := range parts[:last] {
		step, ok := parseStep(part)
		isReached := i == 0 || policy.steps[i-1].triesLeft != endless
		isValid = isValid && ok && isReached &&
			(step.kind.perform == nil || kind.name == "on-failure")
		policy.steps = append(policy.steps, step)
	}
	if !isValid {
		return restartPolicy{finalAction: "poweroff"}, args.UsageError(kind.name + " takes " +
			kind.valueSyntax + ", not " + text)
	}
	return policy, nil
}
