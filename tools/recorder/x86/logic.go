package x86

// addTests adds what compares a vector with memory. In EVEX it sets bits of a
// mask register, as functions such as memcmp use it.
func addTests(forms map[vectorKey]*form) {
	add := func(key vectorKey, vectors encoding, wants immediateSize, w wide, element func(*instruction) int) {
		forms[key] = &form{size: vectorSize, wants: wants, vectors: vectors, three: true, masked: true, toMask: true, element: element, wEvex: w,
			run: onCopy(true, false)}
	}
	for n := range uint8(2) {
		add(vectorKey{3, 0x3e + n, 1}, evex, oneByte, anyW, narrowElement)     // VPCMPUB and UW, VPCMPB and W
		add(vectorKey{3, 0x1e + n, 1}, evex, oneByte, anyW, wideElement)       // VPCMPUD and UQ, VPCMPD and Q
		add(vectorKey{2, 0x26, 1 + n}, evex, noImmediate, anyW, narrowElement) // VPTESTMB and W, VPTESTNMB and W
		add(vectorKey{2, 0x27, 1 + n}, evex, noImmediate, anyW, wideElement)   // the same of D and Q
	}
	for n, w := range []wide{anyW, anyW, w0, w1} { // PCMPEQ and PCMPGT of B, W, D, Q
		equal, greater := vectorKey{1, 0x74 + uint8(n), 1}, vectorKey{1, 0x64 + uint8(n), 1}
		if n == 3 {
			equal, greater = vectorKey{2, 0x29, 1}, vectorKey{2, 0x37, 1}
		}
		add(equal, sse, noImmediate, w, fixed(1<<n))
		add(greater, sse, noImmediate, w, fixed(1<<n))
	}
}
