package main

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instructions counts those of a register write with the processor's counter,
// where time is too noisy for small differences. Virtual machines often have none.
func (b *bench) instructions() error {
	const count, runs = 10_000, 100
	r := row{Section: "instructions", What: "32-bit register write", Unit: "each"}
	return b.on("count", writesImage(count), func(p *pair, _ int64) error {
		for _, side := range []struct {
			side   *side
			result **float64
		}{{p.ours, &r.Ours}, {p.c, &r.C}} {
			n, err := counted(side.side, runs)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) {
				r.Note = "skipped: the processor's counter cannot be read here: " + err.Error()
				b.add(r)
				return nil
			}
			if err != nil {
				return err
			}
			*side.result = value(n / (runs * (count + 1)))
		}
		r.Ratio = value(*r.Ours / *r.C)
		b.add(r)
		return nil
	})
}

// counted is the number of instructions that a program's first thread takes to
// run sequence 1 so many times.
func counted(s *side, runs int) (float64, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, s.command.Process.Pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	// What a request takes besides the runs is the same for few and for many.
	few, err := between(fd, s, runs)
	if err != nil {
		return 0, err
	}
	many, err := between(fd, s, 2*runs)
	return float64(many - few), err
}

// between is what a counter counts while sequence 1 runs.
func between(fd int, s *side, runs int) (uint64, error) {
	var counts [2]uint64
	for i := range counts {
		var data [8]byte
		if _, err := unix.Read(fd, data[:]); err != nil {
			return 0, err
		}
		counts[i] = binary.NativeEndian.Uint64(data[:])
		if i == 0 {
			if _, err := s.ask("run", 1, runs, 0); err != nil {
				return 0, err
			}
		}
	}
	return counts[1] - counts[0], nil
}
