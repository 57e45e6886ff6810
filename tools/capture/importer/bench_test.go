package importer

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"lightmetal/tools/image/lmb"
)

// BenchmarkImport imports recordings of a million accesses and encodes the images. It reports how
// many bytes it allocates for each access, including those of the file, which bounds the memory
// that an import needs.
func BenchmarkImport(b *testing.B) {
	for _, c := range []struct{ name, access string }{
		{"RegisterStores", "W 1 %x 4 %08x\n"},
		{"RegisterLoads", "R 1 %x 4 %08x\n"},
		{"ByteStores", "W 1 %x 1 %02x\n"},
	} {
		const accesses = 1 << 20
		text := recordOfAccesses(accesses, c.access)
		b.Run(c.name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				image, _, err := ImportPacked(bytes.NewReader(text), Options{From: FromRecord})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := lmb.Encode(image); err != nil {
					b.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			all := float64(b.N) * accesses
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/access")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/access")
		})
	}
}

// recordOfAccesses returns a recording of accesses to the memory of an ivshmem device: adjacent
// bytes, or words with gaps between them. access is the format of a line, with offset and value. A
// CLK line comes before each access.
func recordOfAccesses(accesses int, access string) []byte {
	text := []byte("LMRECORD 2\nDEVICE 0 1af4 1110 0000:00:02.0\nBAR 0 0 0 0 100\n" +
		"BAR 1 0 2 0 10000000\n")
	stride := 8
	if bytes.Contains([]byte(access), []byte("%02x")) {
		stride = 1
	}
	for i := range accesses {
		text = fmt.Appendf(text, "CLK %d\n", 100+i%50)
		text = fmt.Appendf(text, access, i*stride, i*0x9e37>>4&0xff)
	}
	return fmt.Appendf(text, "END %d\n", 3+2*accesses)
}
