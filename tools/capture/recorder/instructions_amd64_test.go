package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lightmetal/tools/capture/recorder/x86"
)

// instructionTest is one instruction, or several in sequence, that access memory through RDI.
type instructionTest struct {
	text  string
	flags uint64 // that the processor defines after it; only these are compared
}

const (
	allFlags   = 0x8d5
	noAdjust   = allFlags &^ 0x10
	carryOnly  = 1
	shiftFlags = noAdjust &^ 0x800
)

// integerTests returns tests of instructions on general registers.
func integerTests() (list []instructionTest) {
	add := func(flags uint64, format string, a ...any) {
		list = append(list, instructionTest{fmt.Sprintf(format, a...), flags})
	}
	registers := map[string][]string{"b": {"%al", "%bh", "%r9b", "%sil"}, "w": {"%ax", "%r10w"},
		"l": {"%eax", "%r11d"}, "q": {"%rax", "%r12"}}
	for _, size := range []string{"b", "w", "l", "q"} {
		for _, r := range registers[size] {
			add(allFlags, "mov %s, 5(%%rdi)", r)
			add(allFlags, "mov (%%rdi,%%rdx,4), %s", r)
			if r == "%sil" || r == "%bh" {
				continue
			}
			for op, flags := range map[string]uint64{"add": allFlags, "or": noAdjust,
				"adc": allFlags, "sbb": allFlags, "and": noAdjust, "sub": allFlags, "xor": noAdjust,
				"cmp": allFlags} {
				add(flags, "%s %s, (%%rdi)", op, r)
				add(flags, "%s 8(%%rdi), %s", op, r)
			}
			add(noAdjust, "test %s, (%%rdi)", r)
		}
		for op, flags := range map[string]uint64{"add": allFlags, "or": noAdjust, "adc": allFlags,
			"sbb": allFlags, "and": noAdjust, "sub": allFlags, "xor": noAdjust, "cmp": allFlags,
			"test": noAdjust} {
			add(flags, "%s%s $-7, (%%rdi)", op, size)
			if size != "b" {
				add(flags, "%s%s $0x1234, 64(%%rdi)", op, size)
			}
		}
		add(allFlags, "mov%s $0x55, -16(%%rdi)", size)
		for _, op := range []string{"inc", "dec", "not", "neg"} {
			add(allFlags, "%s%s (%%rdi)", op, size)
		}
		for _, op := range []string{"shl", "shr", "sar"} {
			add(noAdjust, "%s%s (%%rdi)", op, size)
			add(shiftFlags, "%s%s $3, (%%rdi)", op, size)
			add(shiftFlags, "%s%s %%cl, (%%rdi)", op, size)
			add(allFlags, "%s%s $0x40, (%%rdi)", op, size)
		}
		for _, op := range []string{"rol", "ror"} {
			add(allFlags, "%s%s (%%rdi)", op, size)
			add(allFlags&^0x800, "%s%s $3, (%%rdi)", op, size)
			add(allFlags&^0x800, "%s%s %%cl, (%%rdi)", op, size)
		}
		add(allFlags, "stos%s", size)
		add(allFlags, "rep stos%s", size)
		add(allFlags, "movs%s", size)
		add(allFlags, "rep movs%s", size)
		add(allFlags, "xchg %%rsi, %%rdi; rep movs%s", size) // from the BAR
		add(allFlags, "lea 64(%%rdi), %%rsi; rep movs%s", size)
		add(allFlags, "xchg %%rsi, %%rdi; lods%s", size)
		add(allFlags, "xchg %%rsi, %%rdi; rep lods%s", size)
	}
	for _, size := range []string{"w", "l", "q"} {
		r := registers[size][1]
		add(0x801, "imul (%%rdi), %s", r)
		add(0x801, "imul $77, (%%rdi), %s", r)
		add(0x801, "imul $-1234, 4(%%rdi), %s", r)
		add(allFlags, "movbe (%%rdi), %s", r)
		add(allFlags, "movbe %s, (%%rdi)", r)
		for _, op := range []string{"bt", "bts", "btr", "btc"} {
			add(carryOnly, "%s%s $11, (%%rdi)", op, size)
		}
		for _, condition := range []string{"o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns",
			"p", "np", "l", "ge", "le", "g"} {
			add(allFlags, "cmov%s (%%rdi), %s", condition, r)
			add(allFlags, "set%s (%%rdi)", condition)
		}
	}
	for _, text := range []string{"movzbw (%rdi), %ax", "movzbl (%rdi), %eax",
		"movzbq (%rdi), %rax", "movzwl (%rdi), %r8d", "movzwq (%rdi), %r8",
		"movsbw (%rdi), %ax", "movsbl (%rdi), %eax", "movsbq (%rdi), %rax", "movswl (%rdi), %r8d",
		"movswq (%rdi), %r8", "movslq (%rdi), %rbp",
		"movnti %eax, (%rdi)", "movnti %rax, 8(%rdi)", "push (%rdi); pop %rax",
		"push %rax; pop (%rdi)", "pushw (%rdi); popw %ax",
		"movabs %al, 0x10000400", "movabs 0x10000400, %rax", "mov 0x10000404, %ebx",
		"movabs 0x10000408, %eax", "movl $3, 0x10000500(,%rdx,8)",
		"clflush (%rdi)", "mov %eax, (%edi)"} {
		add(allFlags, "%s", text)
	}
	return list
}

// vectorTests returns tests of vector instructions that each processor with AVX-512 has.
func vectorTests() (list []instructionTest) {
	add := func(format string, a ...any) {
		list = append(list,
			instructionTest{fmt.Sprintf(format, a...), allFlags})
	}
	both := func(op, register string) {
		add("%s 16(%%rdi), %s", op, register)
		add("%s %s, 32(%%rdi)", op, register)
	}
	for _, op := range []string{"movups", "movupd", "movdqu", "movaps", "movapd", "movdqa", "movss",
		"movsd", "movd", "movq", "movlps", "movlpd", "movhps", "movhpd"} {
		both(op, "%xmm3")
	}
	for _, text := range []string{"lddqu (%rdi), %xmm9", "movntdq %xmm9, (%rdi)",
		"movntps %xmm9, (%rdi)", "movntpd %xmm9, (%rdi)", "movntdqa (%rdi), %xmm9",
		"movddup (%rdi), %xmm2",
		"pextrb $5, %xmm4, (%rdi)", "pextrw $5, %xmm4, (%rdi)", "pextrd $3, %xmm4, (%rdi)",
		"pextrq $1, %xmm4, (%rdi)", "extractps $2, %xmm4, (%rdi)",
		"pinsrb $5, (%rdi), %xmm4", "pinsrw $5, (%rdi), %xmm4", "pinsrd $3, (%rdi), %xmm4",
		"pinsrq $1, (%rdi), %xmm4",
		"vpextrb $15, %xmm14, (%rdi)", "vpextrw $7, %xmm24, (%rdi)", "vpextrd $1, %xmm4, (%rdi)",
		"vpextrq $0, %xmm24, 8(%rdi)",
		"vpinsrb $15, (%rdi), %xmm5, %xmm4", "vpinsrw $7, 2(%rdi), %xmm25, %xmm4",
		"vpinsrd $0, 4(%rdi), %xmm5, %xmm24", "vpinsrq $1, 8(%rdi), %xmm5, %xmm4",
		"vmovlps 8(%rdi), %xmm5, %xmm6", "vmovhps 8(%rdi), %xmm25, %xmm6",
		"vmovlpd %xmm26, 8(%rdi)", "vmovhpd %xmm6, 8(%rdi)",
		"vmovss 4(%rdi), %xmm7", "vmovsd 8(%rdi), %xmm27", "vmovss %xmm27, 4(%rdi)",
		"vmovd 4(%rdi), %xmm20", "vmovq 8(%rdi), %xmm20", "vmovq %xmm20, 8(%rdi)",
		"vmovd %xmm2, 4(%rdi)",
		"vextractf128 $1, %ymm3, (%rdi)", "vextracti128 $0, %ymm3, (%rdi)",
		"vextractf32x4 $3, %zmm23, 16(%rdi)", "vextracti64x4 $1, %zmm23, 32(%rdi)",
		"vextracti64x2 $1, %ymm23, 16(%rdi)", "vextractf32x8 $1, %zmm3, (%rdi)",
		"vbroadcastss 4(%rdi), %ymm1", "vbroadcastsd 8(%rdi), %zmm21",
		"vbroadcastf128 (%rdi), %ymm1", "vpbroadcastb 1(%rdi), %ymm1",
		"vpbroadcastw 2(%rdi), %xmm1",
		"vpbroadcastd 4(%rdi), %zmm31", "vpbroadcastq 8(%rdi), %ymm21",
		"vbroadcasti128 (%rdi), %ymm1",
		"vmaskmovps (%rdi), %ymm2, %ymm3", "vmaskmovpd (%rdi), %xmm2, %xmm3",
		"vmaskmovps %ymm3, %ymm2, (%rdi)", "vmaskmovpd %ymm3, %ymm2, (%rdi)",
		"vpmaskmovd (%rdi), %ymm2, %ymm3", "vpmaskmovq (%rdi), %ymm2, %ymm3",
		"vpmaskmovd %ymm3, %ymm2, (%rdi)", "vpmaskmovq %xmm3, %xmm2, (%rdi)",
		"pcmpeqb (%rdi), %xmm2", "vpcmpeqw (%rdi), %ymm2, %ymm3", "vpcmpeqd (%rdi), %xmm2, %xmm3",
		"vpcmpeqq (%rdi), %ymm2, %ymm3",
		"vpcmpeqb (%rdi), %zmm2, %k3", "vpcmpeqw 64(%rdi), %ymm22, %k3",
		"vpcmpeqd (%rdi), %xmm2, %k3{%k2}", "vpcmpeqq (%rdi), %zmm2, %k5",
		"vpcmpub $4, (%rdi), %ymm22, %k3", "vpcmpub $1, 64(%rdi), %zmm22, %k3",
		"vpcmpb $2, (%rdi), %xmm22, %k3", "vpcmpuw $6, (%rdi), %ymm22, %k3",
		"vpcmpw $5, (%rdi), %ymm22, %k3{%k1}",
		"vpcmpud $1, (%rdi), %ymm22, %k3", "vpcmpd $1, (%rdi), %ymm22, %k3",
		"vpcmpuq $2, (%rdi), %ymm22, %k3", "vpcmpq $5, (%rdi), %zmm22, %k3",
		"vptestmb (%rdi), %zmm22, %k3", "vptestnmw (%rdi), %ymm22, %k3",
		"vptestmd (%rdi), %xmm22, %k3", "vptestnmq (%rdi), %zmm22, %k3",
		"vpternlogd $0xde, (%rdi), %ymm22, %ymm23", "vpternlogq $0x35, 64(%rdi), %zmm2, %zmm3"} {
		add("%s", text)
	}
	for _, op := range []string{"movups", "movupd", "movaps", "movapd", "movdqu", "movdqa",
		"movntdq", "movntps", "movntpd"} {
		for _, register := range []string{"%xmm13", "%ymm13"} {
			add("v%s %s, 64(%%rdi)", op, register)
			if !strings.HasPrefix(op, "movnt") {
				add("v%s 64(%%rdi), %s", op, register)
			}
		}
	}
	for _, op := range []string{"movdqu8", "movdqu16", "movdqu32", "movdqu64", "movdqa32",
		"movdqa64", "movups", "movupd", "movaps", "movapd"} {
		for _, register := range []string{"%xmm16", "%ymm30", "%zmm5", "%zmm31"} {
			add("v%s 64(%%rdi), %s", op, register)
			add("v%s %s, -64(%%rdi)", op, register)
			add("v%s 64(%%rdi), %s{%%k1}", op, register)
			add("v%s (%%rdi), %s{%%k2}{z}", op, register)
			add("v%s %s, 128(%%rdi){%%k3}", op, register)
		}
	}
	for _, op := range []string{"pand", "pandn", "por", "pxor", "paddb", "paddw", "paddd", "paddq",
		"psubb", "psubw", "psubd", "psubq", "pminub", "pmaxub", "andps", "andnpd", "orps",
		"xorpd"} {
		add("%s (%%rdi), %%xmm4", op)
		add("v%s (%%rdi), %%ymm5, %%ymm4", op)
	}
	for _, op := range []string{"pandd", "pandnq", "porq", "pxord", "paddb", "paddw", "paddd",
		"paddq", "psubb", "psubw", "psubd", "psubq", "pminub", "pmaxub"} {
		add("v%s 64(%%rdi), %%zmm25, %%zmm4", op)
		add("v%s (%%rdi), %%ymm25, %%ymm24", op)
	}
	return list
}

// computedTests returns tests of instructions that the program's thread executes itself, on a copy
// of the loaded data, and whose result may be stored.
func computedTests() (list []instructionTest) {
	add := func(format string, a ...any) {
		list = append(list,
			instructionTest{fmt.Sprintf(format, a...), allFlags})
	}
	for _, op := range strings.Fields("punpcklbw punpcklwd packsswb packuswb punpckhbw punpckhwd " +
		"pmullw psubusb psubusw paddusb paddusw pavgb pavgw pmulhuw pmulhw psubsb psubsw pminsw " +
		"paddsb paddsw pmaxsw pmaddwd psadbw pshufb pmaddubsw pmulhrsw pminsb pminuw pmaxsb " +
		"pmaxuw punpckldq punpckhdq packssdw packusdw punpcklqdq punpckhqdq pmuludq pmuldq " +
		"pabsb pabsw pabsd addps addpd subps subpd mulps mulpd divps divpd minps minpd maxps " +
		"maxpd sqrtps sqrtpd unpcklps unpckhpd") {
		add("%s 16(%%rdi), %%xmm4", op)
		if strings.HasPrefix(op, "pabs") || strings.HasPrefix(op, "sqrt") {
			add("v%s 64(%%rdi), %%ymm4", op)
			add("v%s 64(%%rdi), %%zmm24", op)
			continue
		}
		add("v%s 64(%%rdi), %%ymm5, %%ymm4", op)
		add("v%s 64(%%rdi), %%zmm25, %%zmm4", op)
	}
	for _, op := range strings.Fields("addss addsd subss subsd mulss mulsd divss divsd minss " +
		"maxsd sqrtss sqrtsd cvtss2sd cvtsd2ss cvtsi2ssl cvtsi2ssq cvtsi2sdl cvtsi2sdq") {
		add("%s 8(%%rdi), %%xmm4", op)
		add("v%s 8(%%rdi), %%xmm15, %%xmm4", op)
		add("v%s 8(%%rdi), %%xmm25, %%xmm24", op)
	}
	for _, op := range strings.Fields("pcmpgtb pcmpgtw pcmpgtd pcmpgtq addsubpd phaddw phaddd " +
		"psignb phsubd") {
		add("%s (%%rdi), %%xmm4", op)
		add("v%s (%%rdi), %%ymm5, %%ymm14", op)
	}
	for _, text := range []string{"ucomiss 4(%rdi), %xmm3", "comisd 8(%rdi), %xmm3",
		"vucomisd 8(%rdi), %xmm23", "ptest (%rdi), %xmm3", "vptest (%rdi), %ymm3",
		"cvttss2si (%rdi), %eax", "cvtss2si (%rdi), %rdi", "vcvttsd2si 8(%rdi), %r9",
		"vcvtsd2si 8(%rdi), %r9d",
		"cvtps2pd 8(%rdi), %xmm3", "vcvtps2pd 32(%rdi), %zmm3", "cvtpd2ps (%rdi), %xmm3",
		"vcvttpd2dq 64(%rdi), %ymm23", "vcvttpd2dqx (%rdi), %xmm3", "cvtdq2ps (%rdi), %xmm3",
		"vcvtdq2ps 64(%rdi), %zmm23",
		"vcvtdq2pd 32(%rdi), %ymm3", "cvttps2dq (%rdi), %xmm3", "vcvtudq2ps 64(%rdi), %zmm3",
		"vcvtudq2pd 32(%rdi), %zmm3", "vcvttps2udq (%rdi), %ymm3",
		"vcvtusi2ssl 4(%rdi), %xmm4, %xmm3",
		"pshufd $0x1b, (%rdi), %xmm3", "vpshufhw $0x1b, 64(%rdi), %zmm3",
		"shufps $0x2d, 16(%rdi), %xmm3", "vshufpd $9, (%rdi), %ymm4, %ymm3",
		"palignr $5, (%rdi), %xmm3", "vpalignr $5, 64(%rdi), %zmm4, %zmm23",
		"pblendw $0x5a, (%rdi), %xmm3", "cmpps $1, (%rdi), %xmm3",
		"vcmpsd $2, 8(%rdi), %xmm4, %xmm3", "vpermd (%rdi), %ymm4, %ymm3",
		"vpermps 64(%rdi), %zmm4, %zmm23", "vpermt2d 64(%rdi), %zmm4, %zmm23",
		"vpermi2w (%rdi), %ymm4, %ymm3", "pmovsxbw 8(%rdi), %xmm3", "pmovzxbd 4(%rdi), %xmm3",
		"pmovsxbq 2(%rdi), %xmm3", "vpmovzxwd 16(%rdi), %ymm3", "vpmovsxwq 16(%rdi), %zmm23",
		"vpmovzxdq 32(%rdi), %zmm3",
		"vpmovdw %zmm23, 32(%rdi)", "vpmovqb %ymm3, 4(%rdi)", "vpmovwb %zmm3, 32(%rdi)",
		"vpmovsqd %xmm3, 8(%rdi)", "vpmovusdb %zmm3, 16(%rdi)",
		"vfmadd231ps 64(%rdi), %zmm4, %zmm23", "vfmadd213sd 8(%rdi), %xmm4, %xmm3",
		"vfnmsub132ss 4(%rdi), %xmm14, %xmm3", "vfmaddsub132pd (%rdi), %ymm4, %ymm3",
		"andnl (%rdi), %edi, %ebx", "mulxq 8(%rdi), %rax, %rbx", "shlxl %ecx, (%rdi), %ebx",
		"sarxq %rcx, (%rdi,%rdx,8), %rbx", "pextl (%rdi), %ecx, %ebx", "pdepq (%rdi), %rcx, %rbx",
		"vpsllw $3, 64(%rdi), %zmm3", "vpsraw $15, (%rdi), %ymm23", "vpsrld $7, 16(%rdi), %xmm3",
		"vpsraq $3, 64(%rdi), %zmm24", "vprold $3, 64(%rdi), %zmm3", "vprorq $9, (%rdi), %ymm3",
		"vpsrlq $32, 64(%rdi), %zmm4",
		"vpslldq $5, 64(%rdi), %zmm4", "psrlw 16(%rdi), %xmm3", "vpsrad 16(%rdi), %ymm4, %ymm3",
		"vpsllq 16(%rdi), %zmm4, %zmm23", "vpsraq 16(%rdi), %zmm4, %zmm3",
		"vpsrlvd 32(%rdi), %ymm4, %ymm3",
		"vpsravq 64(%rdi), %zmm4, %zmm3",
		"pblendvb %xmm0, 16(%rdi), %xmm3", "blendvps %xmm0, (%rdi), %xmm3",
		"vpblendvb %ymm5, 32(%rdi), %ymm4, %ymm3", "vblendvpd %xmm5, (%rdi), %xmm4, %xmm3",
		"vpblendmb (%rdi), %ymm4, %ymm3{%k2}", "blendps $5, (%rdi), %xmm3",
		"vpblendd $0x5a, (%rdi), %ymm4, %ymm3", "dpps $0x71, (%rdi), %xmm3",
		"mpsadbw $5, (%rdi), %xmm3",
		"vpermb 64(%rdi), %zmm4, %zmm3", "vpermw (%rdi), %ymm4, %ymm23",
		"vpermq $0x1b, 32(%rdi), %ymm3", "vpermpd $0x1b, 64(%rdi), %zmm23",
		"vpermilps $0x1b, (%rdi), %ymm3", "vpermilpd $5, 64(%rdi), %zmm3",
		"vperm2f128 $0x21, (%rdi), %ymm4, %ymm3", "vperm2i128 $0x31, 32(%rdi), %ymm4, %ymm3",
		"valignd $3, 64(%rdi), %zmm4, %zmm3",
		"vinsertf128 $1, 16(%rdi), %ymm4, %ymm3", "vinserti32x4 $2, 16(%rdi), %zmm4, %zmm3",
		"vpabsq 64(%rdi), %zmm3", "vplzcntd 64(%rdi), %zmm3", "vpopcntq 64(%rdi), %zmm3",
		"vpopcntb (%rdi), %ymm3", "vpconflictd (%rdi), %ymm3",
		"pclmulqdq $0x11, (%rdi), %xmm3", "vpclmulqdq $0, 64(%rdi), %zmm4, %zmm3",
		"vandps 64(%rdi), %zmm4, %zmm3", "vxorpd 64(%rdi), %zmm4, %zmm3",
		"vcmpps $1, 64(%rdi), %zmm4, %k3", "vcmppd $4, (%rdi), %ymm4, %k3{%k2}",
		"vcmpss $1, 4(%rdi), %xmm24, %k3", "vcmpeqsd 8(%rdi), %xmm14, %xmm3",
		"vcvtqq2pd 64(%rdi), %zmm3", "vcvtqq2ps 64(%rdi), %ymm3", "vcvtuqq2pd (%rdi), %ymm3",
		"vcvtuqq2psy (%rdi), %xmm3", "vcvttpd2udq 64(%rdi), %ymm3",
		"vcvttps2qq 32(%rdi), %zmm3", "vcvtpd2uqq 64(%rdi), %zmm3", "vcvttpd2qq (%rdi), %ymm3",
		"vcvtps2uqq 8(%rdi), %xmm3", "roundps $1, (%rdi), %xmm3", "vroundpd $3, (%rdi), %ymm3",
		"vrndscaleps $4, 64(%rdi), %zmm3", "roundsd $1, 8(%rdi), %xmm3",
		"vroundss $2, 4(%rdi), %xmm4, %xmm3",
		"rorxq $13, 8(%rdi), %rbx", "crc32b 1(%rdi), %eax",
		"crc32w 2(%rdi), %ecx", "crc32l 4(%rdi), %r9d", "crc32q 8(%rdi), %rax"} {
		add("%s", text)
	}
	for _, text := range []string{"popcntw (%rdi), %ax", "popcntl (%rdi), %eax",
		"popcntq (%rdi), %rdi", "lzcntl 4(%rdi), %eax", "tzcntq 8(%rdi), %r9", "bsfl (%rdi), %eax",
		"bsrq (%rdi), %rax"} {
		flags := uint64(allFlags)
		if text[0] != 'p' {
			flags = 0x40
		}
		list = append(list, instructionTest{text, flags})
	}
	for _, size := range []string{"b", "w", "l", "q"} { // flags outside each mask are undefined
		r := map[string]string{"b": "%bl", "w": "%bx", "l": "%r9d", "q": "%rbx"}[size]
		for _, text := range []string{"xchg " + r + ", (%rdi)", "lock xadd " + r + ", 8(%rdi)",
			"lock cmpxchg " + r + ", (%rdi)", "xadd " + r + ", (%rdi)",
			"mov (%rdi), %rax; lock cmpxchg " + r + ", (%rdi)", "lock add " + r + ", (%rdi)",
			"lock inc" + size + " (%rdi)", "lock neg" + size + " 16(%rdi)"} {
			list = append(list, instructionTest{text, allFlags})
		}
		list = append(list, instructionTest{"lock or" + size + " $7, (%rdi)", noAdjust},
			instructionTest{"mul" + size + " (%rdi)", 0x801},
			instructionTest{"imul" + size + " 8(%rdi)", 0x801})
	}
	list = append(list, instructionTest{"lock btsl $9, (%rdi)", carryOnly})
	return append(list, instructionTest{"xor %edx, %edx; orb $1, 3(%rdi); divl (%rdi)", 0},
		instructionTest{"mov $1, %eax; cltd; orb $1, 1(%rdi); idivw (%rdi)", 0})
}

// assemblySource returns the source of a function for each test, which loads all registers,
// executes the instruction and stores all registers. wide selects the vectors of AVX-512 instead of
// AVX.
func assemblySource(list []instructionTest, wide bool) string {
	load, store, count, masked := "vmovdqu64 in+%d, %%zmm%d", "vmovdqu64 %%zmm%d, out+%d", 32, 8
	if !wide {
		load, store, count, masked = "vmovdqu in+%d, %%ymm%d", "vmovdqu %%ymm%d, out+%d", 16, 0
	}
	names := strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")
	var functions, table strings.Builder
	each := func(format string, n int, f func(i int) []any) {
		for i := range n {
			fmt.Fprintf(&functions, format, f(i)...)
		}
	}
	general := func(format string) {
		for i, name := range names {
			if name != "rsp" {
				fmt.Fprintf(&functions, format, 8*i, name)
			}
		}
	}
	const masks, vectors = 136, 200 // offsets in struct state of testdata/harness.c
	for n, test := range list {
		fmt.Fprintf(&functions,
			"run%d:\n push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14; push %%r15; "+
				"mov %%rsp, saved\n", n)
		each(" "+load+"\n", count,
			func(i int) []any { return []any{vectors + 64*i, i} })
		each(" kmovq in+%d, %%k%d\n", masked, func(i int) []any { return []any{masks + 8*i, i} })
		functions.WriteString(" pushq in+128; popfq\n")
		general(" mov in+%d, %%%s\n")
		fmt.Fprintf(&functions, " %s\n", test.text)
		general(" mov %%%[2]s, out+%[1]d\n")
		functions.WriteString(" mov %rsp, out+32; mov saved, %rsp; pushfq; popq out+128; cld\n")
		each(" "+store+"\n", count,
			func(i int) []any { return []any{i, vectors + 64*i} })
		each(" kmovq %%k%d, out+%d\n", masked, func(i int) []any { return []any{i, masks + 8*i} })
		functions.WriteString(" pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; " +
			"vzeroupper; ret\n")
		fmt.Fprintf(&table, " .quad run%d, name%d, %#x, 0xffff\n", n, n, test.flags)
		fmt.Fprintf(&functions, "name%d: .string %q\n", n, test.text)
	}
	return ".text\n" + functions.String() + ".data\n.balign 8\n.globl tests, test_count\ntests:\n" +
		table.String() +
		fmt.Sprintf("test_count: .long %d\n.section .note.GNU-stack,\"\",@progbits\n", len(list))
}

// TestInstructionsLeaveTheSameStateAsTheProcessor runs each instruction with the same registers and
// memory under the recorder and without it.
func TestInstructionsLeaveTheSameStateAsTheProcessor(t *testing.T) {
	for name, list := range map[string][]instructionTest{"integers": integerTests(),
		"vectors": vectorTests(), "computed": computedTests(), "followed": followedTests()} {
		t.Run(name, func(t *testing.T) {
			flags, err := os.ReadFile("/proc/cpuinfo")
			wide := err == nil && strings.Contains(string(flags), " avx512vl") &&
				strings.Contains(string(flags), " avx512bw")
			if !wide && (name == "vectors" || name == "computed") {
				t.Skip("this processor has no AVX-512: the state of its vectors cannot be compared")
			}
			if !wide {
				list = slices.DeleteFunc(list,
					func(o instructionTest) bool { return strings.Contains(o.text, "%zmm") })
			}
			source := filepath.Join(t.TempDir(), "tests.S")
			if err := os.WriteFile(source, []byte(assemblySource(list, wide)), 0o600); err != nil {
				t.Fatal(err)
			}
			program := compileProgram(t, "testdata/harness.c", "-O1", "-no-pie", source)
			with, without := runRecorded(t, nil, Options{}, program), runUnrecorded(t, nil, program)
			if with.exit != without.exit || with.err != nil {
				t.Errorf("exit status %d, without the recorder %d; record: %v; messages %s",
					with.exit, without.exit, with.err, with.messages)
			}
			got, want := strings.Split(with.output, "\n"), strings.Split(without.output, "\n")
			failed := 0
			for n := range min(len(got), len(want)) {
				if got[n] != want[n] && failed < 20 {
					failed++
					t.Errorf("state under the recorder %s\nwithout it              %s", got[n],
						want[n])
				}
			}
			if len(want) != 5*len(list)+1 || len(got) != len(want) && failed == 0 {
				t.Errorf("output of %d lines, without the recorder %d; want 5 for each of %d "+
					"instructions", len(got), len(want), len(list))
			}
			t.Logf("evidence: %d instructions executed as by the processor", len(list))
		})
	}
}

// TestThreadsThatComputeKeepTheirRegistersAndSignals: many threads and processes execute
// instructions themselves on a copy of the loaded data, while they receive many signals.
func TestThreadsThatComputeKeepTheirRegistersAndSignals(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	with, without := runRecorded(t, nil, Options{}, program), runUnrecorded(t, nil, program)
	compareRuns(t, with, without)
	checkReplay(t, with)
	// The program prints 1 + FPE_INTDIV and 1 + FPE_FLTDIV.
	if want := 9*200*7 + 1; len(with.capture.Records) < want ||
		!strings.Contains(with.output, "by zero: 2\na number by zero: 4\n") ||
		!strings.Contains(with.output, "together 400 ffffffff 1200 ") {
		t.Errorf("the record has %d lines, want at least %d; want two divisions by zero and the "+
			"atomics' sums in the output: %s", len(with.capture.Records), want, with.output)
	}
	t.Logf("evidence: %d accesses of instructions that compute", len(with.capture.Records))
}

// TestThreadsThatComputeAreStoppedAndTrapped: Ctrl-Z stops each thread, and is one signal. A
// SIGTRAP that the program sends itself does not count as the end of an instruction.
func TestThreadsThatComputeAreStoppedAndTrapped(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	traps := runRecorded(t, nil, Options{}, program, "traps")
	compareRuns(t, traps, runUnrecorded(t, nil, program, "traps"))
	checkReplay(t, traps)
	if len(traps.accesses()) != 8*200*7 || !strings.HasSuffix(traps.output, "came: 1\n") {
		t.Errorf("the record has %d accesses, want %d; want came: 1 at the end of the output: %s",
			len(traps.accesses()), 8*200*7, traps.output)
	}
	path := createCard(t)
	c, out := recorderCommand(t, nil, Options{}, path, program, "stops")
	// The process group of the program has its parent in another group of the session. Otherwise
	// SIGTSTP would not stop it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stops := runCommand(t, c, path)
	stops.readRecord(out)
	if want := strings.Replace(traps.output, "came: 1", "came: 0", 1); stops.err != nil ||
		stops.output != want {
		t.Errorf("exit status %d, record: %v, output %s\nwant %s", stops.exit, stops.err,
			stops.output, want)
	}
	checkReplay(t, stops)
}

// TestThreadThatComputesMayBeReplacedByExec: another thread calls exec while a thread computes.
func TestThreadThatComputesMayBeReplacedByExec(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	r := runRecorded(t, nil, Options{}, program, "exec", "30")
	if r.exit != 0 || r.err != nil || len(r.accesses()) < 31*200*7 ||
		!strings.HasSuffix(r.output, "\n") {
		t.Errorf("exit status %d, record: %v, %d accesses, want 0 and at least %d; messages %s",
			r.exit, r.err, len(r.accesses()), 31*200*7, r.messages)
	}
}

// TestComputePageIsMappedBeforeTheLoad: the recorder maps a page in which the program's thread
// executes an instruction. If the kernel does not permit it, no load has been made. The page is
// mapped again if the program unmaps it, also after the first thread has ended.
func TestComputePageIsMappedBeforeTheLoad(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	for _, scenario := range []string{"unmaps", "ends"} {
		with := runRecorded(t, nil, Options{}, program, scenario)
		compareRuns(t, with, runUnrecorded(t, nil, program, scenario))
		checkReplay(t, with)
	}
	without := runUnrecorded(t, nil, program, "refuses")
	if without.exit == 77 {
		t.Skip("needs Linux 6.3")
	}
	continued := runRecorded(t, nil, Options{ContinueUnrecorded: true}, program, "refuses")
	if continued.output != without.output || !slices.Equal(continued.accesses(),
		[]string{"W 0 4 07000000"}) || !strings.Contains(continued.messages,
		"lm cannot map a writable and executable page") {
		t.Errorf("without a page: output %q, want %q; accesses %v, want the first store; "+
			"messages %s", continued.output, without.output, continued.accesses(),
			continued.messages)
	}
}

// TestLockedInstructionOnWatchedMemoryIsRefused, because a device may write between its load and
// its store.
func TestLockedInstructionOnWatchedMemoryIsRefused(t *testing.T) {
	// The operand of each instruction is (%rdi).
	for code, want := range map[string]string{"f0 01 07": "locked", "87 07": "locked",
		"01 07": ""} {
		var bytes [3]byte
		n, _ := fmt.Sscanf(code, "%x %x %x", &bytes[0], &bytes[1], &bytes[2])
		for _, host := range []*dmaRange{nil, {}} {
			m := &memory{&recording{},
				&thread{space: &space{areas: []area{{start: pageSize, end: 2 * pageSize,
					watched: host}}}}}
			s := x86.State{Serialized: m.isSerialized}
			s.Reg[7] = pageSize
			err := x86.Step(bytes[:n], pageSize, &s, zeroMemory{})
			if refused := err != nil && strings.Contains(err.Error(),
				code+": lm cannot execute a locked"); refused != (host != nil && want != "") {
				t.Errorf("%s: error %v, watched: %v; want refused: %v", code, err, host != nil,
					!refused)
			}
		}
	}
}

// zeroMemory is a memory whose loads do not change data and whose stores have no effect.
type zeroMemory struct{}

func (zeroMemory) Load(uint64, []byte) error  { return nil }
func (zeroMemory) Store(uint64, []byte) error { return nil }
