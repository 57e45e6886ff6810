/* Text for the serial port. */
#include "print.h"
#include "machine.h"

void print_bytes(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\n')
			machine_put_char('\r');
		machine_put_char(text[i]);
	}
}

void print(const char *text)
{
	size_t size = 0;
	while (text[size] != 0)
		size++;
	print_bytes(text, size);
}

void print_decimal(uint64_t n)
{
	char digits[20]; /* of 2^64 - 1 */
	size_t first = sizeof digits;
	do {
		digits[--first] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	print_bytes(digits + first, sizeof digits - first);
}

void print_signed(int64_t n)
{
	if (n < 0)
		print("-");
	print_decimal(n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

void print_digits(uint64_t n, int digits)
{
	for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
		machine_put_char("0123456789abcdef"[n >> shift & 0xf]);
}

void print_hex(uint64_t n)
{
	int digits = 1;
	while (digits < 16 && n >> 4 * digits != 0)
		digits++;
	print("0x");
	print_digits(n, digits);
}

void print_size(uint64_t bytes)
{
	static const char units[] = "KMG";
	int unit = -1;
	for (; bytes > 0 && bytes % 1024 == 0 && unit < 2; bytes /= 1024)
		unit++;
	print_decimal(bytes);
	if (unit < 0) {
		print(" bytes");
		return;
	}
	print(" ");
	machine_put_char(units[unit]);
	print("iB");
}
