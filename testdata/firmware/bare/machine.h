/* What the firmware needs from a machine: a port provides these functions, a start-up file and a
   linker script. Everything else is the same on every machine. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* machine_serial has the compatible string of the serial port in the device tree. */
extern const char machine_serial[];

void machine_serial_start(uintptr_t base);

/* machine_put_char writes one byte to the serial port when there is room for it. */
void machine_put_char(char c);

/* machine_now returns the time since reset in ns, which never goes back. */
uint64_t machine_now(void);

/* machine_barrier returns when every load and store before it is complete and visible to
   devices. No load or store after it starts earlier. */
void machine_barrier(void);

/* machine_exit ends the machine. QEMU returns status to the shell. */
_Noreturn void machine_exit(int status);

/* What the machine's files call. */

/* firmware_main runs the firmware. It gets the machine's flattened device tree. */
_Noreturn void firmware_main(const void *tree);

/* The handler of the exception of a failed load or store calls firmware_bus_error with its address,
   and returns to the instruction after it if the result is true: a BAR of the image's devices is
   there, and the player was informed. */
bool firmware_bus_error(uintptr_t address);

/* firmware_fault reports an exception that nothing handles and ends the machine. */
_Noreturn void firmware_fault(uint64_t cause, uint64_t code, uint64_t address);

/* The linker script's: the first byte of RAM that the firmware does not use itself, and the
   stack. */
extern unsigned char free_start[], stack_start[], stack_end[];

#endif
