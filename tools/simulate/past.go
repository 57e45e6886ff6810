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
		"code := r.gave(c, loaded)\n\tswitch",
		"code := hal.OK\n\tif !BROKEN || r.deadline != 0 {\n\t\tcode = r.gave(c, loaded)\n\t}\n" +
			"\tswitch"},
	{"a poll does not notice a device that goes while it waits", "13432dd", replay,
		"switch holds := (loaded",
		"if BROKEN && r.deadline != 0 && code == hal.DeviceGone {\n\t\tcode = hal.OK\n\t}\n" +
			"\tswitch holds := (loaded"},
	{"what a device that is gone reads is stored back", "fe773e8", replay,
		"if code := r.gave(c, loaded); code != hal.OK {\n\t\treturn code\n\t}\n\tr.access",
		"if code := r.gave(c, loaded); code != hal.OK && !(BROKEN && code == hal.DeviceGone) {\n" +
			"\t\treturn code\n\t}\n\tr.access"},
	{"what failed is asked of masters alone", "fe773e8", replay,
		"if code := device.Diagnose(); code",
		"if _, masters := device.(hal.Cleaner); BROKEN && !masters {\n\t\t\tcontinue\n\t\t}\n" +
			"\t\tif code := device.Diagnose(); code"},
	{"the last look comes before the deadline", "f13f453", replay,
		"\t\tr.wait(c)\n",
		"\t\tr.wait(c)\n\t\tif BROKEN && r.last == hal.DeadlinePassed {\n" +
			"\t\t\tr.waits, r.detail = nil, Result{Want: c.Value, Mask: c.Mask}\n" +
			"\t\t\treturn r.settle(c, hal.DeadlinePassed)\n\t\t}\n"},
	{"a poll without an interval never pauses", "deeee3a", replay,
		"return min(waited/patience, left)",
		"if BROKEN {\n\t\treturn 0\n\t}\n\treturn min(waited/patience, left)"},
	{"DMA that no command looked at is lost without a word", "44108fe", loop,
		"code := f.replay.Diagnose()",
		"code := f.replay.Diagnose()\n\t\tif BROKEN {\n\t\t\tcode = hal.OK\n\t\t}"},
	{"no safe after a failure between runs", "5e15e1a", loop,
		"if safe := f.replay.View().SequenceByName(\"safe\"); safe >= 0",
		"if safe := f.replay.View().SequenceByName(\"safe\"); safe >= 0 && !BROKEN"},
	{"the limit of a run is that of the sequences before and after", "5e15e1a", loop,
		"f.replay.Limit(limit)",
		"if BROKEN && limit == 0 {\n\t\tlimit = f.limit\n\t}\n\tf.replay.Limit(limit)"},
	{"no data is success", "2830ccc", loop,
		"if ended && end.runs == 0 &&", "if ended && !BROKEN && end.runs == 0 &&"},
	{"a ring that is cut ends the process", "471f1bd", loop,
		"\tproblem := recover()\n", "\tif BROKEN {\n\t\treturn\n\t}\n\tproblem := recover()\n"},
	{"a ring that was begun and not finished is refused", "5e15e1a", rings,
		"isUnfinished := isZero(head) &&",
		"made := size == r.bytes(ringSlotsNew)\n\tisUnfinished := isZero(head) && (!BROKEN || " +
			"made) &&"},
	{"a signal does not end the wait for a ring", "471f1bd", flow,
		"case waits && stopping.Load() == 0:",
		"case waits && (stopping.Load() == 0 || BROKEN && s.ring != nil):"},
	{"a reader that is started again takes a closed ring for the end", "89ec100", rings,
		"r.stale = !writer &&", "r.stale = !BROKEN && !writer &&"},
	{"nobody waits for room in a ring", "ebdaa34", rings,
		"case writer && waiting < r.count:", "case writer && (waiting < r.count || BROKEN):"},
	{"an output is in place before the others are on the disk", "6ddb63a", "tools/files/output.go",
		"\tfor _, step := range",
		"\tif BROKEN {\n\t\tfor _, f := range list {\n\t\t\tif err = f.sync(); err == nil {\n" +
			"\t\t\t\terr = f.rename()\n\t\t\t}\n\t\t\tif err != nil {\n\t\t\t\treturn err\n" +
			"\t\t\t}\n\t\t}\n\t\treturn nil\n\t}\n\tfor _, step := range"},
	{"an output is written over the old one", "2830ccc", "tools/files/output.go",
		"err = f.createTemp(mode, &status)",
		"if BROKEN && err == nil {\n\t\t\tf.Fd, err = open(unix.AT_FDCWD, path, " +
			"unix.O_WRONLY|unix.O_TRUNC, 0)\n\t\t} else {\n" +
			"\t\t\terr = f.createTemp(mode, &status)\n\t\t}"},
	{"a reset is armed by an image that is refused", "ba3dc36", "runtime/load.go",
		"r.masters, err = true, device.Master(true)",
		"if cleaner, ok := device.(hal.Cleaner); ok && BROKEN {\n" +
			"\t\t\t\t_, _ = cleaner.Cleanup(r.view, i)\n\t\t\t}\n" +
			"\t\t\tr.masters, err = true, device.Master(true)"},
	{"zeros are a command", "5e15e1a", "fbs/pass.go",
		"\tc.heads = [64]uint64{1}\n",
		"\tc.heads = [64]uint64{1}\n\tif BROKEN {\n\t\tc.heads[0] = 0\n\t}\n"},
	{"who rewrites the file changes what runs", "c802ea6", "runtime/file.go",
		"size, page := uint64(len(f.data))",
		"if BROKEN {\n\t\treturn nil\n\t}\n\tsize, page := uint64(len(f.data))"},
	{"a report that nobody gets is success", "4f74aab", "tools/lmrun/report.go",
		"\t\tcode = hal.IO\n", "\t\tif !BROKEN {\n\t\t\tcode = hal.IO\n\t\t}\n"},
}
