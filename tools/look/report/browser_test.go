package report

// A client of Chromium's DevTools, so that tests can measure the page and take pictures of it.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browserTimeout is more than all tests of one browser take, on a machine that does other things.
const browserTimeout = 3 * time.Minute

// browserPrograms are names of programs that speak the protocol.
var browserPrograms = []string{"chromium", "chromium-browser", "google-chrome"}

// browserFlags make a browser without windows that sends nothing to a network and keeps nothing.
var browserFlags = []string{"--headless", "--remote-debugging-pipe", "--no-sandbox",
	"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
	"--host-resolver-rules=MAP * ~NOTFOUND"}

// browser is a running browser with one tab.
type browser struct {
	t        *testing.T
	program  *exec.Cmd
	commands *os.File
	answers  *bufio.Reader
	last     int    // id of the last command
	tab      string // session of the tab
	requests []string
}

// message is a command, an answer or an event. Messages end with a zero byte.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts a browser that ends with the test. Without one the test is skipped.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range browserPrograms {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("the page is not measured in a browser: no " + strings.Join(browserPrograms, ", ") +
			" here (Debian package chromium)")
	}
	folder, err := os.MkdirTemp("", "lm-browser-")
	if err != nil {
		t.Fatal(err)
	}
	childReads, commands := pipe(t)
	answers, childWrites := pipe(t)
	b := &browser{t: t, commands: commands, answers: bufio.NewReader(answers)}
	b.program = exec.Command(path, append(browserFlags, "--user-data-dir="+folder)...)
	b.program.ExtraFiles = []*os.File{childReads, childWrites} // the protocol's descriptors 3 and 4
	b.program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.program.Start(); err != nil {
		t.Fatal(err)
	}
	childReads.Close()
	childWrites.Close()
	kill := func() { syscall.Kill(-b.program.Process.Pid, syscall.SIGKILL) }
	overtime := time.AfterFunc(browserTimeout, kill)
	t.Cleanup(func() {
		overtime.Stop()
		kill()
		b.program.Wait()
		commands.Close()
		answers.Close()
		os.RemoveAll(folder)
	})
	b.openTab()
	return b
}

func pipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return reader, writer
}

func (b *browser) openTab() {
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
		&session)
	b.tab = session.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Network.enable", nil, nil)
}

// call sends a command and waits for its answer.
func (b *browser) call(method string, params any, result any) {
	b.t.Helper()
	b.last++
	line, err := json.Marshal(message{ID: b.last, Session: b.tab, Method: method, Params: params})
	if err == nil {
		_, err = b.commands.Write(append(line, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	answer := b.await(method, func(m *message) bool { return m.ID == b.last })
	if answer.Error != nil {
		b.t.Fatalf("%s: the browser answers %s", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.t.Fatalf("%s: %v in %.300s", method, err, answer.Result)
		}
	}
}

// await reads messages up to one that is wanted, and notes what the page requests.
func (b *browser) await(what string, wanted func(*message) bool) *message {
	b.t.Helper()
	for {
		text, err := b.answers.ReadBytes(0)
		if errors.Is(err, io.EOF) {
			b.t.Fatalf("%s: the browser has ended, or took more than %v", what, browserTimeout)
		}
		var m message
		var event struct {
			Params struct{ Request struct{ URL string } }
		}
		err = errors.Join(err, json.Unmarshal(text[:max(0, len(text)-1)], &m))
		if err != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
		if m.Method == "Network.requestWillBeSent" {
			json.Unmarshal(text[:len(text)-1], &event)
			b.requests = append(b.requests, event.Params.Request.URL)
		}
		if wanted(&m) {
			return &m
		}
	}
}

// view is how a page is looked at.
type view struct {
	width, height int
	dark          bool
}

func (v view) String() string {
	theme := "light"
	if v.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%d-%s", v.width, theme)
}

// show opens a file in a view and waits until it is loaded.
func (b *browser) show(path string, v view) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width,
		"height": v.height, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme := map[bool]string{false: "light", true: "dark"}[v.dark]
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.requests = nil
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.await("load", func(m *message) bool { return m.Method == "Page.loadEventFired" })
}

// evaluate evaluates a function of the page, and decodes what it returns.
func (b *browser) evaluate(function string, result any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "(" + function + ")()",
		"returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("the page's function failed: %s", answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		b.t.Fatalf("%v in %.300s", err, answer.Result.Value)
	}
}

// picture returns the top of the page as a PNG file, height pixels of it or, if height is 0, all.
func (b *browser) picture(width, height int) []byte {
	b.t.Helper()
	if height == 0 {
		b.evaluate("function () { return document.documentElement.scrollHeight; }", &height)
	}
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}},
		&shot)
	return shot.Data
}
