package lmb_test

import (
	"bytes"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// TestEncodeKeepsPayloadShared decodes images whose commands and tensors refer to the same bytes
// thousands of times, and encodes them again. The file must not grow, and every command and tensor
// must still refer to the same bytes.
func TestEncodeKeepsPayloadShared(t *testing.T) {
	for name, file := range lmbtest.Hostile(t, 1000, 1<<14) {
		image, err := lmb.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		again := lmbtest.Encode(t, image)
		if len(again) > len(file) {
			t.Errorf("%s: a file of %d bytes became one of %d", name, len(file), len(again))
		}
		back, err := lmb.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range image.Tensors {
			if !bytes.Equal(image.Tensors[i].Data, back.Tensors[i].Data) {
				t.Errorf("%s: data of tensor %d have changed", name, i)
			}
		}
		for i := range image.Sequences {
			for j := range image.Sequences[i].Commands {
				if !bytes.Equal(image.Sequences[i].Commands[j].Data,
					back.Sequences[i].Commands[j].Data) {
					t.Fatalf("%s: data of command %d have changed", name, j)
				}
			}
		}
	}
}

// TestBlocksLieInOrderOfTheirFirstUse checks the offsets of chunks of data that overlap in a chain,
// touch without overlap, are empty, or are used in another order than their order in memory.
func TestBlocksLieInOrderOfTheirFirstUse(t *testing.T) {
	memory := make([]byte, 1024)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	chunks := [][]byte{memory[600:700], memory[0:100], memory[90:200], nil, memory[190:210],
		memory[210:300], memory[650:660]}
	want := []uint64{0, 128, 128 + 90, 0, 128 + 190, 384, 50}
	image := &lmb.Image{
		Devices: []lmb.Device{{Board: "ivshmem", Vendor: 0x1af4, Device: 0x1110,
			Bars: [6]uint64{2: 1 << 20}}},
		Windows: []lmb.Window{{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2,
			Slot: fbs.AnySlot, Size: 1 << 20}}},
		Sequences: []lmb.Sequence{{Name: "main"}},
	}
	for _, data := range chunks {
		if data == nil {
			continue
		}
		image.Sequences[0].Commands = append(image.Sequences[0].Commands,
			lmb.Command{Data: data, Command: fbs.Command{
				Opcode: gen.OpcodeCopyIn, Width: 8, Mode: uint8(gen.AccessBulk),
				Amount: uint32(len(data))}})
	}
	view := lmbtest.View(t, lmbtest.Encode(t, image))
	at := 0
	for i, data := range chunks {
		if data == nil {
			continue
		}
		c := &view.Commands[at]
		at++
		if c.Value != want[i] || !bytes.Equal(view.Payload[c.Value:][:c.Amount], data) {
			t.Errorf("chunk %d is at offset %d of the payload, want %d", i, c.Value, want[i])
		}
	}
	if want := uint64(384 + 90); view.Reservation.PayloadBytes != want {
		t.Errorf("%d bytes of payload, want %d", view.Reservation.PayloadBytes, want)
	}
}
