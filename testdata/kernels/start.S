/* Entered at 0, where BRISC starts. The flag at 0x10000 tells the host that
   main has returned. The core then idles until it is put back in reset. */
#ifndef STACK
/* Core-local RAM ends at 0xFFB01000 on Wormhole, 0xFFB02000 on Blackhole. */
#define STACK 0xFFB00FF0
#endif
.section .text.start
.globl _start
_start:
  li sp, STACK
  call main
  li t0, 0x10000
  li t1, 0x600DF00D
  lw t2, 4(t0)
  sw t1, 0(t0)
1: j 1b
