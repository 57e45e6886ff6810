//go:build !nolightmetal

package metal

// built tells whether recording is compiled in.
const built = true
