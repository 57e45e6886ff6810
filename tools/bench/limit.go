package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a memory limit that a process can be started under.
type cgroup struct {
	dir  string
	v2   bool
	peak string // file that holds the most memory that was in use
}

// newCgroup makes a group below this process's own. The error says in a word
// why it cannot be had.
func newCgroup(limit int64) (*cgroup, error) {
	g, err := findCgroup()
	if err != nil {
		return nil, err
	}
	g.dir = filepath.Join(g.dir, "lightmetal-bench-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	file := "memory.limit_in_bytes"
	g.peak = "memory.max_usage_in_bytes"
	if g.v2 {
		file, g.peak = "memory.max", "memory.peak"
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		os.Remove(g.dir)
		return nil, err
	}
	return g, nil
}

// findCgroup finds where groups with a memory limit can be made, in either
// version of the kernel's interface.
func findCgroup() (*cgroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	const root = "/sys/fs/cgroup"
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			if controller == "memory" {
				return &cgroup{dir: firstDir(filepath.Join(root, "memory", parts[2]), filepath.Join(root, "memory"))}, nil
			}
		}
	}
	// A version 2 group that has processes gives its children no controllers; the root does.
	if _, err := os.Stat(filepath.Join(root, "cgroup.subtree_control")); err != nil {
		return nil, fmt.Errorf("no memory controller in %s", root)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0o644); err != nil {
		return nil, err
	}
	return &cgroup{dir: root, v2: true}, nil
}

func firstDir(paths ...string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return paths[len(paths)-1]
}

// remove takes the group away once its processes are gone, which the kernel
// notices a little later than their parent.
func (g *cgroup) remove() {
	for range 100 {
		if err := os.Remove(g.dir); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// memoryLimit replays payload several times as large as the memory that a
// cgroup leaves, from a file that is not in the page cache.
func (b *bench) memoryLimit() error {
	const section = "payload beyond memory"
	limit, size := int64(32<<20), 128<<20
	if b.full {
		limit, size = 64<<20, 512<<20
	}
	path, _, done, err := b.image("limit", payloadImage(size))
	if err != nil {
		return err
	}
	defer done()
	what := fmt.Sprintf("%s in %s", bytesText(size), bytesText(int(limit)))
	free, _, err := b.cold(nil, path)
	if err != nil {
		return err
	}
	group, err := newCgroup(limit)
	if err != nil {
		b.add(row{Section: section, What: what, Note: "skipped: cgroups cannot be used here: " + err.Error()})
		return nil
	}
	defer group.remove()
	limited, peak, err := b.cold(group, path)
	if err != nil {
		return err
	}
	b.add(
		row{Section: section, What: what + ", whole process", Unit: "ms", Ours: value(limited.Seconds() * 1e3),
			Note: fmt.Sprintf("without a limit %.1f ms; the file is read from disk in both", free.Seconds()*1e3)},
		row{Section: section, What: what + ", most in use", Unit: "MiB", Ours: value(float64(peak) / (1 << 20)), Note: "counts the pages of the file, which the kernel takes back"},
	)
	return nil
}

// cold runs load and sequence 1 in a new process, in a group if there is one,
// with the file out of the page cache.
func (b *bench) cold(group *cgroup, path string) (took time.Duration, peak int64, err error) {
	if err := dropPages(path); err != nil {
		return 0, 0, err
	}
	m, err := newMemory(deviceSize + pageSize)
	if err != nil {
		return 0, 0, err
	}
	defer m.close()
	program := []string{b.child}
	if group != nil {
		program = []string{"sh", "-c", "echo $$ >" + filepath.Join(group.dir, "cgroup.procs") + ` && exec "$@"`, "sh", b.child}
	}
	began := time.Now()
	s, err := start(m, path, program...)
	if err != nil {
		return 0, 0, err
	}
	if _, err := s.ask("run", 1, 1, 0); err != nil {
		s.stop()
		return 0, 0, err
	}
	took = time.Since(began)
	if err := s.stop(); err != nil || group == nil {
		return took, 0, err
	}
	text, err := os.ReadFile(filepath.Join(group.dir, group.peak))
	if err == nil {
		peak, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	return took, peak, err
}

// dropPages puts a file's pages out of the page cache.
func dropPages(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}
