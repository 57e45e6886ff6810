package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
	"lightmetal/tools/ship/bootimage/initramfs"
	"lightmetal/tools/ship/bootimage/sbom"

	"golang.org/x/sys/unix"
)

// Names in the folder of the result.
const (
	rootFolder  = "root" // all that is in the initramfs
	initramfsGz = "initramfs.cpio.gz"
	configName  = "lmrun.conf"
)

// fileMax bounds every file that goes into an image.
const fileMax = 1 << 30

// make makes the whole folder anew, beside the one it replaces, and puts it in
// place when all of it is there.
func (r *request) make(out io.Writer) {
	r.rejectInputsInResult()
	parts := r.files()
	r.replaceable()
	r.dir = fail.Must(os.MkdirTemp(filepath.Dir(r.out), ".image-"))
	err := fail.Try(func() {
		r.fill(parts)
		r.replace()
		r.list(out)
	})
	fail.On(errors.Join(err, os.RemoveAll(r.dir)))
}

// fill makes the result.
func (r *request) fill(parts []initramfs.File) {
	fail.On(os.Chmod(r.dir, 0o755))
	for _, f := range parts {
		r.write(rootFolder+f.Path, f.Data, fs.FileMode(f.Mode))
	}
	r.verify(parts)
	r.judge(parts)
	var archive, packed bytes.Buffer
	fail.On(errors.Join(initramfs.Nodes(&archive), initramfs.Pack(&archive, parts)))
	fail.On(initramfs.Gzip(&packed, archive.Bytes()))
	r.write(initramfsGz, packed.Bytes(), 0o644)
	r.writeBoot()
	r.describe(parts)
}

// packedFile is an input and its path in the result.
type packedFile struct{ host, result string }

// inputs returns all files that go into the result.
func (r *request) inputs() []packedFile {
	list := []packedFile{{r.lminit, "root/init"}, {r.lmrun, "root/lmrun"},
		{r.config, "root/" + configName}, {r.kernel, "Image"}, {r.dtb, "board.dtb"}}
	for _, image := range r.images {
		list = append(list, packedFile{image, "root/" + filepath.Base(image)})
	}
	for _, text := range r.adds {
		host, guest, given := strings.Cut(text, "=")
		if !given {
			guest = filepath.Base(host)
		}
		list = append(list, packedFile{host, filepath.Join("root", guest)})
	}
	return slices.DeleteFunc(list, func(input packedFile) bool { return input.host == "" })
}

// rejectInputsInResult fails if an input lies in the folder that the result replaces
// and would be lost: the result has it at another path.
func (r *request) rejectInputsInResult() {
	folder, err := filepath.EvalSymlinks(r.out)
	if err != nil {
		return // there is none yet
	}
	result := fail.Must(filepath.Abs(folder))
	for _, input := range r.inputs() {
		path, err := filepath.EvalSymlinks(input.host)
		if err != nil {
			continue // reading it fails, and names it
		}
		way, err := filepath.Rel(result, fail.Must(filepath.Abs(path)))
		if err == nil && filepath.IsLocal(way) && way != input.result {
			fail.With(hal.Usage, "%s is in --out %s, which is replaced; copy it to another "+
				"directory",
				input.host, r.out)
		}
	}
}

// replaceable refuses a folder that holds something else than an earlier result.
func (r *request) replaceable() {
	entries, err := os.ReadDir(r.out)
	if _, there := os.Lstat(r.out); err != nil && there == nil {
		fail.On(fmt.Errorf("%s cannot be replaced; name another directory with --out", r.out))
	}
	if _, err := os.Stat(filepath.Join(r.out, rootFolder, configName)); err != nil &&
		len(entries) > 0 {
		fail.On(fmt.Errorf("%s has files that are not of a boot image; name another directory "+
			"with --out", r.out))
	}
	fail.On(os.MkdirAll(filepath.Dir(r.out), 0o755))
}

// replace puts the result in place; an earlier one is in r.dir then.
func (r *request) replace() {
	if _, err := os.Stat(r.out); err == nil {
		fail.On(unix.Renameat2(unix.AT_FDCWD, r.dir, unix.AT_FDCWD, r.out, unix.RENAME_EXCHANGE))
	} else {
		fail.On(os.Rename(r.dir, r.out))
	}
}

// files are those of the initramfs.
func (r *request) files() []initramfs.File {
	var parts []initramfs.File
	add := func(host, guest string, mode uint32) {
		parts = append(parts, initramfs.File{Path: guest, Mode: mode,
			Data: fail.Must(files.Read(host, fileMax))})
	}
	for _, program := range [][2]string{{r.lminit, "/init"}, {r.lmrun, "/lmrun"}} {
		add(program[0], program[1], 0o755)
	}
	for _, image := range r.images {
		add(image, "/"+filepath.Base(image), 0o644)
	}
	for _, text := range r.adds {
		host, guest, given := strings.Cut(text, "=")
		if !given {
			guest = "/" + filepath.Base(host)
		}
		add(host, guest, 0o644)
	}
	return append(parts, initramfs.File{Path: "/" + configName, Mode: 0o644,
		Data: r.configuration()})
}

// configuration is the user's, or one made of flags.
func (r *request) configuration() []byte {
	if r.config != "" {
		return fail.Must(files.Read(r.config, fileMax))
	}
	text := "# What lminit does as process 1: one \"name value\" a line.\n"
	for _, line := range r.machine {
		text += line + "\n"
	}
	for _, image := range r.images {
		text += "\nimage /" + filepath.Base(image) + "\n"
		for _, line := range r.settings {
			text += line + "\n"
		}
	}
	return []byte(text)
}

// verify has lminit read the configuration and verify the images, as the board
// will.
func (r *request) verify(parts []initramfs.File) {
	root := fail.Must(filepath.Abs(filepath.Join(r.dir, rootFolder)))
	config := fail.Must(os.ReadFile(filepath.Join(root, configName)))
	here := r.onHost(config, root, parts)
	dir := fail.Must(os.MkdirTemp("", "bootimage-"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, configName)
	fail.On(files.Write(path, []byte(here), 0o600, files.Create))
	if text, err := exec.Command(r.verifier, "-config", path,
		"-check").CombinedOutput(); err != nil {
		fail.On(fmt.Errorf("the board would reject this: %w\n%s", err,
			strings.NewReplacer(dir+"/", "", root, "").Replace(string(text))))
	}
}

// setting is a line of a configuration.
type setting struct{ name, value string }

// settings are all lines of one, as lminit takes them apart.
func settings(config []byte) (list []setting) {
	for line := range strings.SplitSeq(string(config), "\n") {
		name, value, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		list = append(list, setting{name, strings.TrimSpace(value)})
	}
	return list
}

// onHost gives a configuration whose paths of images and keys lead to the
// staged files. For an image that the board finds on a file system it mounts,
// and which is not here, the first one stands in, without its key.
func (r *request) onHost(config []byte, root string, parts []initramfs.File) string {
	standIn := root + "/" + filepath.Base(r.images[0])
	lines, mounts, named, mounted := strings.Split(string(config), "\n"), []string{},
		map[string]bool{}, false
	for i, s := range settings(config) {
		name, value := s.name, s.value
		if fields := strings.Fields(value); name == "mount" && len(fields) > 1 {
			mounts = append(mounts, strings.TrimSuffix(fields[1], "/")+"/")
		}
		if name != "image" && name != "key" {
			continue
		}
		path := filepath.Join("/", value)
		packed := slices.ContainsFunc(parts, func(f initramfs.File) bool { return f.Path == path })
		below := slices.ContainsFunc(mounts,
			func(m string) bool { return strings.HasPrefix(path, m) })
		if !packed && !below {
			fail.On(fmt.Errorf("%s:%d: %s is not in the boot image, and not below a mount",
				configName, i+1, path))
		}
		lines[i] = name + " " + root + path
		switch {
		case name == "image":
			named[path], mounted = true, !packed
			if mounted {
				lines[i] = "image " + standIn
			}
		case mounted || !packed:
			lines[i] = ""
		}
	}
	for _, image := range r.images {
		if !named["/"+filepath.Base(image)] {
			fail.On(fmt.Errorf("%s: the configuration has no line `image /%s`", image,
				filepath.Base(image)))
		}
	}
	return strings.Join(lines, "\n")
}

// describe writes the list of what is inside, and the digests.
func (r *request) describe(parts []initramfs.File) {
	var listed []sbom.File
	for _, f := range parts {
		listed = append(listed, sbom.File{Path: rootFolder + f.Path, Data: f.Data})
	}
	r.write("sbom.spdx.json",
		fail.Must(sbom.Document("lightmetal-image-"+r.board.Name, sourceDate(), listed)), 0o644)
	var sums strings.Builder
	fail.On(filepath.WalkDir(r.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(r.dir, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(fail.Must(os.ReadFile(path))), name)
		return nil
	}))
	r.write("SHA256SUMS", []byte(sums.String()), 0o644)
}

func (r *request) list(out io.Writer) {
	entries := fail.Must(os.ReadDir(r.out))
	fmt.Fprintf(out, "%s, for %s (%s):\n", r.out, r.board.Title, r.board.Boot.Value)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			fmt.Fprintf(out, "  %-18s %9d\n", e.Name(), info.Size())
		}
	}
	for _, path := range r.elsewhere {
		fmt.Fprintf(out,
			"%s is on a file system that the board mounts, so it was not compared with the "+
				"other images (lm verify --together)\n", path)
	}
	if r.kernel == "" {
		fmt.Fprintln(out,
			"There was no --kernel: add the kernel and its device tree yourself.")
	}
}

// write writes a file of the result. Its mode does not depend on the umask.
func (r *request) write(name string, data []byte, mode fs.FileMode) {
	path := filepath.Join(r.dir, name)
	fail.On(os.MkdirAll(filepath.Dir(path), 0o755))
	fail.On(files.Write(path, data, uint32(mode), files.Replace))
	fail.On(os.Chmod(path, mode))
}
