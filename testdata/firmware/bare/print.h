/* Text for the serial port. */
#ifndef PRINT_H
#define PRINT_H

#include <stddef.h>
#include <stdint.h>

/* print writes a text. A newline becomes carriage return and newline. */
void print(const char *text);

/* print_bytes writes the characters of a name, which need not end with a zero. */
void print_bytes(const char *text, size_t size);

/* print_decimal writes a number in decimal. */
void print_decimal(uint64_t n);

/* print_signed writes a number in decimal, with its sign. */
void print_signed(int64_t n);

/* print_digits writes the lowest hexadecimal digits of n. */
void print_digits(uint64_t n, int digits);

/* print_hex writes 0x and a number in hexadecimal without leading zeros. */
void print_hex(uint64_t n);

/* print_size writes a number of bytes in the largest unit that divides it: 512 MiB. */
void print_size(uint64_t bytes);

#endif
