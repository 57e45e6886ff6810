package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"

	"lightmetal/tools/importer"
	"lightmetal/tools/lmb"
)

// workload is a trace that is written for a measurement.
type workload struct {
	what, from string
	write      func(w io.Writer, size int)
}

// imports are blocks of a recording, neighbours, polling loops, and what takes
// most: stores to registers of which each becomes a command of its own.
var imports = []workload{
	{"a recording of blocks", importer.FromRecord, recordingOfBlocks},
	{"an mmiotrace of neighbours", importer.FromMmiotrace, traceOfNeighbours},
	{"an mmiotrace of loops", importer.FromMmiotrace, traceOfLoops},
	{"an mmiotrace of single stores", importer.FromMmiotrace, traceOfStores},
}

// importMemory measures what a process takes that imports a trace and encodes
// the image, beyond the image and beyond one that imports next to nothing.
func (b *bench) importMemory() error {
	size := 48 << 20
	if b.full {
		size = 256 << 20
	}
	for _, w := range imports {
		least, _, _, err := b.imported(w, 4096)
		if err != nil {
			return err
		}
		most, input, image, err := b.imported(w, size)
		if err != nil {
			return err
		}
		each := max(0, float64(most-least-image)/float64(input))
		r := row{Section: "goals", What: "import and encode, " + w.what, Unit: "B/B", Ours: value(each),
			Note: fmt.Sprintf("most memory beyond the image, for each byte of %s", bytesText(int(input)))}
		b.add(r.atMost(each, 1.5, "<= 1.5"))
	}
	return nil
}

// imported is the most memory that a process had which imported a trace, the
// size of the trace and of its image, all in bytes.
func (b *bench) imported(w workload, size int) (most, input, image int64, err error) {
	command := exec.Command(os.Args[0], "-import", w.from)
	command.Stderr = os.Stderr
	pipe, err := command.StdinPipe()
	if err != nil {
		return 0, 0, 0, err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		text := bufio.NewWriter(io.MultiWriter(pipe, (*counter)(&input)))
		w.write(text, size)
		text.Flush()
		pipe.Close()
	}()
	out, err := command.Output()
	<-written
	if err != nil {
		return 0, 0, 0, fmt.Errorf("import of %s: %w", w.what, err)
	}
	if _, err := fmt.Sscan(string(out), &image); err != nil {
		return 0, 0, 0, err
	}
	return command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10, input, image, nil
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// importChild is that process: it imports its standard input and prints the
// size of the image.
func importChild(from string) error {
	image, _, err := importer.Import(os.Stdin, importer.Options{From: from})
	if err != nil {
		return err
	}
	encoded, err := lmb.Encode(image)
	if err != nil {
		return err
	}
	_, err = fmt.Println(len(encoded))
	return err
}

const recordHead = "LMRECORD 1\nDEVICE 1e52 401e\nBAR 0 100000000 20000000\nBAR 2 120000000 100000\nBAR 4 800000000 2000000\n"

// recordingOfBlocks stores blocks of 1 MiB to DRAM, through window 166.
func recordingOfBlocks(w io.Writer, size int) {
	random := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, min(1<<20, size))
	fmt.Fprint(w, recordHead)
	n := 0
	for ; 2*n*len(block) < size; n++ {
		for i := 0; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], random.Uint64())
		}
		address := uint64(n) << 20
		fmt.Fprintf(w, "W 0 1fc00530 8 %02x%02x000000000000\n", byte(address>>24), byte(address>>32))
		fmt.Fprintf(w, "W 0 %x %d ", 0xb000000+address&0xffffff, len(block))
		fmt.Fprintln(w, hex.EncodeToString(block))
	}
	fmt.Fprintf(w, "END %d\n", 2*n)
}

const ivshmemHead = "VERSION 20070824\nPCIDEV 0018 1af41110 b 100000000 0 20000000c 0 0 0 0 100 0 40000000 0 0 0 0 \n"

// traceOfNeighbours fills shared memory with 8-byte stores.
func traceOfNeighbours(w io.Writer, size int) {
	random := rand.New(rand.NewPCG(3, 4))
	fmt.Fprint(w, ivshmemHead)
	for n, i := 0, 0; n < size; i++ {
		m, _ := fmt.Fprintf(w, "W 8 %d.%06d 1 0x%x 0x%x 0x0 0\n", i/1e6, i%1e6, 0x200000000+8*i, random.Uint64())
		n += m
	}
}

const eduHead = "VERSION 20070824\nPCIDEV 0010 123411e8 b 100000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 \n"

// traceOfStores stores to edu's registers, never to neighbours.
func traceOfStores(w io.Writer, size int) {
	fmt.Fprint(w, eduHead)
	for n, i := 0, 0; n < size; i++ {
		m, _ := fmt.Fprintf(w, "W 4 %d.%06d 1 0x%x 0x%x 0x0 0\n", i/1e6, i%1e6, 0x100000004+4*(i%2), i)
		n += m
	}
}

// traceOfLoops waits for edu's status register in loops of a thousand loads.
func traceOfLoops(w io.Writer, size int) {
	fmt.Fprint(w, eduHead)
	for n, i := 0, 0; n < size; i++ {
		line := fmt.Sprintf("R 4 %d.%06d 1 0x100000020 0x%d 0x0 0\n", i/1e6, i%1e6, map[bool]int{true: 80, false: 81}[i%1000 == 999])
		if i%1000 == 0 {
			line = fmt.Sprintf("W 4 %d.%06d 1 0x100000008 0x%x 0x0 0\n", i/1e6, i%1e6, i)
		}
		m, _ := io.WriteString(w, line)
		n += m
	}
}
