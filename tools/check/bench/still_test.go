package main

import (
	"reflect"
	"testing"
)

func TestSystemCallsAreCountedByThread(t *testing.T) {
	got := callsByThread(`6 execve("child", ["child"]) = 0
7 mmap(NULL, 4096) = 0x1
7 read(0, "run 0 1", 128) = 7
7 read(0, "x", 128) = 1
7 clone(child_stack=0x1, flags=CLONE_VM) = 8
8 nanosleep({tv_sec=0, tv_nsec=20000},  <unfinished ...>
7 futex(0x1, FUTEX_WAKE_PRIVATE, 1) = 1
8 <... nanosleep resumed> NULL) = 0
8 futex(0x1, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
7 +++ exited with 0 +++
`)
	want := map[string]map[string]int64{ownCalls: {"read": 1},
		threadCalls:  {"clone": 1, "futex": 2},
		monitorCalls: {"nanosleep": 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("calls by thread %v, want %v", got, want)
	}
	if n, names := extraCalls(map[string]int64{"read": 1},
		map[string]int64{"read": 3, "write": 1}); n != 3 || names != "2 read, 1 write" {
		t.Errorf("%d extra calls, %q, want 3, \"2 read, 1 write\"", n, names)
	}
}
