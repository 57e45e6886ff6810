package hal

import "strconv"

// FormatPCIID returns hex text such as "1e52:401e".
func FormatPCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// ParseNumber returns a number in a base of at most 16. `ok` is false for another character, an
// empty text, or a number above `limit`, which is at least base-1.
//
// strconv.ParseUint would add 8 KB: its errors quote the text, for which it needs large tables.
func ParseNumber(digits string, base, limit uint64) (n uint64, ok bool) {
	for i := range len(digits) {
		digit := uint64(digits[i] - '0')
		if digit > 9 {
			digit = uint64(digits[i]|0x20-'a') + 10 // 10 to 15 for a letter from a to f, else more
		}
		if digit >= base || n > (limit-digit)/base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, digits != ""
}

// Cut returns the text before and after the first separator, or s and "" if s has no separator.
func Cut(s string, separator byte) (before, after string) {
	for i := range len(s) {
		if s[i] == separator {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
