// Accesses to a mapped file as programs in Go make them to a BAR:
//
//	patterns FILE
//
// It prints those whose number and order the compiler does not choose.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

type block struct {
	a [5]uint64
	b uint32
	c [12]byte
}

//go:noinline
func store(p *uint32, at int, v uint32) {
	*p = v
	fmt.Printf("= W %x 4 %x\n", at, binary.LittleEndian.AppendUint32(nil, v))
}

func load(p *uint32, at int) {
	fmt.Printf("= R %x 4 %x\n", at, binary.LittleEndian.AppendUint32(nil, atomic.LoadUint32(p)))
}

func main() {
	file, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	bar, err := syscall.Mmap(int(file.Fd()), 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	at := func(offset int) *uint32 { return (*uint32)(unsafe.Pointer(&bar[offset])) }
	for i := range 50 {
		store(at(8*i), 8*i, uint32(i)*0x01020304)
		load(at(8*i), 8*i)
	}
	if len(os.Args) > 2 {
		return
	}
	from := make([]byte, 20000)
	for i := range from {
		from[i] = byte(i*7 + i/256)
	}
	sum := 0
	for n := 1; n < len(from); n = n*3/2 + 1 {
		copy(bar[4096:], from[:n])
		copy(bar[40001:], bar[4096:4096+n])
		clear(bar[80000 : 80000+n])
		back := bytes.Clone(bar[40001 : 40001+n])
		sum += len(back) + bytes.Compare(back, from[:n]) + bytes.IndexByte(bar[4096:4096+n],
			200) + bytes.Count(bar[4096:4096+n], []byte{7})
	}
	one := block{[5]uint64{1, 2, 3, 4, 5}, 6, [12]byte{7}}
	*(*block)(unsafe.Pointer(&bar[0x20000])) = one
	two := *(*block)(unsafe.Pointer(&bar[0x20000]))
	binary.BigEndian.PutUint64(bar[0x20100:], 0x0102030405060708)
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range 100 {
				*at(0x30000 + 4096*g) += uint32(i)
			}
		}()
	}
	wait.Wait()
	fmt.Println(sum, two == one, binary.LittleEndian.Uint64(bar[0x20100:]), *at(0x30000 + 4096*7))
}
