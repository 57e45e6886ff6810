/* QEMU's arm64 virt machine: PL011 serial port, generic timer, semihosting. */
#include "machine.h"

const char machine_serial[] = "arm,pl011";

/* Registers of the PL011: ARM DDI 0183G, section 3.2. */
enum {
	UART_DR = 0x00,   /* data */
	UART_FR = 0x18,   /* flags */
	UART_IBRD = 0x24, /* baud rate divisor, integer part */
	UART_FBRD = 0x28, /* and 64ths */
	UART_LCRH = 0x2c, /* line control */
	UART_CR = 0x30,   /* control */

	FR_TXFF = 1 << 5,             /* the transmit FIFO is full */
	LCRH_FIFO_8_BITS = 7 << 4,    /* FEN, WLEN = 8 bits; no parity, one stop bit */
	CR_ENABLE_TRANSMIT = 0x101,   /* UARTEN, TXE */
	IBRD_115200 = 13,             /* 24 MHz (apb-pclk in the device tree) / 16 / 115200 is */
	FBRD_115200 = 1,              /* 13 + 1/64, rounded */
};

static uintptr_t serial;

static volatile uint32_t *serial_register(unsigned offset)
{
	return (volatile uint32_t *)(serial + offset);
}

void machine_serial_start(uintptr_t base)
{
	serial = base;
	/* Disable the port: its line control may only change then. */
	*serial_register(UART_CR) = 0;
	/* Set the rate. It takes effect with the store to the line control (section 3.3.6). */
	*serial_register(UART_IBRD) = IBRD_115200;
	*serial_register(UART_FBRD) = FBRD_115200;
	*serial_register(UART_LCRH) = LCRH_FIFO_8_BITS;
	/* Enable transmission. */
	*serial_register(UART_CR) = CR_ENABLE_TRANSMIT;
}

void machine_put_char(char c)
{
	if (serial == 0)
		return;
	while (*serial_register(UART_FR) & FR_TXFF)
		;
	*serial_register(UART_DR) = (unsigned char)c;
}

uint64_t machine_now(void)
{
	const uint64_t ns_per_s = 1000000000;
	uint64_t ticks, ticks_per_s;
	/* The barrier keeps the processor from reading the counter early. */
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	__asm__("mrs %0, cntfrq_el0" : "=r"(ticks_per_s));
	/* The division in two steps keeps the product within 64 bits. */
	uint64_t seconds = ticks / ticks_per_s;
	uint64_t rest = ticks % ticks_per_s;
	return seconds * ns_per_s + rest * ns_per_s / ticks_per_s;
}

void machine_barrier(void) { __asm__ volatile("dsb sy" : : : "memory"); }

/* Semihosting ends QEMU with a status (Arm, "Semihosting for AArch32 and AArch64", SYS_EXIT).
   A machine without a debugger powers off by PSCI instead, which has no status: function
   SYSTEM_OFF, 0x84000008, by hvc or smc. */
_Noreturn void machine_exit(int status)
{
	enum { SYS_EXIT = 0x18, ADP_STOPPED_APPLICATION_EXIT = 0x20026 };
	const uint64_t parameters[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint64_t)status};
	register uint64_t operation __asm__("x0") = SYS_EXIT;
	register const uint64_t *block __asm__("x1") = parameters;
	__asm__ volatile("hlt #0xf000" : "+r"(operation) : "r"(block) : "memory");
	for (;;)
		__asm__ volatile("wfi");
}

uint64_t machine_exception(uint64_t syndrome, uint64_t code, uint64_t address);

/* machine_exception is called by the vectors with ESR_EL1, ELR_EL1 and FAR_EL1. It returns the
   address of the instruction to continue with. */
uint64_t machine_exception(uint64_t syndrome, uint64_t code, uint64_t address)
{
	enum { EC_DATA_ABORT = 0x25, DFSC_EXTERNAL_ABORT = 0x10 }; /* Arm ARM, ESR_EL1 */
	bool is_data_abort = (syndrome >> 26 & 0x3f) == EC_DATA_ABORT;
	bool is_external = (syndrome & 0x3f) == DFSC_EXTERNAL_ABORT;
	if (is_data_abort && is_external && firmware_bus_error((uintptr_t)address))
		return code + 4;
	firmware_fault(syndrome, code, address);
}
