// This file contains no code. It must exist because golang.go declares functions without a body:
// the Go compiler accepts them only in a package that has an assembly file.
