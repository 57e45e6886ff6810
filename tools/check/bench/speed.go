package main

import "lightmetal/tools/image/lmb"

// measureWrites measures the cost of a register write: for many writes of one width, for
// alternating widths as in recordings, and for addresses all over a device that is larger than the
// caches. It also measures the cost of a limit on the run's time.
func (b *bench) measureWrites() {
	const count = 10_000
	for _, kind := range []struct {
		what        string
		maxRatio    float64
		makeCommand func(i int) lmb.Command
	}{
		{"32-bit register write", 1.1, write32},
		{"writes of 32 and 64 bits in turn, runs of one", 1.5,
			func(i int) lmb.Command { return writeCommand(4<<(i%2), i) }},
		{"32-bit writes all over 32 MiB", 1.5, scatteredWrite},
	} {
		image := newImage()
		addSequence(image, "main", makeCommands(count, kind.makeCommand))
		b.compareRuns(comparison{what: kind.what, unit: "ns",
			goal: goal{ratioAtMost, kind.maxRatio}}, image, nil, perCommand(count))
	}
	b.withSides(writesImage(count), nil, func(ours, _ *side) {
		b.compare(comparison{what: "a command of a run with a time limit", unit: "ns",
			ours: b.sampleRequest(ours.runRequest(1, oneHourLimit), perCommand(count)),
			others: []alternative{{"without a limit",
				b.sampleRequest(ours.runRequest(1, 0), perCommand(count))}},
			goal: goal{excessAtMost, 1}})
	})
}

// oneHourLimit is the argument way with which our side sets a limit of one hour on each run.
const oneHourLimit = 1

// measureBlocks measures copies of payload to the device.
func (b *bench) measureBlocks() {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		count := max(1, min(64, 4<<20/size))
		data := randomBytes(count * size)
		image := newImage()
		addSequence(image, "main", makeCommands(count, func(i int) lmb.Command {
			return copyInCommand(i*size, data[i*size:(i+1)*size])
		}))
		b.compareRuns(comparison{what: "block of " + lmb.SizeText(uint64(size)), unit: "GB/s",
			goal: goal{ratioAtLeast, 0.95}}, image, nil, gigabytesPerSecond(len(data)))
	}
}

// measureLoads measures opening, verifying, loading and closing an image: what each command costs
// beyond reading the file, and how fast the checksums of much payload are.
func (b *bench) measureLoads() {
	const count, payload = 1_000_000, 64 << 20
	b.withSides(writesImage(count), nil, func(ours, _ *side) {
		b.compare(comparison{what: "load + verify 1e6 commands, a command", unit: "ns",
			ours: b.sampleRequest(ours.requestByName("load"), perCommand(count)),
			others: []alternative{{"the envelope's private read",
				b.sampleRequest(ours.requestByName("read"), perCommand(count))}},
			goal: goal{excessAtMost, 12}})
	})
	b.withSides(payloadImage(payload), nil, func(ours, tuned *side) {
		speed := gigabytesPerSecond(payload)
		b.compare(comparison{
			what: "load + verify " + lmb.SizeText(payload) + " of payload", unit: "GB/s",
			ours: b.sampleRequest(ours.requestByName("load"), speed),
			others: []alternative{
				{"the same bytes hashed by Go", b.sampleRequest(ours.requestByName("hash"), speed)},
				{"the same bytes hashed by C", b.sampleRequest(tuned.requestByName("hash"), speed)},
			},
			goal: goal{ratioAtLeast, 0.9}})
	})
}
