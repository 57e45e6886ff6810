// Package report shows what an image does and how the time of a run was spent: as
// tables, as JSON, as one self-contained page of pictures, and as a trace that
// Perfetto opens. It also says where two images differ.
//
// Analyze counts without running anything. A Profiler times every command of a
// run and leaves the runtime as it is: it changes the image instead, so that a
// device of its own is asked to point a window before each command.
package report
