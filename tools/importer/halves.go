package importer

// inHalves makes of two stores, to registers of 32 bits that are 4 or 8 bytes
// apart, the halves of an address in host memory. The upper one is zero: a
// runtime refuses an address that has more than the lower one takes.
func (r *relocator) inHalves(a, b *step) bool {
	if a == nil || !a.halfOf(b) {
		return false
	}
	low, high := a, b
	if a.offset > b.offset {
		low, high = b, a
	}
	value := low.value | high.value<<32
	index, inside := r.hostAddress(value, 8)
	if apart := high.offset - low.offset; high.value == 0 || index < 0 || apart != 4 && apart != 8 {
		return false
	}
	if h := &r.hosts[index]; h.whole || h.bus == 0 {
		return false
	}
	r.out.warn(int(b.line), "0x%x, whose halves are stored to %s + 0x%x and + 0x%x, is taken for an address in host memory %s; "+
		"on the target that has to lie below 4 GiB",
		value, r.windows[low.window].Name, low.offset, high.offset, r.hosts[index].name)
	low.op, low.at, low.to, high.value = stepRelocate, inside, int32(index), 0
	r.stores++
	r.apart++
	return true
}

// halfOf tells whether two stores may be of one register.
func (s *step) halfOf(o *step) bool {
	word := func(s *step) bool { return s.op == stepStore && s.width == 4 && s.count == 1 && s.to < 0 && s.aim < 0 }
	return word(s) && word(o) && s.window == o.window
}
