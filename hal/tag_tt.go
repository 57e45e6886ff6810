//go:build backend_tt

package hal

const taggedTT = true
