/* Start code of every kernel; tools/metal/ABI.md describes it. PROCESSOR is 0 for
   BRISC, 1 to 3 for TRISC0 to TRISC2, 4 for NCRISC. */
#define STATE 0x20000
#define CONSTANTS 0x20240
#if PROCESSOR >= 1 && PROCESSOR <= 3
#define STACK 0xFFB007F0 /* 2 KiB of core-local RAM on Wormhole, 4 on Blackhole */
#else
#define STACK 0xFFB00FF0 /* 4 KiB on Wormhole, 8 on Blackhole */
#endif
.section .text.start
.globl _start
_start:
  li sp, STACK
  la t0, __bss_start
  la t1, __bss_end
1: bgeu t0, t1, 2f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 1b
2: li t0, STATE
  li t1, CONSTANTS
  lw t1, 0(t1)
3: beqz t1, 4f
  fence /* Blackhole caches L1 in the core; Wormhole does not, and has no fence */
4: lw t2, 0(t0) /* go */
  beqz t2, 3b
  call main
  li t0, STATE + 4 + 4 * PROCESSOR
  li t1, 0x600DF00D
  beqz a0, 5f
  slli a0, a0, 12
  srli a0, a0, 12
  li t1, 0xBAD00000
  or t1, t1, a0
5: lw t2, 0(t0) /* after this load, all earlier stores have reached L1 */
  sw t1, 0(t0)
6: j 6b
