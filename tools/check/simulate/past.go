package main

// Past is a former defect of this project, as the reverse of its fix: in a file, New replaces
// Old, and behaves as before the fix if BROKEN is true.
type Past struct {
	Name, Commit   string
	File, Old, New string
}

const (
	replay = "runtime/replay.go"
	loop   = "tools/lmrun/frames.go"
	rings  = "tools/lmrun/ring.go"
	flow   = "tools/lmrun/stream.go"
)

var past = []Past{
	{"a check that all ones satisfy holds on a device that is gone", "44108fe", replay,
		"code := r.checkDevicePresent(c, loaded)\n\tswitch",
		"code := hal.OK\n\tif !BROKEN || r.pollDeadlineNs != 0 {\n" +
			"\t\tcode = r.checkDevicePresent(c, loaded)\n\t}\n" +
			"\tswitch"},
	{"a poll does not notice a device that goes while it waits", "13432dd", replay,
		"\tswitch {\n\tcase code != hal.OK:\n\t\treturn code\n\tcase fbs.ConditionMet(c, loaded):",
		"\tif BROKEN && r.pollDeadlineNs != 0 && code == hal.DeviceGone {\n" +
			"\t\tcode = hal.OK\n\t}\n" +
			"\tswitch {\n\tcase code != hal.OK:\n\t\treturn code\n" +
			"\tcase fbs.ConditionMet(c, loaded):"},
	{"what a device that is gone reads is stored back", "fe773e8", replay,
		"if code := r.checkDevicePresent(c, loaded); code != hal.OK {\n" +
			"\t\treturn code\n\t}\n\tstore",
		"if code := r.checkDevicePresent(c, loaded); code != hal.OK && " +
			"!(BROKEN && code == hal.DeviceGone) {\n" +
			"\t\treturn code\n\t}\n\tstore"},
	{"what failed is asked of masters alone", "fe773e8", replay,
		"if code := device.Diagnose(); code",
		"if _, masters := device.(hal.ExitCleaner); BROKEN && !masters {\n\t\t\tcontinue\n\t\t}\n" +
			"\t\tif code := device.Diagnose(); code"},
	{"the last look comes before the deadline", "f13f453", replay,
		"\t\tr.awaitNextPoll(c)\n",
		"\t\tr.awaitNextPoll(c)\n\t\tif BROKEN && r.codeIfUnmet == hal.DeadlinePassed {\n" +
			"\t\t\tr.pollingCommand, r.failureDetails = nil, Result{Want: c.Value, " +
			"Mask: c.Mask}\n" +
			"\t\t\treturn r.applyPolicy(c, hal.DeadlinePassed)\n\t\t}\n"},
	{"a poll without an interval never pauses", "deeee3a", replay,
		"return min(waitedNs/pollBackoffDivisor, leftNs)",
		"if BROKEN {\n\t\treturn 0\n\t}\n\treturn min(waitedNs/pollBackoffDivisor, leftNs)"},
	{"DMA that no command looked at is lost without a word", "44108fe", loop,
		"code := f.replay.Diagnose()",
		"code := f.replay.Diagnose()\n\t\tif BROKEN {\n\t\t\tcode = hal.OK\n\t\t}"},
	{"no safe after a failure between runs", "5e15e1a", loop,
		"if safe := f.replay.View().SequenceByName(\"safe\"); safe >= 0",
		"if safe := f.replay.View().SequenceByName(\"safe\"); safe >= 0 && !BROKEN"},
	{"the limit of a run is that of the sequences before and after", "5e15e1a", loop,
		"f.replay.SetLimit(limitNs)",
		"if BROKEN && limitNs == 0 {\n\t\tlimitNs = f.deadlineNs\n\t}\n" +
			"\tf.replay.SetLimit(limitNs)"},
	{"no data is success", "2830ccc", loop,
		"if ended && end.runs == 0 &&", "if ended && !BROKEN && end.runs == 0 &&"},
	{"a ring that is cut ends the process", "471f1bd", loop,
		"\tproblem := recover()\n", "\tif BROKEN {\n\t\treturn\n\t}\n\tproblem := recover()\n"},
	{"a ring that was begun and not finished is refused", "5e15e1a", rings,
		"isUnfinished := isAllZero(head) &&",
		"made := size == r.fileBytes(newRingSlots)\n\tisUnfinished := isAllZero(head) && " +
			"(!BROKEN || made) &&"},
	{"a signal does not end the wait for a ring", "471f1bd", flow,
		"case mustWait && stopRequested.Load() == 0:",
		"case mustWait && (stopRequested.Load() == 0 || BROKEN && s.ring != nil):"},
	{"a reader that is started again takes a closed ring for the end", "89ec100", rings,
		"r.closedByEarlierWriter = !isWriter &&",
		"r.closedByEarlierWriter = !BROKEN && !isWriter &&"},
	{"nobody waits for room in a ring", "ebdaa34", rings,
		"case isWriter && unread < r.slotCount:",
		"case isWriter && (unread < r.slotCount || BROKEN):"},
	{"an output is in place before the others are on the disk", "6ddb63a",
		"tools/lmrun/files/output.go",
		"\tfor _, f := range list {\n\t\tif err := f.syncToDisk(); err != nil {",
		"\tif BROKEN {\n\t\tfor _, f := range list {\n\t\t\terr := f.syncToDisk()\n" +
			"\t\t\tif err == nil {\n\t\t\t\terr = f.renameToFinal()\n\t\t\t}\n" +
			"\t\t\tif err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn nil\n\t}\n" +
			"\tfor _, f := range list {\n\t\tif err := f.syncToDisk(); err != nil {"},
	{"an output is written over the old one", "2830ccc", "tools/lmrun/files/output.go",
		"err = f.createTemp(mode, &status)",
		"if BROKEN && err == nil {\n\t\t\tf.Fd, err = openAt(unix.AT_FDCWD, path, " +
			"unix.O_WRONLY|01000, 0)\n\t\t} else {\n" +
			"\t\t\terr = f.createTemp(mode, &status)\n\t\t}"},
	{"a reset is armed by an image that is refused", "ba3dc36", "runtime/load.go",
		"r.hasBusMaster, err = true, device.SetBusMaster(true)",
		"if cleaner, ok := device.(hal.ExitCleaner); ok && BROKEN {\n" +
			"\t\t\t\t_, _ = cleaner.RegisterExitCleanup(r.view, i)\n\t\t\t}\n" +
			"\t\t\tr.hasBusMaster, err = true, device.SetBusMaster(true)"},
	{"zeros are a command", "5e15e1a", "fbs/commands.go",
		"\tswitch m.Opcode {\n\tcase gen.OpcodeWrite:\n",
		"\tif BROKEN && *m == (Command{}) {\n\t\treturn \"\"\n\t}\n" +
			"\tswitch m.Opcode {\n\tcase gen.OpcodeWrite:\n"},
	{"who rewrites the file changes what runs", "c802ea6", "runtime/file.go",
		"size, page := uint64(len(f.data))",
		"if BROKEN {\n\t\treturn nil\n\t}\n\tsize, page := uint64(len(f.data))"},
	{"a report that nobody gets is success", "4f74aab", "tools/lmrun/report.go",
		"\t\tcode = hal.IO\n", "\t\tif !BROKEN {\n\t\t\tcode = hal.IO\n\t\t}\n"},
}
