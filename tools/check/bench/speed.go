package main

import (
	"fmt"

	"lightmetal/tools/image/lmb"
)

// writes measures what a register write costs: many alike, runs of one as in
// recordings, and all over a target that caches do not hold; and what a limit adds.
func (b *bench) writes() {
	const count = 10_000
	for _, kind := range []struct {
		what string
		most float64
		one  func(i int) lmb.Command
	}{
		{"32-bit register write", 1.10, func(i int) lmb.Command { return write(4, i) }},
		{"writes of 32 and 64 bits in turn, runs of one", 1.5,
			func(i int) lmb.Command { return write(4<<(i%2), i) }},
		{"32-bit writes all over 32 MiB", 1.5, scattered},
	} {
		image := newImage()
		add(image, "main", repeat(count, kind.one))
		b.on("writes", image, func(p *pair, _ int64) {
			r := b.besideBest("goals", kind.what, 0, 1./count, p)
			b.add(r.atMost(*r.Ratio, kind.most, fmt.Sprintf("<= %.2f x best C", kind.most)))
		})
	}
	b.on("limit", writesImage(count), func(p *pair, _ int64) {
		took := measure(b.rounds, b.atLeast, p.ours.run(1, 0), p.ours.run(1, limited))
		r := row{Section: "goals", What: "a limit on the run's time, a command", Unit: "ns",
			Ours: value(longer(took[1], took[0]) / count)}
		b.add(r.atMost(*r.Ours, 1, "<= 1 ns"))
	})
}

// limited is the way of our side in which runs have a limit.
const limited = 1

// blocks measures copies of payload to the device: ours to a plain mapping and
// with the stores for a write-combining one, C's by memcpy and by streaming stores.
func (b *bench) blocks() {
	b.on("blocks", blocksImage(), func(p *pair, _ int64) {
		for i, size := range blockSizes {
			combining := i + len(blockSizes)
			took := measure(b.rounds, b.atLeast, p.ours.run(i, 0), p.ours.run(combining, 0),
				p.c.run(i, 0), p.c.run(i, 1), p.player.run(i, 0))
			what, bytes := "block of "+lmb.SizeText(uint64(size)), float64(size*blockCount(size))
			way := best(took[2:4])
			r := speed("goals", what+", plain mapping", bytes, took[0], took[2+way])
			r.Note = "C's best: " + []string{"memcpy", "streaming stores"}[way]
			b.add(r.atLeast(*r.Ratio, 0.95, ">= 0.95 x C's best"))
			r = speed("goals", what+", combining mapping", bytes, took[1], took[3])
			r.Note = "C by streaming stores"
			b.add(r)
			b.playerRows = append(b.playerRows, speed(besidePlayer, what, bytes, took[0], took[4]))
		}
	})
}

// speed is a row of GB/s, of which more is better.
func speed(section, what string, bytes float64, ours, c []float64) row {
	all := ratios(c, ours)
	return row{
		Section: section, What: what, Unit: "GB/s",
		Ours: value(bytes / median(ours)), C: value(bytes / median(c)),
		Ratio: value(median(all)), Spread: value(quantile(all, 0.75) - quantile(all, 0.25)),
	}
}

// loads measures open, verify, load and close: of an image of many commands
// and of one of much payload, next to hashing the same file.
func (b *bench) loads() {
	const count, payload = 1_000_000, 64 << 20
	hashed := func(p *pair, what string, size int64) [][]float64 {
		took := measure(b.rounds, b.atLeast, p.ours.each("load"), p.c.each("load"),
			p.ours.each("hash"), p.c.each("hash"))
		best, name := took[2], "Go's"
		if median(took[3]) < median(took[2]) {
			best, name = took[3], "C's"
		}
		r := speed("goals", "load + verify "+what+" beside hashing", float64(size), took[0], best)
		r.Note = "the hash is " + name + ", the faster one"
		if size > payload { // mostly payload: one pass of sums
			r = r.atLeast(*r.Ratio, 0.9, ">= 0.9 x hash")
		}
		b.add(r)
		return took
	}
	b.on("commands", writesImage(count), func(p *pair, size int64) {
		took := hashed(p, "1e6 commands", size)
		r := versus("goals", "load + verify, a command", "ns", 1./count, took[0], took[1])
		r.Note = "C is the player, which reads the file in place"
		b.add(r)
		took = measure(b.rounds, b.atLeast, p.ours.each("load"), p.ours.each("read"))
		each := longer(took[0], took[1]) / count
		r = row{Section: "goals", What: "the same, beyond the envelope's private read", Unit: "ns",
			Ours: value(each)}
		b.add(r.atMost(each, 12, "<= 12 ns"))
	})
	b.on("payload", payloadImage(payload), func(p *pair,
		size int64) {
		hashed(p, lmb.SizeText(payload), size)
	})
}
