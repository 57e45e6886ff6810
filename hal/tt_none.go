//go:build !backend_tt && (backend_pci || backend_vfio)

package hal

// This file replaces the backend tt in programs whose build tags exclude that backend.

const ttExample = ""

// newTT returns nil. Open then reports a name that begins with `tt:` as an unknown device.
func newTT(*device) backend { return nil }

// ResetThroughDriver returns an error, because this program does not contain the backend tt.
func ResetThroughDriver(path string) error {
	return NewFault(NoDevice, "tt:"+path+
		": this program was built without the backend tt; build it with `-tags backend_tt`")
}
