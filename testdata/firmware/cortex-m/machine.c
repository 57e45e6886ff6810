/* QEMU's mps2-an385, a Cortex-M3: start-up code, SysTick, semihosting. */
#include "machine.h"

int main(void);

extern unsigned char bss_start[], bss_end[];

static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010u;

enum { CONTROL, RELOAD, CURRENT }; /* registers of SysTick: Armv7-M ARM, B3.3.2 */

static _Noreturn void reset(void)
{
	for (unsigned char *b = bss_start; b < bss_end; b++)
		*b = 0;
	systick[RELOAD] = 0xffffff;
	systick[CURRENT] = 0;
	systick[CONTROL] = 5; /* ENABLE, CLKSOURCE: the processor's clock */
	machine_exit(main());
}

static _Noreturn void fault(void) { machine_exit(70); }

/* The processor loads its stack pointer and the address of `reset` from address 0. */
struct vectors {
	unsigned char *stack;
	void (*handlers[15])(void);
};

__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
	stack_end, {reset, fault, fault, fault, fault, fault}};

/* Semihosting for AArch32: the operation is in r0, its argument in r1. */
static uint32_t semihosting(uint32_t operation, const void *argument)
{
	register uint32_t r0 __asm__("r0") = operation;
	register const void *r1 __asm__("r1") = argument;
	__asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}

void machine_put_char(char c)
{
	enum { SYS_WRITEC = 0x03 };
	semihosting(SYS_WRITEC, &c);
}

/* SysTick counts down from 2^24 at 25 MHz: callers ask at least every 0.6 s. */
uint64_t machine_now(void)
{
	static uint64_t ticks;
	static uint32_t last;
	uint32_t current = systick[CURRENT];
	ticks += (last - current) & 0xffffff;
	last = current;
	return ticks * 40;
}

_Noreturn void machine_exit(int status)
{
	enum { SYS_EXIT_EXTENDED = 0x20, ADP_STOPPED_APPLICATION_EXIT = 0x20026 };
	const uint32_t parameters[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)status};
	for (;;)
		semihosting(SYS_EXIT_EXTENDED, parameters);
}
