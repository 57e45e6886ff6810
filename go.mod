module lightmetal

go 1.26.0

require (
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	golang.org/x/sys v0.49.0 // indirect
)
