package runtime

import (
	"lightmetal/fbs"
	"lightmetal/hal"
)

// CommandsOf returns the commands that runs of r execute.
func CommandsOf(r *Replay) []fbs.Command { return r.commands }

// ViewOf returns the view of the image of r.
func ViewOf(r *Replay) *fbs.View { return r.view }

// ApertureOf returns the address range to which Load mapped the window of r with this index.
func ApertureOf(r *Replay, window int) *hal.Aperture { return &r.apertures[window] }
