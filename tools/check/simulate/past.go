package main

// pastDefect is a former defect of this project, as the reverse of its fix: in a file, the text new
// replaces the text old, and behaves as before the fix if BROKEN is true.
type pastDefect struct {
	name, commit   string
	file, old, new string
}

const (
	replayFile = "runtime/replay.go"
	runsFile   = "tools/lmrun/runs.go"
	ringFile   = "tools/lmrun/ring.go"
	streamFile = "tools/lmrun/stream.go"
)

var pastDefects = []pastDefect{
	{"an Expect that all ones satisfy succeeds on a device that is gone", "44108fe", replayFile,
		"code := r.checkDevicePresent(c, loaded)\n\tswitch",
		"code := hal.OK\n\tif !BROKEN || r.pollDeadlineNs != 0 {\n" +
			"\t\tcode = r.checkDevicePresent(c, loaded)\n\t}\n" +
			"\tswitch"},
	{"a poll does not detect a device that goes away while it waits", "13432dd", replayFile,
		"\tswitch {\n\tcase code != hal.OK:\n\t\treturn code\n\tcase fbs.ConditionMet(c, loaded):",
		"\tif BROKEN && r.pollDeadlineNs != 0 && code == hal.DeviceGone {\n" +
			"\t\tcode = hal.OK\n\t}\n" +
			"\tswitch {\n\tcase code != hal.OK:\n\t\treturn code\n" +
			"\tcase fbs.ConditionMet(c, loaded):"},
	{"a Modify stores the all ones that a gone device returned", "fe773e8", replayFile,
		"if code := r.checkDevicePresent(c, loaded); code != hal.OK {\n" +
			"\t\treturn code\n\t}\n\tstore",
		"if code := r.checkDevicePresent(c, loaded); code != hal.OK && " +
			"!(BROKEN && code == hal.DeviceGone) {\n" +
			"\t\treturn code\n\t}\n\tstore"},
	{"only bus masters are diagnosed after a failure", "fe773e8", replayFile,
		"if code := device.Diagnose(); code",
		"if _, masters := device.(hal.ExitCleaner); BROKEN && !masters {\n\t\t\tcontinue\n\t\t}\n" +
			"\t\tif code := device.Diagnose(); code"},
	{"the last load of a poll comes before the deadline", "f13f453", replayFile,
		"\t\tr.awaitNextPoll(c)\n",
		"\t\tr.awaitNextPoll(c)\n\t\tif BROKEN && r.codeIfUnmet == hal.DeadlinePassed {\n" +
			"\t\t\tr.pollingCommand, r.failureDetails = nil, Result{Want: c.Value, " +
			"Mask: c.Mask}\n" +
			"\t\t\treturn r.applyPolicy(c, hal.DeadlinePassed)\n\t\t}\n"},
	{"a poll without an interval never pauses", "deeee3a", replayFile,
		"return min(waitedNs/pollBackoffDivisor, leftNs)",
		"if BROKEN {\n\t\treturn 0\n\t}\n\treturn min(waitedNs/pollBackoffDivisor, leftNs)"},
	{"a DMA fault that no command detected is not reported", "44108fe", runsFile,
		"code := f.replay.Diagnose()",
		"code := f.replay.Diagnose()\n\t\tif BROKEN {\n\t\t\tcode = hal.OK\n\t\t}"},
	{"the sequence safe does not run after a failure between runs", "5e15e1a", runsFile,
		"if safe := f.view.SequenceByName(\"safe\"); safe >= 0",
		"if safe := f.view.SequenceByName(\"safe\"); safe >= 0 && !BROKEN"},
	{"the deadline of a run limits the sequences before and after too", "5e15e1a", runsFile,
		"f.replay.SetLimit(limitNs)",
		"if BROKEN && limitNs == 0 {\n\t\tlimitNs = f.runTimeLimitNs\n\t}\n" +
			"\tf.replay.SetLimit(limitNs)"},
	{"a run without data is a success", "2830ccc", runsFile,
		"if ended && end.runs == 0 &&", "if ended && !BROKEN && end.runs == 0 &&"},
	{"a truncated ring ends the process", "471f1bd", runsFile,
		"\tproblem := hal.DescribePanic(recover())\n",
		"\tif BROKEN {\n\t\treturn\n\t}\n\tproblem := hal.DescribePanic(recover())\n"},
	{"an unfinished ring is rejected", "5e15e1a", ringFile,
		"isUnfinished := isAllZero(head) &&",
		"made := size == r.fileBytes(newRingSlots)\n\tisUnfinished := isAllZero(head) && " +
			"(!BROKEN || made) &&"},
	{"a signal does not end the wait for a ring", "471f1bd", streamFile,
		"case mustWait && stopRequested.Load() == 0:",
		"case mustWait && (stopRequested.Load() == 0 || BROKEN && s.ring != nil):"},
	{"a restarted reader takes a closed ring for the end of the data", "89ec100", ringFile,
		"r.closedByEarlierWriter = !isWriter &&",
		"r.closedByEarlierWriter = !BROKEN && !isWriter &&"},
	{"a writer does not wait for room in a ring", "ebdaa34", ringFile,
		"case isWriter && unread < r.slotCount:",
		"case isWriter && (unread < r.slotCount || BROKEN):"},
	{"an output is renamed before the others are on the disk", "6ddb63a",
		"tools/lmrun/files/output.go",
		"\tfor _, f := range list {\n\t\tif err := f.sync(f.Fd); err != nil {",
		"\tif BROKEN {\n\t\tfor _, f := range list {\n\t\t\terr := f.sync(f.Fd)\n" +
			"\t\t\tif err == nil {\n\t\t\t\terr = f.renameToFinal()\n\t\t\t}\n" +
			"\t\t\tif err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn nil\n\t}\n" +
			"\tfor _, f := range list {\n\t\tif err := f.sync(f.Fd); err != nil {"},
	{"an output overwrites the old file", "2830ccc", "tools/lmrun/files/output.go",
		"err = f.createTemp(mode, &status)",
		"if BROKEN && err == nil {\n\t\t\tf.Fd, err = openAt(unix.AT_FDCWD, path, " +
			"unix.O_WRONLY|01000, 0)\n\t\t} else {\n" +
			"\t\t\terr = f.createTemp(mode, &status)\n\t\t}"},
	{"a rejected image registers an exit cleanup", "ba3dc36", "runtime/load.go",
		"\tif err := r.mapWindows(firstTLBWindow); err != nil {\n",
		"\tif BROKEN {\n\t\t_ = r.requestExitCleanup()\n\t}\n" +
			"\tif err := r.mapWindows(firstTLBWindow); err != nil {\n"},
	{"a command of zeros is valid", "5e15e1a", "fbs/commands.go",
		"\tf := formOf(m.Opcode)\n",
		"\tif BROKEN && *m == (Command{}) {\n\t\treturn \"\"\n\t}\n\tf := formOf(m.Opcode)\n"},
	{"overwriting the image file changes the commands that run", "c802ea6", "runtime/file.go",
		"size, page := uint64(len(f.data))",
		"if BROKEN {\n\t\treturn nil\n\t}\n\tsize, page := uint64(len(f.data))"},
	{"a report that cannot be written is a success", "4f74aab", "tools/lmrun/report.go",
		"\t\tcode = hal.IO\n", "\t\tif !BROKEN {\n\t\t\tcode = hal.IO\n\t\t}\n"},
}
