package report

// A client of Chromium's DevTools protocol, with which tests measure the page and take pictures of
// it.

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

	"lightmetal/tools/check/effort"
)

// browserTimeout is longer than all tests of one browser take, even on a busy machine.
const browserTimeout = 3 * time.Minute

// browserPrograms are the names of browsers that have the protocol.
var browserPrograms = []string{"chromium", "chromium-browser", "google-chrome"}

// browserFlags start a browser without windows that sends nothing to a network and stores nothing.
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
	lastID   int      // id of the last command
	tab      string   // session of the tab
	requests []string // URLs that the page has requested
}

// message is a command, an answer or an event. A zero byte ends a message.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts a browser that ends with the test. If there is no browser, startBrowser skips
// the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	effort.SkipShort(t)
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

// pipe returns the two ends of a new pipe.
func pipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return reader, writer
}

// openTab opens a tab and enables its events.
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
	b.lastID++
	line, err := json.Marshal(message{ID: b.lastID, Session: b.tab, Method: method, Params: params})
	if err == nil {
		_, err = b.commands.Write(append(line, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	answer := b.await(method, func(m *message) bool { return m.ID == b.lastID })
	if answer.Error != nil {
		b.t.Fatalf("%s: the browser answers %s", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.t.Fatalf("%s: %v in %.300s", method, err, answer.Result)
		}
	}
}

// await reads messages until `wanted` returns true for one, which await returns. It also records
// what the page requests.
func (b *browser) await(what string, wanted func(*message) bool) *message {
	b.t.Helper()
	for {
		text, err := b.answers.ReadBytes(0)
		if errors.Is(err, io.EOF) {
			b.t.Fatalf("%s: the browser has ended, or was stopped after %v", what, browserTimeout)
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

// viewport is a size of the window and a colour theme.
type viewport struct {
	width, height int
	dark          bool
}

func (v viewport) String() string {
	theme := "light"
	if v.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%d-%s", v.width, theme)
}

// show opens a file with a viewport and waits until it is loaded.
func (b *browser) show(path string, v viewport) {
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

// evaluate calls a function in the page and decodes its result.
func (b *browser) evaluate(function string, result any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "(" + function + ")()",
		"returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("the function that measures the page failed: %s", answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		b.t.Fatalf("the function returned an unexpected result: %v in %.300s", err,
			answer.Result.Value)
	}
}

// picture returns the top of the page as a PNG file: height pixels, or the complete page if height
// is 0.
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
