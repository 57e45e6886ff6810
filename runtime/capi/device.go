//go:build !mock

package main

import "lightmetal/hal"

// openDevice opens a device by its name. Tests put stand-ins in its place.
var openDevice = hal.Open
