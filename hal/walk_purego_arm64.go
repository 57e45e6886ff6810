//go:build purego

package hal

func executeWalk(w *Walk) { walkGeneric(w) }
