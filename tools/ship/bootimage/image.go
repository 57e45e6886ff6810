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

// Names in the directory of the result.
const (
	rootFolder  = "root" // directory with all files of the initramfs
	initramfsGz = "initramfs.cpio.gz"
	configName  = "lmrun.conf"
)

// fileMax is the largest size, in bytes, of a file that goes into a boot image.
const fileMax = 1 << 30

// buildResult makes the result in a new directory next to r.out. When the result is complete, the
// directory replaces r.out.
func (r *request) buildResult(out io.Writer) {
	r.rejectInputsInResult()
	parts := r.initramfsFiles()
	r.checkReplaceable()
	r.tempDir = fail.Must(os.MkdirTemp(filepath.Dir(r.out), ".image-"))
	err := fail.Try(func() {
		r.writeFiles(parts)
		r.replaceResult()
		r.printResult(out)
	})
	fail.On(errors.Join(err, os.RemoveAll(r.tempDir)))
}

// writeFiles writes all files of the result to r.tempDir.
func (r *request) writeFiles(parts []initramfs.File) {
	fail.On(os.Chmod(r.tempDir, 0o755))
	for _, f := range parts {
		r.writeFile(rootFolder+f.Path, f.Data, fs.FileMode(f.Mode))
	}
	r.verifyWithLminit(parts)
	r.checkConfiguration(parts)
	var archive, packed bytes.Buffer
	fail.On(errors.Join(initramfs.WriteDeviceNodes(&archive), initramfs.Pack(&archive, parts)))
	fail.On(initramfs.Gzip(&packed, archive.Bytes()))
	r.writeFile(initramfsGz, packed.Bytes(), 0o644)
	r.writeBootFiles()
	r.writeManifests(parts)
}

// packedFile has the path of an input on this machine, and its path in the result.
type packedFile struct{ hostPath, resultPath string }

// inputs returns all files that go into the result.
func (r *request) inputs() []packedFile {
	list := []packedFile{{r.lminit, "root/init"}, {r.lmrun, "root/lmrun"},
		{r.config, "root/" + configName}, {r.kernel, "Image"}, {r.dtb, "board.dtb"}}
	for _, image := range r.images {
		list = append(list, packedFile{image, "root/" + filepath.Base(image)})
	}
	for _, text := range r.addedFiles {
		host, guest, given := strings.Cut(text, "=")
		if !given {
			guest = filepath.Base(host)
		}
		list = append(list, packedFile{host, filepath.Join("root", guest)})
	}
	return slices.DeleteFunc(list, func(input packedFile) bool { return input.hostPath == "" })
}

// rejectInputsInResult fails if an input is in the directory that the result replaces, at a path
// other than its path in the result: the input would be lost.
func (r *request) rejectInputsInResult() {
	folder, err := filepath.EvalSymlinks(r.out)
	if err != nil {
		return // the directory does not exist yet
	}
	result := fail.Must(filepath.Abs(folder))
	for _, input := range r.inputs() {
		path, err := filepath.EvalSymlinks(input.hostPath)
		if err != nil {
			continue // reading the file will fail, with its name in the error
		}
		way, err := filepath.Rel(result, fail.Must(filepath.Abs(path)))
		if err == nil && filepath.IsLocal(way) && way != input.resultPath {
			fail.With(hal.Usage, "%s is in the directory of --out, %s, which is replaced; "+
				"copy the file to another directory",
				input.hostPath, r.out)
		}
	}
}

// checkReplaceable fails if r.out contains anything else than an earlier result.
func (r *request) checkReplaceable() {
	entries, err := os.ReadDir(r.out)
	if _, there := os.Lstat(r.out); err != nil && there == nil {
		fail.On(fmt.Errorf("%s is not a readable directory; name another directory with --out",
			r.out))
	}
	if _, err := os.Stat(filepath.Join(r.out, rootFolder, configName)); err != nil &&
		len(entries) > 0 {
		fail.On(fmt.Errorf("%s contains files that do not belong to a boot image; "+
			"name another directory with --out", r.out))
	}
	fail.On(os.MkdirAll(filepath.Dir(r.out), 0o755))
}

// replaceResult renames r.tempDir to r.out. If there is an earlier result, r.tempDir then contains
// it.
func (r *request) replaceResult() {
	if _, err := os.Stat(r.out); err == nil {
		fail.On(unix.Renameat2(unix.AT_FDCWD, r.tempDir, unix.AT_FDCWD, r.out,
			unix.RENAME_EXCHANGE))
	} else {
		fail.On(os.Rename(r.tempDir, r.out))
	}
}

func (r *request) initramfsFiles() []initramfs.File {
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
	for _, text := range r.addedFiles {
		host, guest, given := strings.Cut(text, "=")
		if !given {
			guest = "/" + filepath.Base(host)
		}
		add(host, guest, 0o644)
	}
	return append(parts, initramfs.File{Path: "/" + configName, Mode: 0o644,
		Data: r.configuration()})
}

// configuration returns the configuration of lminit: the user's file, or a text made from flags.
func (r *request) configuration() []byte {
	if r.config != "" {
		return fail.Must(files.Read(r.config, fileMax))
	}
	text := "# Configuration of lminit as PID 1: one \"name value\" per line.\n"
	for _, line := range r.machineSettings {
		text += line + "\n"
	}
	for _, image := range r.images {
		text += "\nimage /" + filepath.Base(image) + "\n"
		for _, line := range r.imageSettings {
			text += line + "\n"
		}
	}
	return []byte(text)
}

// verifyWithLminit runs lminit on this machine. As on the board, lminit reads the configuration and
// verifies the images.
func (r *request) verifyWithLminit(parts []initramfs.File) {
	root := fail.Must(filepath.Abs(filepath.Join(r.tempDir, rootFolder)))
	config := fail.Must(os.ReadFile(filepath.Join(root, configName)))
	here := r.hostConfiguration(config, root, parts)
	dir := fail.Must(os.MkdirTemp("", "bootimage-"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, configName)
	fail.On(files.Write(path, []byte(here), 0o600, files.Create))
	if text, err := exec.Command(r.verifier, "-config", path,
		"-check").CombinedOutput(); err != nil {
		fail.On(fmt.Errorf("the board would reject this boot image: %w\n%s", err,
			strings.NewReplacer(dir+"/", "", root, "").Replace(string(text))))
	}
}

// setting is a line of a configuration.
type setting struct{ name, value string }

// parseSettings returns all lines of a configuration, split into name and value as lminit does.
func parseSettings(config []byte) (list []setting) {
	for line := range strings.SplitSeq(string(config), "\n") {
		name, value, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		list = append(list, setting{name, strings.TrimSpace(value)})
	}
	return list
}

// hostConfiguration returns the configuration with the paths of images and keys changed to those of
// the files below root. An image on a file system that the board mounts is not on this machine: the
// first packed image replaces it, without a key.
func (r *request) hostConfiguration(config []byte, root string, parts []initramfs.File) string {
	substitute := root + "/" + filepath.Base(r.images[0])
	lines, mounts, named, mounted := strings.Split(string(config), "\n"), []string{},
		map[string]bool{}, false
	for i, s := range parseSettings(config) {
		name, file := s.name, s.value
		switch name {
		case "mount":
			if fields := strings.Fields(s.value); len(fields) > 1 {
				mounts = append(mounts, strings.TrimSuffix(fields[1], "/")+"/")
			}
			continue
		case "module":
			file, _, _ = strings.Cut(s.value, " ") // the other words are parameters
		case "image", "key":
		default:
			continue
		}
		path := filepath.Join("/", file)
		packed := slices.ContainsFunc(parts, func(f initramfs.File) bool { return f.Path == path })
		below := slices.ContainsFunc(mounts,
			func(m string) bool { return strings.HasPrefix(path, m) })
		if !packed && !below {
			fail.On(fmt.Errorf("%s:%d: the file %s is neither in the boot image nor below a "+
				"mount point; add the file with --add", configName, i+1, path))
		}
		if name == "module" {
			continue // lminit -check loads no modules
		}
		lines[i] = name + " " + root + path
		switch {
		case name == "image":
			named[path], mounted = true, !packed
			if mounted {
				lines[i] = "image " + substitute
			}
		case mounted || !packed:
			lines[i] = ""
		}
	}
	for _, image := range r.images {
		if !named["/"+filepath.Base(image)] {
			fail.On(fmt.Errorf("%s: the configuration has no line `image /%s`; add this line",
				image, filepath.Base(image)))
		}
	}
	return strings.Join(lines, "\n")
}

// writeManifests writes the SBOM, and the file SHA256SUMS with the digest of every file.
func (r *request) writeManifests(parts []initramfs.File) {
	var listed []sbom.File
	for _, f := range parts {
		listed = append(listed, sbom.File{Path: rootFolder + f.Path, Data: f.Data})
	}
	r.writeFile("sbom.spdx.json",
		fail.Must(sbom.Document("lightmetal-image-"+r.board.Name, sourceDate(), listed)), 0o644)
	var sums strings.Builder
	fail.On(filepath.WalkDir(r.tempDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(r.tempDir, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(fail.Must(os.ReadFile(path))), name)
		return nil
	}))
	r.writeFile("SHA256SUMS", []byte(sums.String()), 0o644)
}

func (r *request) printResult(out io.Writer) {
	entries := fail.Must(os.ReadDir(r.out))
	fmt.Fprintf(out, "%s, for %s (%s):\n", r.out, r.board.Title, r.board.Boot.Value)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			fmt.Fprintf(out, "  %-18s %9d\n", e.Name(), info.Size())
		}
	}
	for _, text := range r.warnings {
		fmt.Fprintf(out, "warning: %s\n", text)
	}
	for _, path := range r.notPacked {
		fmt.Fprintf(out,
			"%s is on a file system that the board mounts, "+
				"so the image was not compared with the other images; use lm verify --together\n",
			path)
	}
	if r.kernel == "" {
		fmt.Fprintln(out,
			"The boot image has no kernel: add a kernel, and its device tree unless the boot "+
				"loader or QEMU provides one.")
	}
}

// writeFile writes a file of the result. Its mode does not depend on the umask.
func (r *request) writeFile(name string, data []byte, mode fs.FileMode) {
	path := filepath.Join(r.tempDir, name)
	fail.On(os.MkdirAll(filepath.Dir(path), 0o755))
	fail.On(files.Write(path, data, uint32(mode), files.OpenToReplace))
	fail.On(os.Chmod(path, mode))
}
