//go:build linux && (amd64 || arm64)

package recorder

// kvmFile is the file that a program opens to run a guest; a test replaces it.
var kvmFile = "/dev/kvm"

// handleKVM ends the protection of memory when a program opens KVM: a guest that accesses memory
// without access rights ends with EFAULT, and raises no signal that the recorder could handle.
func (r *recording) handleKVM(t *thread) {
	if t.space.usesKVM {
		return
	}
	t.space.usesKVM = true
	flag := ""
	switch {
	case r.options.Protect == ProtectAll:
		flag = "--protect all"
	case len(r.options.Watch) > 0:
		flag = "--watch"
	}
	if flag != "" {
		r.reportGap("process %d uses KVM (%s): KVM ends a guest that accesses memory of %s; "+
			"record without this flag", t.process, kvmFile, flag)
		r.killProgram(flag + " is not possible with a guest of KVM")
		return
	}
	r.endProtection(t, 0, ^uint64(0))
	r.resetProtected(t.space, 0, ^uint64(0))
	r.reportEvent("process %d uses KVM, so lm does not protect its memory: a device's writes to a "+
		"page that the program or its guest also writes are attributed to the program", t.process)
	if !r.tracksWrites(t) {
		r.reportUntracked(t)
	}
}
