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

// exitTime bounds the wait for a child that has been told to end.
const exitTime = 5 * time.Second

// process is the child that runs the library. It is not for concurrent use.
type process struct {
	cmd    *exec.Cmd
	socket *os.File
	dma    *os.File // the child asks for memory there
	hosts  []lent   // Host windows

	memory  func(address, size uint64) []byte // what the device reaches
	missing byte                              // what is answered where that gives none

	output tail // stdout and stderr of the child, complete once it has ended

	died     hal.Code // OK while the child runs
	lastWord string   // why it ended

	head  [requestSize]byte
	reply [replySize]byte
}

// lent is memory that the device reaches, by bus address.
type lent struct {
	bus  uint64
	data []byte
}

// start runs this program again as a child that loads the library, and waits
// until the library is up.
func start(library string) (*process, error) {
	if os.Getenv(childVariable) != "" {
		return nil,
			errors.New("this program starts itself for each simulator, so main must call " +
				"ttsim.ChildMain first")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{missing: refused}
	p.memory = p.host
	var theirs, asks *os.File
	// the child's ends, or ours would never read as closed
	defer func() { closeAll(theirs, asks) }()
	if p.socket, theirs, err = stream(); err == nil {
		p.dma, asks, err = stream()
	}
	p.cmd = exec.Command(program)
	p.cmd.Env = append(os.Environ(), childVariable+"="+library)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.ExtraFiles = []*os.File{theirs, asks}
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // a terminal's SIGINT is for the parent
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
				errors.New("the child ended before it loaded the library; main must call " +
					"ttsim.ChildMain first")
		}
		return nil, errors.New(p.lastWord)
	}
	if binary.LittleEndian.Uint64(p.reply[:]) != hello {
		p.end()
		return nil, errors.New("the process that loads the simulator is of another version of " +
			"this program")
	}
	return p, nil
}

// stream is two ends, the second the child's.
func stream() (ours, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(ends[0]), "child"), os.NewFile(uintptr(ends[1]), "parent"), nil
}

// closeAll closes files, of which some may not be there, or closed.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// call sends a request with the data of a copyIn, and receives the reply and
// the data of a copyOut. It does not allocate while the child lives.
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

// reap collects a child that is ending by itself. An exit status of its own is
// a refusal; a signal means that the simulator is broken, or was killed.
func (p *process) reap() {
	closeAll(p.socket, p.dma)
	kill := time.AfterFunc(exitTime, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	p.cmd.Wait() // its error says what the state says
	state := p.cmd.ProcessState
	p.died, p.lastWord = hal.Refused, p.output.lastWord()
	if !state.Exited() {
		p.died, p.lastWord = hal.DeviceGone, "the simulator's process ended: "+state.String()
	} else if p.lastWord == "" {
		p.lastWord = "the simulator ended without a message: " + state.String()
	}
}

// end shuts the child down in order, if it is still there.
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

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

const tailMax = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - tailMax; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(b), nil
}

// lastWord is the last line that names an error, or else the last line. The
// library prints "[clock] ERROR: category: function: text".
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
