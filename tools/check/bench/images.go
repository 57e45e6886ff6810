package main

import (
	"fmt"
	"math/rand/v2"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// deviceSize is the size of the memory of the images' device, an ivshmem.
const deviceSize = 32 << 20

const pageSize = 4096 // plain memory ends with a page of registers for TLB windows

// Windows of every image of the bench. Both cover the complete device.
const (
	plainWindow     = 0
	combiningWindow = 1
)

// newImage returns an image for an ivshmem device, without sequences.
func newImage() *lmb.Image {
	window := fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Size: deviceSize}
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

func addSequence(image *lmb.Image, name string, commands []lmb.Command) {
	image.Sequences = append(image.Sequences, lmb.Sequence{Name: name, Commands: commands})
}

// makeCommands returns count commands; the i-th is the result of makeCommand(i).
func makeCommands(count int, makeCommand func(i int) lmb.Command) []lmb.Command {
	commands := make([]lmb.Command, count)
	for i := range commands {
		commands[i] = makeCommand(i)
	}
	return commands
}

func withoutData(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// writeCommand returns a store of width bytes to one of 1024 registers.
func writeCommand(width uint8, i int) lmb.Command {
	return withoutData(fbs.Command{
		Opcode: gen.OpcodeWrite, Width: width,
		Offset: uint32(i%1024) * 8, Value: uint64(i) * 0x9e3779b97f4a7c15 & fbs.WidthMask(width),
	})
}

// write32 returns a store of 32 bits to one of 1024 registers.
func write32(i int) lmb.Command { return writeCommand(4, i) }

// scatteredWrite returns a store to a word of the device. A permutation of the words selects it.
func scatteredWrite(i int) lmb.Command {
	return withoutData(fbs.Command{
		Opcode: gen.OpcodeWrite, Width: 4,
		Offset: uint32(uint64(i) * 0x9e3779b97f4a7c15 % (deviceSize / 4) * 4), Value: uint64(i),
	})
}

// copyInCommand returns a bulk copy of data to an offset of a window.
func copyInCommand(window uint16, offset int, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Mode: uint8(gen.AccessBulk), Width: 8,
		Window: window, Offset: uint32(offset),
	}}
}

// writesImage returns an image with two sequences: one 32-bit write, and count such writes.
func writesImage(count int) *lmb.Image {
	image := newImage()
	addSequence(image, "one", makeCommands(1, write32))
	addSequence(image, "main", makeCommands(count, write32))
	return image
}

// payloadImage returns an image with two sequences: one write, and copies of size bytes of payload,
// 4 MiB at a time, to the same 4 MiB of the device.
func payloadImage(size int) *lmb.Image {
	const chunk = 4 << 20
	image := newImage()
	addSequence(image, "one", makeCommands(1, write32))
	var commands []lmb.Command
	for data := randomBytes(size); len(data) > 0; data = data[min(chunk, len(data)):] {
		commands = append(commands, copyInCommand(plainWindow, 0, data[:min(chunk, len(data))]))
	}
	addSequence(image, "main", commands)
	return image
}

// blockSizes are the block sizes in the sequences of blocksImage, first for the plain window, then
// for the write-combining one.
var blockSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20}

// blockCount returns the number of blocks of a size that a sequence copies.
func blockCount(size int) int { return max(1, min(64, 4<<20/size)) }

func blocksImage() *lmb.Image {
	image := newImage()
	data := randomBytes(16 << 20)
	for _, window := range []uint16{plainWindow, combiningWindow} {
		for _, size := range blockSizes {
			addSequence(image, fmt.Sprint("block ", size, " window ", window),
				makeCommands(blockCount(size), func(i int) lmb.Command {
					return copyInCommand(window, i*size, data[i*size:(i+1)*size])
				}))
		}
	}
	return image
}

// allKindsCount is the number of commands of allKindsImage, without End.
const allKindsCount = 1000

// allKindsImage returns an image with every kind of command in turn, and the sequence that they
// call. No command waits. The memory that loads read must be zero.
func allKindsImage() *lmb.Image {
	const zeroOffset = 1 << 20 // no command stores at this offset or beyond
	data := randomBytes(4096)
	exact := copyInCommand(plainWindow, 0, data)
	exact.Mode, exact.Width = uint8(gen.AccessExact), 4
	check := fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Width: 4, Offset: zeroOffset, Mask: 0xffffffff,
	}
	poll := check
	poll.Amount = 1000
	kinds := []lmb.Command{
		writeCommand(1, 0), writeCommand(2, 1), writeCommand(4, 2), writeCommand(8, 3),
		withoutData(fbs.Command{Opcode: gen.OpcodeModify, Width: 4, Offset: 8, Value: 1,
			Mask: 0xff}),
		withoutData(fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8, Offset: 8}),
		copyInCommand(plainWindow, 0, data[:64]), copyInCommand(plainWindow, 0, data), exact,
		withoutData(fbs.Command{Opcode: gen.OpcodeFill, Mode: uint8(gen.AccessExact), Width: 8,
			Amount: 4096, Value: 0x1234567812345678}),
		withoutData(check), withoutData(poll),
		{Data: make([]byte, 4096), Command: fbs.Command{Opcode: gen.OpcodeCompare,
			Option: uint8(gen.PolicyFail), Width: 4, Offset: zeroOffset}},
		withoutData(fbs.Command{Opcode: gen.OpcodeFence}),
		withoutData(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
	}
	image := newImage()
	addSequence(image, "main", makeCommands(allKindsCount,
		func(i int) lmb.Command { return kinds[i%len(kinds)] }))
	addSequence(image, "one write", makeCommands(1, write32))
	return image
}

// randomBytes returns size random bytes, the same ones in every process.
func randomBytes(size int) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	random.Read(data)
	return data
}
