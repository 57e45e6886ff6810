package main

import (
	"fmt"

	"lightmetal/tools/lmb"
)

// writes measures what a register write costs: many alike, runs of one as in
// recordings, and all over a target that caches do not hold; and what a limit adds.
func (b *bench) writes() error {
	const count = 10_000
	for _, kind := range []struct {
		what string
		most float64
		one  func(i int) lmb.Command
	}{
		{"32-bit register write", 1.10, func(i int) lmb.Command { return write(4, i) }},
		{"writes of 32 and 64 bits in turn, runs of one", 1.5, func(i int) lmb.Command { return write(4<<(i%2), i) }},
		{"32-bit writes all over 32 MiB", 1.5, scattered},
	} {
		image := newImage()
		add(image, "main", repeat(count, kind.one))
		if err := b.on("writes", image, func(p *pair, _ int64) error {
			r, err := b.besideBest("goals", kind.what, 0, 1./count, p)
			if err == nil {
				b.add(r.atMost(*r.Ratio, kind.most, fmt.Sprintf("<= %.2f x best C", kind.most)))
			}
			return err
		}); err != nil {
			return err
		}
	}
	return b.on("limit", writesImage(count), func(p *pair, _ int64) error {
		took, err := measure(b.rounds, b.atLeast, run(p.ours, 1, 0), run(p.ours, 1, limited))
		if err != nil {
			return err
		}
		r := row{Section: "goals", What: "a limit on the run's time, a command", Unit: "ns", Ours: value(longer(took[1], took[0]) / count)}
		b.add(r.atMost(*r.Ours, 1, "<= 1 ns"))
		return nil
	})
}

// limited is the way of our side in which runs have a limit.
const limited = 1

// blocks measures copies of payload to the device: ours to a plain mapping and
// with the stores for a write-combining one, C's by memcpy and by streaming stores.
func (b *bench) blocks() error {
	return b.on("blocks", blocksImage(), func(p *pair, _ int64) error {
		for i, size := range blockSizes {
			combining := i + len(blockSizes)
			took, err := measure(b.rounds, b.atLeast, run(p.ours, i, 0), run(p.ours, combining, 0), run(p.c, i, 0), run(p.c, i, 1))
			if err != nil {
				return err
			}
			what, bytes := "block of "+bytesText(size), float64(size*blockCount(size))
			way := best(took[2:])
			r := speed("goals", what+", plain mapping", bytes, took[0], took[2+way])
			r.Note = "C's best: " + []string{"memcpy", "streaming stores"}[way]
			b.add(r.atLeast(*r.Ratio, 0.95, ">= 0.95 x C's best"))
			r = speed("goals", what+", combining mapping", bytes, took[1], took[3])
			r.Note = "C by streaming stores"
			b.add(r)
		}
		return nil
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

func bytesText(n int) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprint(n>>30, " GiB")
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprint(n>>20, " MiB")
	}
	return fmt.Sprint(n>>10, " KiB")
}

// loads measures open, verify, load and close: of an image of many commands
// and of one of much payload, next to hashing the same file.
func (b *bench) loads() error {
	const count, payload = 1_000_000, 64 << 20
	hashed := func(p *pair, what string, size int64) ([][]float64, error) {
		took, err := measure(b.rounds, b.atLeast, plainRequest(p.ours, "load"), plainRequest(p.c, "load"),
			plainRequest(p.ours, "hash"), plainRequest(p.c, "hash"))
		if err != nil {
			return nil, err
		}
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
		return took, nil
	}
	err := b.on("commands", writesImage(count), func(p *pair, size int64) error {
		took, err := hashed(p, "1e6 commands", size)
		if err != nil {
			return err
		}
		r := versus("goals", "load + verify, a command", "ns", 1./count, took[0], took[1])
		r.Note = "C maps the file and checks only checksums"
		b.add(r)
		if took, err = measure(b.rounds, b.atLeast, plainRequest(p.ours, "load"), plainRequest(p.ours, "read")); err != nil {
			return err
		}
		each := longer(took[0], took[1]) / count
		r = row{Section: "goals", What: "the same, beyond the envelope's private read", Unit: "ns", Ours: value(each)}
		b.add(r.atMost(each, 8, "<= 8 ns"))
		return nil
	})
	if err != nil {
		return err
	}
	return b.on("payload", payloadImage(payload), func(p *pair, size int64) error {
		_, err := hashed(p, bytesText(payload), size)
		return err
	})
}

// opcodes measures what each kind of command costs.
func (b *bench) opcodes() error {
	image := opcodesImage()
	return b.on("opcodes", image, func(p *pair, _ int64) error {
		for i := range image.Sequences[:callee] {
			r, err := b.besideBest("cost of a command", image.Sequences[i].Name, i, 1./opcodeCount, p)
			if err != nil {
				return err
			}
			b.add(r)
		}
		return nil
	})
}

// scaling measures images of growing size: time a command and a byte.
func (b *bench) scaling() error {
	counts, sizes := []int{1e3, 1e4, 1e5, 1e6}, []int{1 << 20, 16 << 20, 64 << 20}
	if b.full {
		counts, sizes = append(counts, 1e7), append(sizes, 256<<20, 1<<30)
	}
	var commands, payloads []scale
	for _, count := range counts {
		s, err := b.scale(fmt.Sprintf("%.0e commands", float64(count)), "ns a command", writesImage(count), 1/float64(count))
		if err != nil {
			return err
		}
		commands = append(commands, s)
	}
	for _, size := range sizes {
		s, err := b.scale(bytesText(size)+" of payload", "ns a KiB", payloadImage(size), 1024/float64(size))
		if err != nil {
			return err
		}
		payloads = append(payloads, s)
	}
	b.linear("commands", commands)
	b.linear("payload", payloads)
	return nil
}

// scale is what an image of one size took.
type scale struct {
	what      string
	size      int64   // bytes of the file
	run, load float64 // a command or a KiB
}

func (b *bench) scale(what, unit string, image *lmb.Image, each float64) (scale, error) {
	s := scale{what: what}
	err := b.on("scaling", image, func(p *pair, size int64) error {
		s.size = size
		took, err := measure(max(b.rounds/3, 3), b.atLeast/2, run(p.ours, 1, 0), run(p.c, 1, 0), plainRequest(p.ours, "load"), plainRequest(p.c, "load"))
		if err != nil {
			return err
		}
		ran, loaded := versus("scaling", what+", run", unit, each, took[0], took[1]), versus("scaling", what+", load + verify", unit, each, took[2], took[3])
		s.run, s.load = *ran.Ours, *loaded.Ours
		b.add(ran, loaded)
		return nil
	})
	return s, err
}

// cachesMax is larger than the caches of most processors. Between a file that
// they hold and one that they do not, time is not linear, and no fault of ours.
const cachesMax = 16 << 20

// linear adds the goals of a series of growing images: the largest costs no
// more for each command or byte than the one before it.
func (b *bench) linear(what string, series []scale) {
	last, before := series[len(series)-1], series[len(series)-2]
	for _, r := range []row{
		{What: "run, " + last.what + " beside " + before.what, Ratio: value(last.run / before.run)},
		{What: "load + verify, " + last.what + " beside " + before.what, Ratio: value(last.load / before.load)},
	} {
		r.Section, r.Note = "goals of scaling", "time for each"
		if before.size > cachesMax {
			r = r.atMost(*r.Ratio, 1.25, "<= 1.25 (linear)")
		} else {
			r.Note += "; no goal, as caches hold the smaller"
		}
		b.add(r)
	}
}
