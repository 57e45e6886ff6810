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

// output is a tensor that comes back to the host. lmrun writes it to an NVMe
// namespace: the one kind of storage that Debian's cloud kernel has built in. For
// an image that drives NVMe itself the kernel leaves such devices alone, and a
// serial line takes the bytes.
type output struct {
	drive  string // host file behind the namespace or the line
	path   string // where the user wants the bytes
	size   uint64
	serial bool
}

// serialsMax is how many serial lines the kernel makes
// (CONFIG_SERIAL_8250_RUNTIME_UARTS).
const serialsMax = 4

// drivesNVMe tells that an image is for QEMU's NVMe controller.
func drivesNVMe(image *lmb.Image) bool {
	return slices.ContainsFunc(image.Devices,
		func(t lmb.Device) bool {
			return t.Vendor == boards.Nvme.Vendor &&
				t.Device == boards.Nvme.Device
		})
}

// bind replaces the host files in lmrun's flags -input and -output by files of
// the guest. It packs the inputs and adds a drive for each output.
func (m *machine) bind(flags []string, image *lmb.Image) ([]output, error) {
	var outputs []output
	var inputs, written []string
	for i := 0; i < len(flags); i++ {
		name, value, inline := strings.Cut(strings.TrimLeft(flags[i], "-"), "=")
		if !strings.HasPrefix(flags[i], "-") || name != "input" && name != "output" {
			m.args = append(m.args, flags[i])
			continue
		}
		if !inline {
			if i++; i == len(flags) {
				return nil, fmt.Errorf("-%s takes NAME=FILE", name)
			}
			value = flags[i]
		}
		tensor, path, ok := strings.Cut(value, "=")
		if !ok {
			return nil, fmt.Errorf("-%s takes NAME=FILE, not %s", name, value)
		}
		inside := fmt.Sprintf("/input/%d", len(m.files))
		if name == "input" {
			data, err := files.Read(path, inputMax)
			if err != nil {
				return nil, err
			}
			inputs, m.files[inside] = append(inputs, path), data
		} else {
			o := output{filepath.Join(m.dir, fmt.Sprintf("output%d.img", len(outputs))), path,
				tensorSize(image, tensor), drivesNVMe(image)}
			if err := o.create(); err != nil {
				return nil, err
			}
			written, outputs = append(written, path), append(outputs, o)
			if inside = m.attach(&o); inside == "" {
				return nil, fmt.Errorf("-output: %d at most for an image that drives NVMe",
					serialsMax)
			}
		}
		m.args = append(m.args, "-"+name, tensor+"="+inside)
	}
	return outputs, files.RejectAliases(written, inputs...)
}

// attach gives the guest's name of what stands for an output, empty where the
// machine has no room for it.
func (m *machine) attach(o *output) string {
	if !o.serial {
		m.drives = append(m.drives, o.drive)
		return fmt.Sprintf("/dev/nvme0n%d", len(m.drives))
	}
	if len(m.serials) == serialsMax {
		return ""
	}
	m.serials = append(m.serials, o.drive)
	return fmt.Sprintf("/dev/ttyS%d", len(m.serials)-1)
}

// inputMax bounds the file of an input, which the guest has in memory.
const inputMax = 1 << 30

// tensorSize is 0 for a tensor that does not exist; lmrun says so.
func tensorSize(image *lmb.Image, name string) uint64 {
	for i := range image.Tensors {
		if image.Tensors[i].Name == name {
			return image.Tensors[i].Size()
		}
	}
	return 0
}

// unwritten is the time of a drive's file that QEMU has not written to.
var unwritten = time.Unix(0, 0)

// create makes the drive's file. The kernel writes in pages.
func (o *output) create() error {
	const page = 4096
	if o.serial {
		return writeZeros(o.drive, 0)
	}
	if err := writeZeros(o.drive, int64(o.size/page+1)*page); err != nil {
		return err
	}
	return os.Chtimes(o.drive, unwritten, unwritten)
}

// fetch copies what lmrun wrote to where the user wants it.
func (o *output) fetch() error {
	info, err := os.Stat(o.drive)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(unwritten) {
		return fmt.Errorf("%s: lmrun wrote nothing to its drive", o.path)
	}
	data, err := os.ReadFile(o.drive)
	if o.serial {
		// The line puts a carriage return before each newline, and each run
		// wrote its own.
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		data = data[max(0, len(data)-int(o.size)):]
	}
	if err == nil && uint64(len(data)) < o.size {
		err = fmt.Errorf("%s: lmrun wrote %d of %d bytes", o.path, len(data), o.size)
	}
	if err != nil {
		return err
	}
	return files.Write(o.path, data[:o.size], 0o666, files.Replace)
}
