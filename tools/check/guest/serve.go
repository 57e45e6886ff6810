package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// served is a stand-in that the machine sees as a PCI device: `lm serve`, a
// process of its own.
type served struct {
	device, socket string
	process        *exec.Cmd
	said           *strings.Builder // its standard error
	reader         chan struct{}    // closed when all of that is there
}

// unserved is the end of a server that never listened.
type unserved struct {
	exit int
	said string
}

func (u *unserved) Error() string { return u.said }

// serve starts a server for each device of m.with, and gives QEMU's arguments.
// The sockets lie in a folder of their own: their paths are short.
func (m *machine) serve() (args []string, servers []*served, stop func(), err error) {
	if len(m.with) == 0 {
		return nil, nil, func() {}, nil
	}
	folder, err := os.MkdirTemp("", "lm-")
	if err != nil {
		return nil, nil, nil, err
	}
	stop = func() {
		for _, s := range servers {
			_ = s.process.Process.Kill() // it may have ended
			_ = s.wait()
		}
		os.RemoveAll(folder)
	}
	for i, with := range m.with {
		s := &served{device: with[0], socket: filepath.Join(folder, fmt.Sprint(i))}
		if err := s.start(m.lm, with[1:]); err != nil {
			stop()
			return nil, nil, nil, err
		}
		servers = append(servers, s)
		place := fmt.Sprintf(`"addr":"%x"`, servedSlot+i)
		if m.ports {
			args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%[1]d,"+
				"slot=%[1]d,addr=%x", i+1, servedSlot+i))
			place = fmt.Sprintf(`"bus":"port%d","id":"served%[1]d"`, i+1)
		}
		args = append(args, "-device", fmt.Sprintf(`{"driver":"vfio-user-pci",%s,`+
			`"socket":{"path":"%s","type":"unix"}}`, place, s.socket))
	}
	return args, servers, stop, nil
}

// servedSlot is the PCI slot of the first device of m.with.
const servedSlot = 8

// start returns when the server listens: it says so in its first line.
func (s *served) start(lm string, more []string) error {
	s.process = exec.Command(lm,
		append([]string{"serve", "--device", s.device, "--socket", s.socket}, more...)...)
	// boot keeps the thread
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.process.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	s.said, s.reader = &strings.Builder{}, make(chan struct{})
	go func() {
		defer close(s.reader)
		_, _ = io.Copy(s.said, lines) // ends with the process
	}()
	if err != nil || !strings.Contains(first, "listens on") {
		_ = s.wait()
		return &unserved{s.process.ProcessState.ExitCode(),
			fmt.Sprintf("lm serve --device %s: %s%s", s.device, first, s.said)}
	}
	return nil
}

// wait gives the server's end, with what it said where that is not 0.
func (s *served) wait() error {
	<-s.reader
	if err := s.process.Wait(); err != nil {
		return fmt.Errorf("lm serve --device %s: %w\n%s", s.device, err, s.said)
	}
	return nil
}

// finish waits for servers whose client has left.
func finish(servers []*served) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.wait())
	}
	return err
}
