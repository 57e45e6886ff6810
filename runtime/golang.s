// This file is empty. It exists because the Go compiler accepts functions without a body only in
// packages that have an assembly file; golang.go declares such functions.
