package runtime

import "lightmetal/fbs"

// CommandsOf returns the commands that runs of r execute.
func CommandsOf(r *Replay) []fbs.Command { return r.commands }

// ViewOf returns the view of the image of r.
func ViewOf(r *Replay) *fbs.View { return r.view }
