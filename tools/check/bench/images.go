package main

import (
	"math/rand/v2"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// deviceSize is the size of the memory of the images' device, an ivshmem.
const deviceSize = 32 << 20

const pageSize = 4096 // plain memory ends with a page of registers for TLB windows

// newImage returns an image for an ivshmem device, without sequences. Its window covers the
// complete device.
func newImage() *lmb.Image {
	window := fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Size: deviceSize}
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "bench"},
		Devices: []lmb.Device{{
			Board: boards.Ivshmem.Name, Vendor: boards.Ivshmem.Vendor,
			Device: boards.Ivshmem.Device,
			Bars:   [6]uint64{2: deviceSize},
		}},
		Windows: []lmb.Window{{Window: window}},
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

// copyInCommand returns a bulk copy of data to an offset of the device.
func copyInCommand(offset int, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Mode: uint8(gen.AccessBulk), Width: 8,
		Offset: uint32(offset),
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
		commands = append(commands, copyInCommand(0, data[:min(chunk, len(data))]))
	}
	addSequence(image, "main", commands)
	return image
}

// randomBytes returns size random bytes, the same ones in every process.
func randomBytes(size int) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	random.Read(data)
	return data
}
