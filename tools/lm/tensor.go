package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"

	"github.com/spf13/cobra"
)

func lowerExtension(path string) string { return strings.ToLower(filepath.Ext(path)) }

// elements describes the data of a tensor.
type elements struct {
	name  string
	dtype gen.DType
	shape []uint32
	size  uint64
}

func elementsOf(view *fbs.View, t *fbs.Tensor) elements {
	return elements{lmb.RoleName(t.Role) + " " + view.Name(t.Name), t.Dtype,
		t.Shape()[:t.Dims], t.Size}
}

// isInline reports whether text is data and not the name of a file: a list in
// brackets, or one number by its form, whatever type and size the tensor's elements
// have. inf, infinity and nan are numbers, in any case and with a sign.
func isInline(text string) bool {
	if strings.HasPrefix(text, "[") {
		return true
	}
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case "inf", "infinity", "nan":
		return true
	}
	_, floatErr := strconv.ParseFloat(text, 64)
	_, err := strconv.ParseInt(text, 0, 64)
	return hasForm(floatErr) || hasForm(err)
}

// hasForm reports whether a number was read, or is only too large.
func hasForm(err error) bool { return err == nil || errors.Is(err, strconv.ErrRange) }

// parseInline returns the bytes of numbers: one for every element, or a list of all.
func (e *elements) parseInline(text string) []byte {
	if !strings.HasPrefix(text, "[") {
		if _, ok := npy.Bits(e.dtype, text); !ok {
			fail.With(hal.BadTensor, "%s must be a value of type %s (%s) for %s; "+
				"if %[1]s is a file, write ./%[1]s", text, lmb.DTypes[e.dtype],
				npy.Range(e.dtype), e.name)
		}
		count := int(e.size) / int(fbs.DTypeSize(e.dtype))
		return e.parseValues(text, slices.Repeat([]string{text}, count))
	}
	if !strings.HasSuffix(text, "]") {
		failUsage("%s: a list must end with ]", text)
	}
	if opening, closing := strings.Count(text, "["), strings.Count(text, "]"); opening != closing {
		failUsage("%s: the list must have as many '[' as ']', but has %d and %d", text,
			opening, closing)
	}
	isSeparator := func(r rune) bool { return strings.ContainsRune("[], \t\n", r) }
	return e.parseValues(text, strings.FieldsFunc(text, isSeparator))
}

func (e *elements) parseValues(from string, words []string) []byte {
	data, err := npy.Values(e.dtype, words)
	failIf(hal.BadTensor, from, err)
	if uint64(len(data)) != e.size {
		fail.With(hal.BadTensor, "%s has %d elements, but %s needs %d "+
			"(%s)", from, len(words), e.name,
			e.size/uint64(fbs.DTypeSize(e.dtype)), lmb.TypeText(e.dtype, e.shape))
	}
	return data
}

// readData returns the bytes of a tensor, from numbers or from a file.
func (e *elements) readData(path string) []byte {
	if isInline(path) {
		return e.parseInline(path)
	}
	const textMost = 32 // bytes of a number in a .csv file
	data := readFile(path, int(e.size)*textMost+npyHeaderMax)
	switch lowerExtension(path) {
	case ".npy":
		array, err := npy.Parse(data)
		failIf(hal.BadTensor, path, err)
		matrix, inTiles := npy.TiledMatrix(e.shape)
		sameType := npy.Same(array.Type, npy.TypeOf(e.dtype))
		if sameType && inTiles && slices.Equal(array.Shape, matrix) {
			return npy.ToTiles(array.Data, matrix, int(fbs.DTypeSize(e.dtype)))
		}
		if !sameType || !slices.Equal(array.Shape, e.shape) {
			fail.With(hal.BadTensor, "%s has type %s and shape %s, "+
				"but %s is %s (%s in NumPy)", path, array.Type,
				lmb.ShapeText(array.Shape), e.name, lmb.TypeText(e.dtype, e.shape),
				npy.TypeOf(e.dtype))
		}
		data = array.Data
	case ".csv":
		return e.parseValues(path, e.csvWords(path, data))
	}
	if uint64(len(data)) != e.size {
		fail.With(hal.BadTensor, "%s has %d bytes, "+
			"but %s needs %d", path, len(data), e.name, e.size)
	}
	return data
}

// columns returns the length of the last dimension.
func (e *elements) columns() int {
	if len(e.shape) == 0 {
		return 1
	}
	return max(1, int(e.shape[len(e.shape)-1]))
}

// csvWords returns the fields of all rows. A row has the elements of the last dimension; or one row
// has all elements. A tensor of one dimension may have any number of rows.
func (e *elements) csvWords(path string, data []byte) []string {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.Comment = -1, '#'
	rows, err := r.ReadAll()
	failIf(hal.BadTensor, path, err)
	for i, row := range rows {
		if len(rows) > 1 && len(e.shape) > 1 && len(row) != e.columns() {
			fail.With(hal.BadTensor, "%s: row %d has %d elements, "+
				"but each row of %s has %d (%s)", path,
				i+1,
				len(row), e.name, e.columns(), lmb.TypeText(e.dtype, e.shape))
		}
	}
	return slices.Concat(rows...)
}

// formatFile returns the content of a file of that name for the bytes of a tensor.
func (e *elements) formatFile(path string, data []byte) []byte {
	switch lowerExtension(path) {
	case ".npy":
		shape := e.shape
		if matrix, inTiles := npy.TiledMatrix(e.shape); inTiles {
			shape, data = matrix, npy.FromTiles(data, matrix, int(fbs.DTypeSize(e.dtype)))
		}
		return npy.Format(&npy.Array{Type: npy.TypeOf(e.dtype), Shape: shape, Data: data})
	case ".csv":
		return e.formatCSV(data)
	}
	return data
}

func (e *elements) formatCSV(data []byte) []byte {
	var b bytes.Buffer
	for row := range slices.Chunk(npy.Words(e.dtype, data), e.columns()) {
		fmt.Fprintln(&b, strings.Join(row, ","))
	}
	return b.Bytes()
}

// print prints the data of a tensor: as nested lists on a terminal, and otherwise as .csv.
func (e *elements) print(data []byte, all bool) {
	text := e.formatCSV(data)
	if s := stdout.screen; s != nil {
		text = []byte(e.formatForScreen(data, all, s.columns))
	}
	stdout.keepLines()
	fail.Must(stdout.Write(text))
}

func tensorCommand() *cobra.Command {
	var dtype, shape, image, name string
	var all bool
	c := newCommand("tensor FROM [TO]", argumentCount(1, 2, "an input and at most one output file"),
		func(args []string) {
			e := tensorOf(args[0], dtype, shape, image, name)
			data := e.readData(args[0])
			if len(args) == 1 {
				e.print(data, all)
				return
			}
			to := args[1]
			writeFile(to, e.formatFile(to, data))
			printLine(messageWriter(to), "%s: %s, %s", outputName(to),
				lmb.TypeText(e.dtype, e.shape), lmb.SizeText(e.size))
		})
	flags := c.Flags()
	flags.StringVar(&dtype, "type", "", "type of the elements, such as int32 or bfloat16")
	flags.StringVar(&shape, "shape", "", "length of each dimension, such as 2x3")
	flags.StringVar(&image, "image", "",
		"use type and shape of the tensor --name NAME in this image")
	flags.StringVar(&name, "name", "", "name of a tensor in the image of --image")
	flags.BoolVar(&all, "all", false, "on a terminal, print all elements of a long tensor")
	return c
}

// parseShape returns the lengths of dimensions, which x or commas separate.
func parseShape(text string) (shape []uint32) {
	for _, word := range strings.Split(strings.ReplaceAll(text, ",", "x"), "x") {
		n, err := strconv.ParseUint(word, 10, 32)
		if errors.Is(err, strconv.ErrRange) {
			failUsage("--shape: %s is too large for a dimension", word)
		}
		if err != nil {
			failUsage("--shape takes the length of each dimension, such as 2x3, not %q", text)
		}
		shape = append(shape, uint32(n))
	}
	return shape
}

// tensorOf returns type and shape of the data in a file: from an image, from flags, or from
// the header of a .npy file.
func tensorOf(path, dtype, shape, image, name string) (e elements) {
	if (image == "") != (name == "") || image != "" && (dtype != "" || shape != "") {
		failUsage("--image IMAGE and --name NAME must be used together, without --type and --shape")
	}
	if image != "" {
		_, view := openVerified(image)
		t := tensorNamed(view, image, name, "--name", gen.RoleInput, gen.RoleOutput)
		return elementsOf(view, &view.Tensors[t])
	}
	e = elements{name: "the tensor"}
	if lowerExtension(path) == ".npy" {
		e.readNpyHeader(path)
	}
	if i := slices.IndexFunc(lmb.DTypes,
		func(name string) bool { return name == dtype }); i > 0 {
		e.dtype = gen.DType(i)
	} else if dtype != "" {
		failUsage("--type %s: there is no such type; use one of: %s", dtype,
			strings.Join(lmb.DTypes[1:], ", "))
	}
	if shape != "" {
		e.shape = parseShape(shape)
	}
	unknown := ""
	if e.dtype == 0 {
		unknown = "type"
	} else if e.shape == nil {
		unknown = "shape"
	}
	if unknown != "" {
		failUsage("the %s of %s is unknown: use --type and --shape, such as "+
			"--type int32 --shape 2x3, or --image IMAGE --name NAME", unknown, path)
	}
	e.size = uint64(fbs.DTypeSize(e.dtype))
	for _, n := range e.shape {
		if n == 0 || e.size > dataMax/uint64(n) {
			failUsage("--shape: %s must have 1 byte to 1 GiB", lmb.TypeText(e.dtype, e.shape))
		}
		e.size *= uint64(n)
	}
	return e
}

// readNpyHeader sets shape and type to those of a .npy file, if lightmetal has that type.
func (e *elements) readNpyHeader(path string) {
	data := readFile(path, dataMax)
	array, err := npy.Parse(data)
	failIf(hal.BadTensor, path, err)
	if slices.Contains(array.Shape, 0) {
		fail.With(hal.BadTensor, "%s: shape %s has no elements", path, lmb.ShapeText(array.Shape))
	}
	e.shape = array.Shape
	for d := gen.DTypeInt8; fbs.DTypeSize(d) != 0 && e.dtype == 0; d++ {
		if npy.Same(npy.TypeOf(d), array.Type) {
			e.dtype = d
		}
	}
}

// tensorNamed finds a tensor of an image by its name.
func tensorNamed(view *fbs.View, path, name, flag string, roles ...gen.Role) (index int) {
	var known []string
	for i := range view.Tensors {
		t := &view.Tensors[i]
		switch own := view.Name(t.Name); {
		case !slices.Contains(roles, t.Role):
		case own == name:
			return i
		default:
			known = append(known, own)
		}
	}
	kind := "tensor"
	if len(roles) == 1 {
		kind = lmb.RoleName(roles[0])
	}
	if known == nil {
		failUsage("%s: there is no %s %q in %s; the image has no %[2]s", flag, kind, name, path)
	}
	failUsage("%s: there is no %s %q in %s; use one of: %s", flag, kind, name, path,
		strings.Join(known, ", "))
	return 0
}
