package hal

import (
	"os/exec"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// TestAFunctionHasOneOwner lets a second replay map a window of a device that a first one uses. The
// program flock tries the lock as another process.
func TestAFunctionHasOneOwner(t *testing.T) {
	skipUnlessAllBackends(t)
	register := fbs.Window{Kind: gen.WindowKindBar, Size: 0x80}
	for _, c := range []struct {
		backend string
		install func() (f *fakeFunction, name string)
	}{
		{"pci", func() (*fakeFunction, string) {
			installFakePagemap(t, 0x4000_0000)
			f := addWormhole(t)
			return f, "pci:" + f.Address
		}},
		{"vfio", func() (*fakeFunction, string) {
			installFakeKernel(t)
			f := addWormhole(t)
			f.bindToVFIO("3")
			return f, "vfio:" + f.Address
		}},
		{"tt", func() (*fakeFunction, string) {
			f := installFakeTT(t, &boards.Wormhole).f
			f.SetCommand(6) // tt-kmd keeps bus mastering on
			return f, "tt:" + ttNode
		}},
	} {
		t.Run(c.backend, func(t *testing.T) {
			f, name := c.install()
			f.write("reset", "")
			first := mustOpen(t, name)
			if err := first.SetBusMaster(true); err != nil {
				t.Fatal(err)
			}
			command := f.Command()
			second, err := Open(name)
			if err != nil {
				t.Fatalf("Open of a device in use: %v; want it to be identified", err)
			}
			for _, w := range []fbs.Window{register, tlbWindow(mib, 0)} {
				_, err := second.Map(w)
				wantFault(t, "second owner", err, NoDevice, "a replay already uses the device",
					"`fuser -v "+f.path("config")+"`")
			}
			if err := second.Close(); err != nil {
				t.Error(err)
			}
			reset := string(f.readAt("reset", 0, 0))
			if f.Command() != command || reset != "" || first.Diagnose() != OK {
				t.Errorf("the second owner changed the command register from %#x to %#x or wrote "+
					"%q to reset; the first one sees %v", command, f.Command(), reset,
					first.Diagnose())
			}
			other := exec.Command("flock", "-n", f.path("config"), "true")
			if err := other.Run(); err == nil {
				t.Error("another process can lock the device")
			}
			first.Close()
			mustOpen(t, name).Close()
		})
	}
}
