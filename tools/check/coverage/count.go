package main

import "lightmetal/tools/check/coverage/trace"

// count is of a function, or of several. What a compiler made for what nobody can reach
// counts only where it was reached.
type count struct {
	Functions    int `json:"functions"`
	Instructions int `json:"instructions"`
	Ran          int `json:"ran"`
	Branches     int `json:"branches"` // conditional ones that have two ways to go
	BothWays     int `json:"both_ways"`
	Listed       int `json:"listed,omitempty"` // of what was not reached, with a reason
}

func (c *count) add(o count) {
	c.Functions += o.Functions
	c.Instructions += o.Instructions
	c.Ran += o.Ran
	c.Branches += o.Branches
	c.BothWays += o.BothWays
	c.Listed += o.Listed
}

// left is what was not reached.
func (c *count) left() int { return c.Instructions - c.Ran + c.Branches - c.BothWays }

// percent is of all that there is to reach.
func (c *count) percent() float64 {
	all := c.Instructions + c.Branches
	if all == 0 {
		return 100
	}
	return 100 * float64(all-c.left()) / float64(all)
}

// missing tells what was not reached of an instruction, and of a branch's ways, and the
// form of what it is. Nothing where all was.
func (in *instruction) missing() (what, form string) {
	switch {
	case in.seen&trace.Ran == 0:
		return "never ran", in.form
	case in.kind != trace.Conditional:
		return "", ""
	case in.seen&trace.Taken == 0:
		return "never went to its target", in.skip[taken]
	case in.seen&trace.Passed == 0:
		return "never passed", in.skip[passed]
	}
	return "", ""
}

// count counts a function, and adds to made, by form, what a compiler made of it
// that was not reached.
func (f *function) count(made map[string]int) (c count) {
	c.Functions = 1
	for i := range f.code {
		in := &f.code[i]
		what, form := in.missing()
		ran := in.seen&trace.Ran != 0
		if form != "" {
			made[form]++
		}
		if form == "" || ran {
			c.Instructions++
		}
		if ran {
			c.Ran++
		}
		if in.kind == trace.Conditional && form == "" && in.skip[taken] == "" &&
			in.skip[passed] == "" {
			c.Branches++
			if what == "" {
				c.BothWays++
			}
		}
	}
	return c
}
