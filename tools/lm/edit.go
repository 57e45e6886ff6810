package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"

	"github.com/spf13/cobra"
)

func setCommand() *cobra.Command {
	var out string
	c := newCommand("set IMAGE.lmb NAME=DATA...",
		argumentCount(2, math.MaxInt, "an image and at least one NAME=DATA"), func(args []string) {
			stale := false
			editImage(args[0], out, func(image *lmb.Image) {
				stale = slices.ContainsFunc(image.Tensors,
					func(t lmb.Tensor) bool { return t.Role == gen.RoleOutput && t.Data != nil })
				setInputs(image, args[1:])
			})
			if stale {
				printLine(stderr,
					"lm: warning: the golden data belong to the old inputs; "+
						"remove the golden data (lm trim --golden), or make the image again")
			}
		})
	outputFlags(c.Flags(), &out)
	return c
}

func trimCommand() *cobra.Command {
	var out string
	var drop []string
	var marks, golden bool
	c := newCommand("trim IMAGE.lmb", exactlyOne("image"), func(args []string) {
		if len(drop) == 0 && !marks && !golden {
			failUsage("nothing to remove: use --sequence NAME, --marks or --golden")
		}
		editImage(args[0], out, func(image *lmb.Image) {
			if marks {
				dropMarks(image)
			}
			if golden {
				dropGolden(image)
			}
			dropSequences(image, drop)
		})
	})
	flags := c.Flags()
	outputFlags(flags, &out)
	flags.StringArrayVar(&drop, "sequence", nil, "leave out this sequence")
	flags.BoolVar(&marks, "marks", false,
		"leave out marks (texts that name parts of the image in reports)")
	flags.BoolVar(&golden, "golden", false, "leave out the golden data of outputs")
	return c
}

// editImage decodes an image, edits it and writes it.
func editImage(path, out string, edit func(*lmb.Image)) {
	image, file := decodeFile(path)
	edit(image)
	size := writeImage(image, out, path) // writeImage verifies the image
	again := ""
	if _, signature, err := fbs.SplitSignature(file.Bytes()); err == nil && signature != nil {
		again = "; the image is no longer signed: sign it again"
	}
	printWritten(out, image, size, again)
}

func setInputs(image *lmb.Image, specs []string) {
	rejectDuplicates("", specs)
	for _, spec := range specs {
		name, path, hasData := strings.Cut(spec, "=")
		if !hasData {
			failUsage(`%q: "=DATA" is missing`, spec)
		}
		t := inputNamed(image, name)
		if path == "" {
			failUsage("%q: the data are empty", spec)
		}
		e := elements{"input " + name, t.DType, t.Shape, t.Size()}
		t.Data = e.readData(path)
	}
}

func inputNamed(image *lmb.Image, name string) *lmb.Tensor {
	var inputs []string
	other := "" // role of the other tensor with this name
	for i := range image.Tensors {
		t := &image.Tensors[i]
		switch {
		case t.Role == gen.RoleInput && t.Name == name:
			return t
		case t.Role == gen.RoleInput:
			inputs = append(inputs, t.Name)
		case t.Name == name:
			other = lmb.RoleName(t.Role)
		}
	}
	switch {
	case other != "":
		failUsage("the role of %s is %s, and lm set changes only inputs", name, other)
	case inputs == nil:
		failUsage("there is no input %q; the image has no inputs", name)
	}
	failUsage("there is no input %q; inputs: %s", name, strings.Join(inputs, ", "))
	return nil
}

func dropMarks(image *lmb.Image) {
	for i := range image.Sequences {
		s := &image.Sequences[i]
		s.Commands = slices.DeleteFunc(s.Commands,
			func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
	}
}

func dropGolden(image *lmb.Image) {
	for i := range image.Tensors {
		if t := &image.Tensors[i]; t.Role == gen.RoleOutput {
			t.Data, t.Golden = nil, lmb.Golden{}
		}
	}
}

// dropSequences removes sequences, and the tensors that no remaining sequence uses.
func dropSequences(image *lmb.Image, names []string) {
	if len(names) == 0 {
		return
	}
	keep := make([]bool, len(image.Sequences))
	for i := range keep {
		keep[i] = true
	}
	for _, name := range names {
		i := slices.IndexFunc(image.Sequences, func(s lmb.Sequence) bool { return s.Name == name })
		if i < 0 {
			failUsage("--sequence %s: there is no such sequence; lm info lists the sequences", name)
		}
		keep[i] = false
	}
	if !slices.Contains(keep, true) {
		failUsage(
			"--sequence %s would remove the last sequence; an image needs at least one",
			names[0])
	}
	used := make([]bool, len(image.Tensors))
	for i, s := range image.Sequences {
		for j := range s.Commands {
			c := &s.Commands[j]
			if !keep[i] {
				continue
			}
			if c.Opcode == gen.OpcodeCall && !keep[c.Index] {
				failUsage("--sequence %s: sequence %s calls %[1]s; remove both with "+
					"--sequence %[1]s --sequence %[2]s",
					image.Sequences[c.Index].Name, s.Name)
			}
			if t, ok := lmb.TensorOf(&c.Command); ok {
				used[t] = true
			}
		}
	}
	keepOnly(image, keep, used)
}

// keepOnly drops the sequences and tensors that are not marked, and renumbers the references to all
// others.
func keepOnly(image *lmb.Image, keep, used []bool) {
	var sequences, tensors []uint16 // new indexes
	image.Sequences, sequences = keepMarked(image.Sequences, keep)
	image.Tensors, tensors = keepMarked(image.Tensors, used)
	for _, s := range image.Sequences {
		for j := range s.Commands {
			c := &s.Commands[j].Command
			if c.Opcode == gen.OpcodeCall {
				c.Index = sequences[c.Index]
			} else if t, ok := lmb.TensorOf(c); ok {
				c.Index = tensors[t] + 1
			}
		}
	}
}

// keepMarked returns the marked elements of a list, and the new index of each.
func keepMarked[T any](list []T, keep []bool) (rest []T, numbers []uint16) {
	for i := range list {
		numbers = append(numbers, uint16(len(rest)))
		if keep[i] {
			rest = append(rest, list[i])
		}
	}
	return rest, numbers
}

func compareCommand() *cobra.Command {
	var absolute, relative float32
	c := &cobra.Command{
		Use:  "compare IMAGE.lmb NAME=FILE...",
		Args: argumentCount(2, math.MaxInt, "an image and at least one NAME=FILE"),
		Run: func(c *cobra.Command, args []string) {
			var judge *lmb.Golden
			if c.Flags().Changed("absolute") || c.Flags().Changed("relative") {
				for _, f := range []float32{absolute, relative} {
					if !(f >= 0 && f <= math.MaxFloat32) {
						failUsage("--absolute and --relative must be finite and not negative")
					}
				}
				judge = &lmb.Golden{Kind: gen.JudgementTolerance, First: math.Float32bits(absolute),
					Second: math.Float32bits(relative)}
			}
			compareFiles(args[0], args[1:], judge)
		},
	}
	c.Flags().Float32Var(&absolute, "absolute", 0,
		"allowed difference between an element and the golden element")
	c.Flags().Float32Var(&relative, "relative", 0,
		"allowed difference, as a fraction of the golden element")
	defineJSONFlag(c, "print the result as JSON, also if an output does not match")
	return c
}

// compareResult is the output of lm compare --json.
type compareResult struct {
	failure
	Image string `json:"image"`
	identity
	Outputs []comparedFile `json:"outputs"`
}

type comparedFile struct {
	File string `json:"file"`
	*lmb.Comparison
}

func compareFiles(path string, specs []string, judge *lmb.Golden) {
	if last := specs[len(specs)-1]; strings.Contains(path, "=") && !strings.Contains(last, "=") {
		failUsage("lm compare takes the image first: lm compare %s %s", last, path)
	}
	_, view := openVerified(path)
	notes := fail.Must(lmb.ReadNotes(view))
	result := compareResult{failure: failure{Code: hal.OK.Error()}, Image: path,
		identity: identify(view)}
	var err error
	for _, spec := range specs {
		one := compareFile(path, view, notes, spec, judge)
		result.Outputs = append(result.Outputs, one)
		if !one.Matches && err == nil {
			err = newFault(hal.CompareFailed, "%s: %s", one.File, one.Comparison)
		}
	}
	if asJSON {
		if err != nil {
			code := codeOf(err)
			result.failure = failure{code.ExitStatus(), code.Error(), err.Error()}
			err = printedError{code}
		}
		printJSON(stdout, result)
		fail.On(err)
		return
	}
	for _, one := range result.Outputs {
		if one.Matches {
			printLine(stdout, "%s: %s", one.File, one.Comparison)
		}
	}
	fail.On(err)
}

// compareFile compares a saved output with its golden data, by the rule of the image, or by `judge`
// if that is not nil.
func compareFile(path string, view *fbs.View, notes *lmb.Notes, spec string, judge *lmb.Golden,
) comparedFile {
	name, file, ok := strings.Cut(spec, "=")
	if !ok || file == "" {
		failUsage("%q must be NAME=FILE with the name of an output; "+
			"lm info lists the outputs", spec)
	}
	index := tensorNamed(view, path, name, "lm compare", gen.RoleOutput)
	t := &view.Tensors[index]
	golden := view.TensorData(t)
	if golden == nil {
		failUsage("output %s of %s has no golden data to compare with", name, path)
	}
	e := elementsOf(view, t)
	got := e.readData(file)
	how := cmp.Or(judge, &notes.Goldens[index])
	return comparedFile{file, how.Compare(name, t.Dtype, e.shape, got, golden)}
}
