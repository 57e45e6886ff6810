package main

import (
	"errors"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// refusedAccess is an access to a BAR in a command that lmb.Encode has rejected.
type refusedAccess struct {
	board *boards.Board
	rule  *boards.AccessRule // nil: the board has no memory or register there
	width uint8
}

// isWidthAccepted reports whether the board accepts accesses of this width there.
func (a *refusedAccess) isWidthAccepted() bool {
	return a.rule != nil && a.width&a.rule.Widths != 0
}

// refusedAccessOf returns the access that an error of lmb.Encode is about, nil if the error is
// about something else.
func refusedAccessOf(image *lmb.Image, err error) *refusedAccess {
	var refused *fbs.Error
	if !errors.As(err, &refused) || refused.Command == 0 {
		return nil
	}
	c := commandOf(image, refused.Command-1)
	if int(c.Window) >= len(image.Windows) {
		return nil
	}
	w := &image.Windows[c.Window]
	if w.Kind != gen.WindowKindBar || uint64(c.Offset) >= w.Size {
		return nil
	}
	board := image.BoardOf(int(w.Device))
	return &refusedAccess{board, board.FindRule(w.Bar, w.Offset+uint64(c.Offset), 1), c.Width}
}

// commandOf returns the command with an index in the file of an image.
func commandOf(image *lmb.Image, index int) (found fbs.Command) {
	for i := range image.Sequences {
		for c := range image.Sequences[i].All() {
			if c.Opcode == lmb.OpcodeMark {
				continue // the file has marks elsewhere
			}
			if index == 0 {
				return c.Command
			}
			index--
		}
		index-- // the file has an end command
	}
	return fbs.Command{Opcode: gen.OpcodeEnd}
}
