package main

import (
	"fmt"

	"lightmetal/tools/image/lmb"
)

// measureWrites measures the cost of a register write: for many writes of one width, for
// alternating widths as in recordings, and for addresses all over a device that is larger than the
// caches. It also measures the cost of a limit on the run's time.
func (b *bench) measureWrites() {
	const count = 10_000
	for _, kind := range []struct {
		label       string
		maxRatio    float64
		makeCommand func(i int) lmb.Command
	}{
		{"32-bit register write", 1.10, write32},
		{"writes of 32 and 64 bits in turn, runs of one", 1.5,
			func(i int) lmb.Command { return writeCommand(4<<(i%2), i) }},
		{"32-bit writes all over 32 MiB", 1.5, scatteredWrite},
	} {
		image := newImage()
		addSequence(image, "main", makeCommands(count, kind.makeCommand))
		b.withPair("writes", image, func(p *pair, _ int64) {
			r := b.compareWithBest("goals", kind.label, 0, 1./count, p)
			b.add(r.atMost(*r.Ratio, kind.maxRatio, fmt.Sprintf("<= %.2f x best C", kind.maxRatio)))
		})
	}
	b.withPair("limit", writesImage(count), func(p *pair, _ int64) {
		took := measure(b.rounds, b.minTime, p.ours.runRequest(1, 0),
			p.ours.runRequest(1, oneHourLimit))
		r := row{Section: "goals", What: "a limit on the run's time, a command", Unit: "ns",
			Ours: pointerTo(medianDifference(took[1], took[0]) / count)}
		b.add(r.atMost(*r.Ours, 1, "<= 1 ns"))
	})
}

// oneHourLimit is the argument way with which our side sets a limit of one hour on each run.
const oneHourLimit = 1

// measureBlocks measures copies of payload to the device. Our side copies to a plain mapping, and
// with the stores for a write-combining mapping; C copies with memcpy, and with streaming stores.
func (b *bench) measureBlocks() {
	b.withPair("blocks", blocksImage(), func(p *pair, _ int64) {
		for i, size := range blockSizes {
			combining := i + len(blockSizes)
			took := measure(b.rounds, b.minTime, p.ours.runRequest(i, 0),
				p.ours.runRequest(combining, 0),
				p.tuned.runRequest(i, 0), p.tuned.runRequest(i, 1), p.player.runRequest(i, 0))
			what, bytes := "block of "+lmb.SizeText(uint64(size)), float64(size*blockCount(size))
			way := fastest(took[2:4])
			r := compareSpeeds("goals", what+", plain mapping", bytes, took[0], took[2+way])
			r.Note = "C's best: " + []string{"memcpy", "streaming stores"}[way]
			b.add(r.atLeast(*r.Ratio, 0.95, ">= 0.95 x C's best"))
			r = compareSpeeds("goals", what+", combining mapping", bytes, took[1], took[3])
			r.Note = "C by streaming stores"
			b.add(r)
			b.playerRows = append(b.playerRows,
				compareSpeeds(playerSection, what, bytes, took[0], took[4]))
		}
	})
}

// compareSpeeds returns a row of speeds in GB/s. Higher is better.
func compareSpeeds(section, what string, bytes float64, ours, c []float64) row {
	all := ratios(c, ours)
	return row{
		Section: section, What: what, Unit: "GB/s",
		Ours: pointerTo(bytes / median(ours)), C: pointerTo(bytes / median(c)),
		Ratio: pointerTo(median(all)), Spread: pointerTo(quantile(all, 0.75) - quantile(all, 0.25)),
	}
}

// measureLoads measures opening, verifying, loading and closing an image, once with many commands
// and once with much payload. It compares the time with that of hashing the same file.
func (b *bench) measureLoads() {
	const count, payload = 1_000_000, 64 << 20
	compareWithHash := func(p *pair, what string, size int64) [][]float64 {
		took := measure(b.rounds, b.minTime, p.ours.requestByName("load"),
			p.tuned.requestByName("load"),
			p.ours.requestByName("hash"), p.tuned.requestByName("hash"))
		best, name := took[2], "Go's"
		if median(took[3]) < median(took[2]) {
			best, name = took[3], "C's"
		}
		r := compareSpeeds("goals", "load + verify "+what+" beside hashing", float64(size), took[0],
			best)
		r.Note = "the hash is " + name + ", the faster one"
		if size > payload { // mostly payload: one pass that computes checksums
			r = r.atLeast(*r.Ratio, 0.9, ">= 0.9 x hash")
		}
		b.add(r)
		return took
	}
	b.withPair("commands", writesImage(count), func(p *pair, size int64) {
		took := compareWithHash(p, "1e6 commands", size)
		r := compareTimes("goals", "load + verify, a command", "ns", 1./count, took[0], took[1])
		r.Note = "C is the player, which reads the file in place"
		b.add(r)
		took = measure(b.rounds, b.minTime, p.ours.requestByName("load"),
			p.ours.requestByName("read"))
		each := medianDifference(took[0], took[1]) / count
		r = row{Section: "goals", What: "the same, beyond the envelope's private read", Unit: "ns",
			Ours: pointerTo(each)}
		b.add(r.atMost(each, 12, "<= 12 ns"))
	})
	b.withPair("payload", payloadImage(payload), func(p *pair,
		size int64) {
		compareWithHash(p, lmb.SizeText(payload), size)
	})
}
