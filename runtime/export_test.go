package runtime

import "lightmetal/fbs"

// CommandsOf returns the commands that runs of r execute.
func CommandsOf(r *Replay) []fbs.Command { return r.commands }
