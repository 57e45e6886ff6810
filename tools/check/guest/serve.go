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

// server is a process `lm serve`. It serves a mock or a recording to the machine as a PCI device.
type server struct {
	device, socket string           // values of the flags --device and --socket
	command        *exec.Cmd        // the running process
	stderr         *strings.Builder // standard error of the process after its first line
	stderrEnd      chan struct{}    // closed when stderr is complete
}

// serverStartError is the error of a server that ended before it listened.
type serverStartError struct {
	status int    // exit status of the process
	text   string // message, with the standard error of the process
}

// Error implements error.
func (e *serverStartError) Error() string { return e.text }

// startServers starts a server for each of m.servedDevices. It returns QEMU's arguments for these
// devices, and a function that ends all servers. The sockets are in a temporary directory, because
// the path of a socket must be short.
func (m *machine) startServers() (args []string, servers []*server, stop func(), err error) {
	if len(m.servedDevices) == 0 {
		return nil, nil, func() {}, nil
	}
	socketDir, err := os.MkdirTemp("", "lm-")
	if err != nil {
		return nil, nil, nil, err
	}
	stop = func() {
		for _, s := range servers {
			_ = s.command.Process.Kill() // fails if the process has ended already
			_ = s.wait()
		}
		os.RemoveAll(socketDir)
	}
	for i, device := range m.servedDevices {
		s := &server{device: device[0], socket: filepath.Join(socketDir, fmt.Sprint(i))}
		if err := s.start(m.lmProgram, device[1:]); err != nil {
			stop()
			return nil, nil, nil, err
		}
		servers = append(servers, s)
		slotOption := fmt.Sprintf(`"addr":"%x"`, firstServedSlot+i)
		if m.rootPorts {
			args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%[1]d,"+
				"slot=%[1]d,addr=%x", i+1, firstServedSlot+i))
			slotOption = fmt.Sprintf(`"bus":"port%d","id":"served%[1]d"`, i+1)
		}
		args = append(args, "-device", fmt.Sprintf(`{"driver":"vfio-user-pci",%s,`+
			`"socket":{"path":"%s","type":"unix"}}`, slotOption, s.socket))
	}
	return args, servers, stop, nil
}

// firstServedSlot is the PCI slot of the first device of m.servedDevices.
const firstServedSlot = 8

// start starts the process, and waits until it prints that it listens, in its first line.
func (s *server) start(lmProgram string, extraArgs []string) error {
	s.command = exec.Command(lmProgram,
		append([]string{"serve", "--device", s.device, "--socket", s.socket}, extraArgs...)...)
	// Pdeathsig refers to the thread, which boot keeps alive with LockOSThread.
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.command.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	s.stderr, s.stderrEnd = &strings.Builder{}, make(chan struct{})
	go func() {
		defer close(s.stderrEnd)
		_, _ = io.Copy(s.stderr, lines) // returns when the process ends
	}()
	if err != nil || !strings.Contains(first, "listens on") {
		_ = s.wait()
		return &serverStartError{s.command.ProcessState.ExitCode(),
			fmt.Sprintf("lm serve --device %s: %s%s", s.device, first, s.stderr)}
	}
	return nil
}

// wait waits until the process ends. If the exit status is not 0, wait returns an error that
// contains the standard error of the process.
func (s *server) wait() error {
	<-s.stderrEnd
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("lm serve --device %s: %w\n%s", s.device, err, s.stderr)
	}
	return nil
}

// waitForServers waits until all servers end, which they do after QEMU has disconnected. It
// returns the errors of those that failed.
func waitForServers(servers []*server) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.wait())
	}
	return err
}
