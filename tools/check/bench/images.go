package main

import (
	"fmt"
	"math/rand/v2"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// deviceSize is the memory of the device that the images are for, an ivshmem.
const deviceSize = 32 << 20

const pageSize = 4096 // which plain memory has for registers that aim windows

// Windows of every image of the bench; both show the whole device.
const (
	plainWindow     = 0
	combiningWindow = 1
)

// newImage is an image for an ivshmem device, without sequences.
func newImage() *lmb.Image {
	window := fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.NoSlot, Size: deviceSize}
	combining := window
	combining.Flags = fbs.FlagWriteCombining
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "bench"},
		Devices: []lmb.Device{{
			Board: boards.Ivshmem.Name, Vendor: boards.Ivshmem.Vendor,
			Device: boards.Ivshmem.Device,
			Bars:   [6]uint64{2: deviceSize},
		}},
		Windows: []lmb.Window{{Window: window}, {Window: combining}},
	}
}

func add(image *lmb.Image, name string, commands []lmb.Command) {
	image.Sequences = append(image.Sequences, lmb.Sequence{Name: name, Commands: commands})
}

// repeat is count commands, the i-th made by one.
func repeat(count int, one func(i int) lmb.Command) []lmb.Command {
	commands := make([]lmb.Command, count)
	for i := range commands {
		commands[i] = one(i)
	}
	return commands
}

func single(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// write is a store of width bytes to one of 1024 registers.
func write(width uint8, i int) lmb.Command {
	return single(fbs.Command{
		Opcode: gen.OpcodeWrite, Width: width,
		Offset: uint32(i%1024) * 8, Value: uint64(i) * 0x9e3779b97f4a7c15 & fbs.WidthMask(width),
	})
}

// scattered is a store to any word of the device, by a permutation.
func scattered(i int) lmb.Command {
	return single(fbs.Command{
		Opcode: gen.OpcodeWrite, Width: 4,
		Offset: uint32(uint64(i) * 0x9e3779b97f4a7c15 % (deviceSize / 4) * 4), Value: uint64(i),
	})
}

// copyIn is a bulk copy of data to an offset of a window.
func copyIn(window uint16, offset int, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Mode: uint8(gen.AccessBulk), Width: 8,
		Window: window, Offset: uint32(offset),
	}}
}

// writesImage is a sequence of one 32-bit write, then one of count.
func writesImage(count int) *lmb.Image {
	image := newImage()
	add(image, "one", repeat(1, func(i int) lmb.Command { return write(4, i) }))
	add(image, "main", repeat(count, func(i int) lmb.Command { return write(4, i) }))
	return image
}

// payloadImage is a sequence of one write, then one that copies size bytes of
// payload, 4 MiB at a time, to the same 4 MiB of the device.
func payloadImage(size int) *lmb.Image {
	const chunk = 4 << 20
	image := newImage()
	add(image, "one", repeat(1, func(i int) lmb.Command { return write(4, i) }))
	var commands []lmb.Command
	for data := noise(size); len(data) > 0; data = data[min(chunk, len(data)):] {
		commands = append(commands, copyIn(plainWindow, 0, data[:min(chunk, len(data))]))
	}
	add(image, "main", commands)
	return image
}

// blockSizes are copied by the sequences of blocksImage, first to the plain
// window, then to the write-combining one.
var blockSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20}

// blockCount is how many blocks of a size a sequence copies.
func blockCount(size int) int { return max(1, min(64, 4<<20/size)) }

func blocksImage() *lmb.Image {
	image := newImage()
	data := noise(16 << 20)
	for _, window := range []uint16{plainWindow, combiningWindow} {
		for _, size := range blockSizes {
			add(image, fmt.Sprint("block ", size, " window ", window),
				repeat(blockCount(size), func(i int) lmb.Command {
					return copyIn(window, i*size, data[i*size:(i+1)*size])
				}))
		}
	}
	return image
}

// stillCount is the number of commands of stillImage, End left out.
const stillCount = 1000

// stillImage has every kind of command by turns, of which none waits, and the
// sequence that it calls. The device's memory is zero where loads go.
func stillImage() *lmb.Image {
	const quiet = 1 << 20 // nothing stores from here on
	data := noise(4096)
	exact := copyIn(plainWindow, 0, data)
	exact.Mode, exact.Width = uint8(gen.AccessExact), 4
	check := fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Width: 4, Offset: quiet, Mask: 0xffffffff,
	}
	poll := check
	poll.Amount = 1000
	kinds := []lmb.Command{
		write(1, 0), write(2, 1), write(4, 2), write(8, 3),
		single(fbs.Command{Opcode: gen.OpcodeModify, Width: 4, Offset: 8, Value: 1, Mask: 0xff}),
		single(fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8, Offset: 8}),
		copyIn(plainWindow, 0, data[:64]), copyIn(plainWindow, 0, data), exact,
		single(fbs.Command{Opcode: gen.OpcodeFill, Mode: uint8(gen.AccessExact), Width: 8,
			Amount: 4096, Value: 0x1234567812345678}),
		single(check), single(poll),
		{Data: make([]byte, 4096), Command: fbs.Command{Opcode: gen.OpcodeCompare,
			Option: uint8(gen.PolicyFail), Width: 4, Offset: quiet}},
		single(fbs.Command{Opcode: gen.OpcodeFence}),
		single(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
	}
	image := newImage()
	add(image, "main", repeat(stillCount, func(i int) lmb.Command { return kinds[i%len(kinds)] }))
	add(image, "one write", repeat(1, func(i int) lmb.Command { return write(4, i) }))
	return image
}

// noise is size bytes that depend on nothing else.
func noise(size int) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	random.Read(data)
	return data
}
