package fbs

import "strconv"

// Text is a message with numbers in it: each %d stands for the next number in
// decimal, each %x in hexadecimal with 0x in front. Package fmt would cost a
// static program 130 KB.
//
//go:noinline
func Text(message string, numbers ...uint64) string {
	return string(AppendText(nil, message, numbers...))
}

// wrong is a Text where something holds, and else empty.
//
//go:noinline
func wrong(holds bool, message string, numbers ...uint64) string {
	if !holds {
		return ""
	}
	return Text(message, numbers...)
}

// first is the first of reasons that is not empty, empty if all are.
//
//go:noinline
func first(reasons ...string) (reason string) {
	for _, reason = range reasons {
		if reason != "" {
			break
		}
	}
	return reason
}

// AppendText adds a Text to what is there.
func AppendText(filled []byte, message string, numbers ...uint64) []byte {
	for i := 0; i < len(message); i++ {
		if message[i] != '%' || len(numbers) == 0 {
			filled = append(filled, message[i])
			continue
		}
		i++
		base := 10
		if message[i] == 'x' {
			base, filled = 16, append(filled, "0x"...)
		}
		filled = strconv.AppendUint(filled, numbers[0], base)
		numbers = numbers[1:]
	}
	return filled
}

// Quote puts a name of the file between quotes, with nothing in it that a
// terminal would act on.
func Quote(name string) string { return `"` + plain(name) + `"` }

// plain is a name of the image without what moves a terminal.
func plain(name string) string {
	text := []byte(name)
	for i, b := range text {
		if b < ' ' || b == 0x7f || b == '"' {
			text[i] = '?'
		}
	}
	return string(text)
}
