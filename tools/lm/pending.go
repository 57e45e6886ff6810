package main

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// pendingOutputs are the outputs of this process. A signal that ends it removes the temporary files
// of uncommitted outputs.
type pendingOutputs struct {
	mutex sync.Mutex
	list  files.Outputs
	watch sync.Once
	// Called for the next signal, instead of ending the process.
	handler atomic.Pointer[func(unix.Signal)]
}

var pending pendingOutputs

// openOutput opens an output that replaces the file at path when it is committed.
func openOutput(path string, mode uint32) (*files.Output, error) {
	pending.watch.Do(pending.awaitSignals)
	pending.mutex.Lock()
	defer pending.mutex.Unlock()
	f, err := files.OpenToReplace(path, mode)
	if err == nil {
		pending.list = append(pending.list, f)
	}
	return f, err
}

// handleNext calls `handle` instead of ending the process when the next signal arrives.
func (p *pendingOutputs) handleNext(handle func(unix.Signal)) {
	p.watch.Do(p.awaitSignals)
	p.handler.Store(&handle)
}

// awaitSignals catches signals from here on, except those that are ignored, as under nohup.
func (p *pendingOutputs) awaitSignals() {
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		for s := range signals {
			if handle := p.handler.Swap(nil); handle != nil {
				(*handle)(s.(unix.Signal))
			} else {
				p.removeAndEnd(s.(unix.Signal))
			}
		}
	}()
}

// removeAndEnd ends the process by a signal, as if it had not been caught. It waits only a moment
// for an open(2), which waits for the reader of a pipe.
func (p *pendingOutputs) removeAndEnd(by unix.Signal) {
	for range 10 {
		if p.mutex.TryLock() {
			p.list.Discard()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	signal.Reset(by)
	_ = unix.Kill(os.Getpid(), by)
}
