// Package report shows what an image does, and how a run spent its time: as tables, as JSON, as one
// self-contained page with pictures, and as a trace for Perfetto. It also lists the differences
// between two images.
//
// Analyze counts without running the image. A Profiler measures the time of every command of a run:
// the runtime calls the Profiler before each command.
package report
