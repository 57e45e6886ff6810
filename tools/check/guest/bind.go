package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lightmetal/boards"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"
)

// output is a tensor that is copied to the host. lmrun writes it to an NVMe namespace, because NVMe
// is the only storage driver built into Debian's cloud kernel. If the image itself accesses the
// NVMe controller, the kernel's NVMe driver must not run, and lmrun writes the tensor to a serial
// port instead.
type output struct {
	deviceFile string // file on the host with the data of the namespace or serial port
	userPath   string // path to which the user wants the tensor copied
	size       uint64 // size of the tensor in bytes
	isSerial   bool   // lmrun writes to a serial port
}

// serialsMax is the number of serial ports that the kernel supports
// (CONFIG_SERIAL_8250_RUNTIME_UARTS).
const serialsMax = 4

// usesNVMe reports whether an image is for QEMU's NVMe controller.
func usesNVMe(image *lmb.Image) bool {
	return slices.ContainsFunc(image.Devices,
		func(t lmb.Device) bool {
			return t.Vendor == boards.Nvme.Vendor &&
				t.Device == boards.Nvme.Device
		})
}

// replaceHostFiles copies lmrun's flags to the arguments of PID 1. In the flags -input and -output,
// it replaces paths on the host by paths in the guest. It adds the files of inputs to the guest,
// and a drive or serial port for each output.
func (m *machine) replaceHostFiles(flags []string, image *lmb.Image) ([]output, error) {
	var outputs []output
	var inputPaths, outputPaths []string
	for i := 0; i < len(flags); i++ {
		name, value, inline := strings.Cut(strings.TrimLeft(flags[i], "-"), "=")
		if !strings.HasPrefix(flags[i], "-") || name != "input" && name != "output" {
			m.args = append(m.args, flags[i])
			continue
		}
		if !inline {
			if i++; i == len(flags) {
				return nil, fmt.Errorf("-%s requires a value NAME=FILE", name)
			}
			value = flags[i]
		}
		tensor, path, ok := strings.Cut(value, "=")
		if !ok {
			return nil, fmt.Errorf("-%s requires NAME=FILE, not %s", name, value)
		}
		guestPath := fmt.Sprintf("/input/%d", len(m.files))
		if name == "input" {
			data, err := files.Read(path, inputBytesMax)
			if err != nil {
				return nil, err
			}
			inputPaths, m.files[guestPath] = append(inputPaths, path), data
		} else {
			o := output{filepath.Join(m.dir, fmt.Sprintf("output%d.img", len(outputs))), path,
				tensorSize(image, tensor), usesNVMe(image)}
			if err := o.createDeviceFile(); err != nil {
				return nil, err
			}
			outputPaths, outputs = append(outputPaths, path), append(outputs, o)
			if guestPath = m.attachOutput(&o); guestPath == "" {
				return nil, fmt.Errorf("too many -output flags: an image for NVMe can have %d",
					serialsMax)
			}
		}
		m.args = append(m.args, "-"+name, tensor+"="+guestPath)
	}
	return outputs, files.RejectAliases(outputPaths, inputPaths...)
}

// attachOutput adds a drive or a serial port for an output to the machine. It returns the path of
// the device in the guest, or "" if the machine has no serial port left.
func (m *machine) attachOutput(o *output) string {
	if !o.isSerial {
		m.drives = append(m.drives, o.deviceFile)
		return fmt.Sprintf("/dev/nvme0n%d", len(m.drives))
	}
	if len(m.serials) == serialsMax {
		return ""
	}
	m.serials = append(m.serials, o.deviceFile)
	return fmt.Sprintf("/dev/ttyS%d", len(m.serials)-1)
}

// inputBytesMax is the maximum size of the file of an input, which is in the guest's memory.
const inputBytesMax = 1 << 30

// tensorSize returns the size of a tensor in bytes, or 0 if the image has no such tensor. In that
// case lmrun will report an error.
func tensorSize(image *lmb.Image, name string) uint64 {
	for i := range image.Tensors {
		if image.Tensors[i].Name == name {
			return image.Tensors[i].Size()
		}
	}
	return 0
}

// unwrittenTime is the modification time of a drive's file to which QEMU has not written.
var unwrittenTime = time.Unix(0, 0)

// createDeviceFile creates the file for the drive or serial port. The size of a drive is a multiple
// of a page, because the kernel writes whole pages.
func (o *output) createDeviceFile() error {
	const page = 4096
	if o.isSerial {
		return writeZeros(o.deviceFile, 0)
	}
	if err := writeZeros(o.deviceFile, int64(o.size/page+1)*page); err != nil {
		return err
	}
	return os.Chtimes(o.deviceFile, unwrittenTime, unwrittenTime)
}

// copyToUser copies the bytes that lmrun wrote to the path that the user named.
func (o *output) copyToUser() error {
	info, err := os.Stat(o.deviceFile)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(unwrittenTime) {
		return fmt.Errorf("%s: lmrun wrote nothing to its drive", o.userPath)
	}
	data, err := os.ReadFile(o.deviceFile)
	if o.isSerial {
		// The serial port inserts a carriage return before each newline. Each run wrote the output
		// once: use the output of the last run.
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		data = data[max(0, len(data)-int(o.size)):]
	}
	if err == nil && uint64(len(data)) < o.size {
		err = fmt.Errorf("%s: lmrun wrote %d of %d bytes", o.userPath, len(data), o.size)
	}
	if err != nil {
		return err
	}
	return files.Write(o.userPath, data[:o.size], 0o666, files.OpenToReplace)
}
