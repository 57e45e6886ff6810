package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// qemuMonitor is a connection to QEMU's monitor, which reports events. It consists of a pipe to
// the monitor and one from it. They stay open in this process, so that no data in them are lost.
type qemuMonitor struct{ to, from *os.File }

// start creates the pipes in a directory, and returns QEMU's arguments for the monitor.
func (m *qemuMonitor) start(t *testing.T, dir string) (qemuArgs []string) {
	t.Helper()
	path := filepath.Join(dir, "monitor")
	pipe := func(name string) *os.File {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	m.to, m.from = pipe(path+".in"), pipe(path+".out")
	// The monitor reports events only after this command.
	if _, err := m.to.WriteString(`{"execute": "qmp_capabilities"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	return []string{"-chardev", "pipe,id=monitor,path=" + escapeCommas(path), "-mon",
		"chardev=monitor,mode=control"}
}

// events returns the text that the monitor has sent. QEMU must have ended.
func (m *qemuMonitor) events(t *testing.T) string {
	t.Helper()
	const end = "end of events\n"
	if _, err := m.from.WriteString(end); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for chunk := make([]byte, 4096); !bytes.HasSuffix(text, []byte(end)); {
		n, err := m.from.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, chunk[:n]...)
	}
	return string(text)
}

// fileExists reports whether a path exists.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// requests receives the console, and does what the guest asks for in a line `host: qemu COMMAND`
// or `host: kill-server`.
type requests struct {
	run     *scenarioRun
	partial string
}

// Write implements io.Writer.
func (q *requests) Write(text []byte) (int, error) {
	q.partial += string(text)
	for {
		line, rest, complete := strings.Cut(q.partial, "\n")
		if !complete {
			return len(text), nil
		}
		q.partial = rest
		if command, ok := strings.CutPrefix(line, "host: qemu "); ok {
			const format = `{"execute": "human-monitor-command", "arguments": ` +
				`{"command-line": "%s"}}` + "\n"
			if _, err := fmt.Fprintf(q.run.monitor.to, format, command); err != nil {
				return 0, err
			}
		} else if line == "host: kill-server" {
			_ = q.run.servers[0].command.Process.Kill()
		}
	}
}

// reinsertDevices adds each device again after its slot has lost power. QEMU then removes the
// device, although a card would stay in the slot. qemuArgs are QEMU's arguments for the devices.
func (m *qemuMonitor) reinsertDevices(qemuArgs []string) {
	devices := map[string]string{} // arguments of device_add, by id
	for _, argument := range qemuArgs {
		var device struct{ ID string }
		if json.Unmarshal([]byte(argument), &device) == nil && device.ID != "" {
			devices[device.ID] = argument
		}
	}
	lines := bufio.NewScanner(m.from) // ends when the test closes the pipe
	for lines.Scan() {
		var event struct {
			Event string
			Data  struct{ Device string }
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Event == "DEVICE_DELETED" &&
			devices[event.Data.Device] != "" {
			arguments := devices[event.Data.Device]
			command := `{"execute": "device_add", "arguments": ` + arguments + "}\n"
			if _, err := m.to.WriteString(command); err != nil {
				return
			}
		}
	}
}
