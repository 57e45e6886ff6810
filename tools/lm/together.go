package main

import (
	"slices"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/together"
)

// printCollisions prints the collisions of images, and fails if there are any.
func (v *verifyFlags) printCollisions(paths []string, ids []identity, images []together.Image,
	warnings []string) {
	collisions, code := together.Check(images), hal.OK
	if len(collisions) > 0 {
		code = hal.ExpectFailed
	}
	switch {
	case asJSON:
		printJSON(stdout, map[string]any{"exit": code.ExitStatus(), "code": code.Error(),
			"images": paths, "identities": ids,
			"collisions": collisions, "warnings": warnings})
	case code == hal.OK:
		printLine(stdout,
			"%d valid images: no image overwrites what another image relies on",
			len(images))
	default:
		printLine(stdout, "one image can break another:")
		for i := range collisions {
			printLine(stdout, "  %s", &collisions[i])
		}
	}
	if code != hal.OK {
		fail.On(printedError{code})
	}
}

// sharedDeviceWarnings returns a warning for each image that shares no device with the others:
// nothing is checked for it.
func sharedDeviceWarnings(images []together.Image) (list []string) {
	for i := range images {
		share := func(other together.Image) bool { return shareDevice(images[i].View, other.View) }
		if !slices.ContainsFunc(images[:i], share) && !slices.ContainsFunc(images[i+1:], share) {
			list = append(list, images[i].Name+": shares no device with the others, "+
				"so nothing was checked between them")
		}
	}
	return list
}

func shareDevice(a, b *fbs.View) bool {
	return slices.ContainsFunc(a.Devices, func(t fbs.DeviceInfo) bool {
		return slices.ContainsFunc(b.Devices,
			func(o fbs.DeviceInfo) bool { return o.Vendor == t.Vendor && o.Device == t.Device })
	})
}
