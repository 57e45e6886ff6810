package ttsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lightmetal/hal"
)

// exitTime is the time after which a child that must exit is killed.
const exitTime = 5 * time.Second

// process is the child process that runs the library. Only one goroutine may use it, except for
// lend.
type process struct {
	cmd    *exec.Cmd
	socket *os.File // stream for requests to the child
	dma    *os.File // stream for the child's requests for accesses to memory
	hosts  []lent   // Host windows

	memory  func(address, size uint64) []byte // returns memory that the device reaches
	missing byte                              // answer if memory returns nil: absent or refused

	output tail // standard output and error of the child; complete after reap

	died     hal.Code // code of all accesses after the child has exited; OK while it runs
	lastWord string   // why the child exited

	head  [requestSize]byte
	reply [replySize]byte
}

// lent is memory of a Host window.
type lent struct {
	bus  uint64 // bus address of the first byte
	data []byte
}

// start runs this program again as a child that loads the library, and waits until the library has
// started.
func start(library string) (*process, error) {
	if os.Getenv(childVariable) != "" {
		return nil,
			errors.New("the child process for the simulator did not start the simulator; " +
				"main must call ttsim.ChildMain first")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{missing: refused}
	p.memory = p.host
	var theirs, asks *os.File
	// Close the child's ends: otherwise reads at the parent's ends would not fail after the child's
	// exit.
	defer func() { closeAll(theirs, asks) }()
	if p.socket, theirs, err = stream(); err == nil {
		p.dma, asks, err = stream()
	}
	p.cmd = exec.Command(program)
	p.cmd.Env = append(os.Environ(), childVariable+"="+library)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.ExtraFiles = []*os.File{theirs, asks}
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // only the parent gets a terminal's SIGINT
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		closeAll(p.socket, p.dma)
		return nil, err
	}
	closeAll(theirs, asks)
	go p.lend()
	if _, err := io.ReadFull(p.socket, p.reply[:]); err != nil {
		p.reap()
		if p.cmd.ProcessState.Success() {
			return nil,
				errors.New("the child process ended before it loaded the simulator library; " +
					"main must call ttsim.ChildMain first")
		}
		return nil, errors.New(p.lastWord)
	}
	if binary.LittleEndian.Uint64(p.reply[:]) != hello {
		p.end()
		return nil, errors.New("the child process for the simulator runs " +
			"another version of this program; restart this program")
	}
	return p, nil
}

// stream returns the two ends of a new stream, for the parent and for the child.
func stream() (ours, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(ends[0]), "child"), os.NewFile(uintptr(ends[1]), "parent"), nil
}

// closeAll closes files. It ignores files that are nil or already closed.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// call sends a request, with the data `in` for opCopyIn, and receives the reply, and the data `out`
// for opCopyOut. It does not allocate memory while the child runs.
func (p *process) call(r request, in, out []byte) (uint64, hal.Code) {
	if p.died != hal.OK {
		return ^uint64(0), p.died
	}
	r.encode(&p.head)
	if !p.exchange(in, out) {
		p.reap()
		return ^uint64(0), p.died
	}
	return binary.LittleEndian.Uint64(p.reply[:]), hal.OK
}

// exchange sends the request in head and the data `in`, and receives the reply and the data `out`.
// It reports whether this succeeded.
func (p *process) exchange(in, out []byte) bool {
	if _, err := p.socket.Write(p.head[:]); err != nil {
		return false
	}
	if len(in) > 0 {
		if _, err := p.socket.Write(in); err != nil {
			return false
		}
	}
	if _, err := io.ReadFull(p.socket, p.reply[:]); err != nil {
		return false
	}
	_, err := io.ReadFull(p.socket, out)
	return err == nil
}

// reap waits for the end of a child that is exiting, and sets died and lastWord. If the child
// exited, the library has rejected an access. If a signal ended the child, the simulator has a
// defect or was killed.
func (p *process) reap() {
	closeAll(p.socket, p.dma)
	kill := time.AfterFunc(exitTime, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	p.cmd.Wait() // the state contains the same information as the error
	state := p.cmd.ProcessState
	p.died, p.lastWord = hal.Refused, p.output.lastWord()
	if !state.Exited() {
		p.died, p.lastWord = hal.DeviceGone, "the simulator's process ended: "+state.String()
	} else if p.lastWord == "" {
		p.lastWord = "the simulator ended without a message: " + state.String()
	}
}

// end makes the child shut the library down and exit, if it still runs.
func (p *process) end() error {
	if p.died != hal.OK {
		return nil
	}
	if _, code := p.call(request{op: opExit}, nil, nil); code != hal.OK {
		return errors.New(p.lastWord)
	}
	p.reap()
	p.died, p.lastWord = hal.DeviceGone, "the device is closed"
	return nil
}

// tail keeps the last tailMax bytes that were written to it.
type tail struct{ kept []byte }

const tailMax = 16 << 10 // bytes

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - tailMax; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(b), nil
}

// lastWord returns the last line that contains an error or, if there is none, the last line. The
// library prints errors as "[clock] ERROR: category: function: text".
func (t *tail) lastWord() string {
	lines := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	last := string(lines[len(lines)-1])
	for _, line := range lines {
		if bytes.Contains(line, []byte("ERROR: ")) {
			last = string(line)
		}
	}
	return strings.TrimSpace(last)
}
