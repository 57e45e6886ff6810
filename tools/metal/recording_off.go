//go:build nolightmetal

package metal

// built reports whether the build contains recording.
const built = false
