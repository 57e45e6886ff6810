package main

import "lightmetal/tools/image/lmb"

// measureWrites measures the cost of a register write: for many writes of one width, and for
// alternating widths as in recordings.
func (b *bench) measureWrites() {
	const count = 10_000
	turns := makeCommands(count, func(i int) lmb.Command { return writeCommand(4<<(i%2), i) })
	b.compareRuns(comparison{what: "32-bit register write", unit: "ns", goal: goal{ratioAtMost,
		0.8}}, newImage(writes(count)), nil, perCommand(count))
	b.compareRuns(comparison{what: "writes of 32 and 64 bits in turn, runs of one", unit: "ns",
		goal: goal{ratioAtMost, 1.1}}, newImage(turns), nil, perCommand(count))
}

// measureBlocks measures copies of payload to the device.
func (b *bench) measureBlocks() {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		count := max(1, min(64, 4<<20/size))
		data := randomBytes(count * size)
		image := newImage(makeCommands(count, func(i int) lmb.Command {
			return copyInCommand(i*size, data[i*size:(i+1)*size])
		}))
		b.compareRuns(comparison{what: "block of " + lmb.SizeText(uint64(size)), unit: "GB/s",
			goal: goal{ratioAtLeast, 0.95}}, image, nil,
			func(nanoseconds float64) float64 { return float64(len(data)) / nanoseconds })
	}
}

// measureLoads measures opening, verifying, loading and closing an image: what each command costs
// beyond reading the file.
func (b *bench) measureLoads() {
	const count = 1_000_000
	b.withSides(newImage(writes(count)), nil, func(ours, _ *side) {
		sample := func(word string) sampler {
			return b.sampleRequest(func(n int) int64 { return ours.query(word, n)[0] },
				perCommand(count))
		}
		b.compare(comparison{what: "load + verify 1e6 commands, a command", unit: "ns",
			ours: sample("load"), others: []alternative{{"the envelope's private read",
				sample("read")}}, goal: goal{excessAtMost, 12}})
	})
}
