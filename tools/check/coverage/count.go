package main

import "lightmetal/tools/check/coverage/trace"

// count has the counts of one function or of several. Unreachable code of the compiler counts only
// if it ran.
type count struct {
	Functions    int `json:"functions"`
	Instructions int `json:"instructions"`
	Ran          int `json:"ran"`
	Branches     int `json:"branches"` // conditional branches whose two ways are both reachable
	BothWays     int `json:"both_ways"`
	// of those that were not reached: how many the list explains
	Explained int `json:"listed,omitempty"`
}

func (c *count) add(o count) {
	c.Functions += o.Functions
	c.Instructions += o.Instructions
	c.Ran += o.Ran
	c.Branches += o.Branches
	c.BothWays += o.BothWays
	c.Explained += o.Explained
}

// notReached returns the number of instructions and branches that were not reached.
func (c *count) notReached() int { return c.Instructions - c.Ran + c.Branches - c.BothWays }

// percent returns the reached share of all instructions and branches.
func (c *count) percent() float64 {
	all := c.Instructions + c.Branches
	if all == 0 {
		return 100
	}
	return 100 * float64(all-c.notReached()) / float64(all)
}

// unreached describes what was not reached of an instruction or of the ways of a branch, and
// returns the form of that code. Both are empty if everything was reached.
func (in *instruction) unreached() (what, form string) {
	switch {
	case in.seen&trace.Ran == 0:
		return "never ran", in.form
	case in.kind != trace.Conditional:
		return "", ""
	case in.seen&trace.Taken == 0:
		return "never went to its target", in.wayForms[taken]
	case in.seen&trace.Passed == 0:
		return "never passed", in.wayForms[passed]
	}
	return "", ""
}

// countReached returns the counts of a function. It adds unreached code of the compiler to
// compilerMade, by form.
func (f *function) countReached(compilerMade map[string]int) (c count) {
	c.Functions = 1
	for i := range f.code {
		in := &f.code[i]
		what, form := in.unreached()
		ran := in.seen&trace.Ran != 0
		if form != "" {
			compilerMade[form]++
		}
		if form == "" || ran {
			c.Instructions++
		}
		if ran {
			c.Ran++
		}
		if in.kind == trace.Conditional && form == "" && in.wayForms[taken] == "" &&
			in.wayForms[passed] == "" {
			c.Branches++
			if what == "" {
				c.BothWays++
			}
		}
	}
	return c
}
