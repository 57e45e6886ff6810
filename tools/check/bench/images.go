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

// newImage returns an image for an ivshmem device. Its window covers the complete device.
func newImage(sequences ...[]lmb.Command) *lmb.Image {
	window := fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Size: deviceSize}
	image := &lmb.Image{
		Origin: lmb.Origin{Tool: "bench"},
		Devices: []lmb.Device{{
			Board: boards.Ivshmem.Name, Vendor: boards.Ivshmem.Vendor,
			Device: boards.Ivshmem.Device,
			Bars:   [6]uint64{2: deviceSize},
		}},
		Windows: []lmb.Window{{Window: window}},
	}
	for i, commands := range sequences {
		name := []string{"main", "one"}[i]
		image.Sequences = append(image.Sequences, lmb.Sequence{Name: name, Commands: commands})
	}
	return image
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

// writes returns count stores of 32 bits.
func writes(count int) []lmb.Command {
	return makeCommands(count, func(i int) lmb.Command { return writeCommand(4, i) })
}

// copyInCommand returns a bulk copy of data to an offset of the device.
func copyInCommand(offset int, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Mode: uint8(gen.AccessBulk), Width: 8,
		Offset: uint32(offset),
	}}
}

// payloadImage returns an image with copies of size bytes of payload, 1 MiB at a time, to the same
// 1 MiB of the device, and a sequence with one write.
func payloadImage(size int) *lmb.Image {
	const chunk = 1 << 20
	data := randomBytes(size)
	return newImage(makeCommands(size/chunk, func(i int) lmb.Command {
		return copyInCommand(0, data[i*chunk:(i+1)*chunk])
	}), writes(1))
}

// randomBytes returns size random bytes, the same ones in every process.
func randomBytes(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(data)
	return data
}
