#include "textflag.h"

// Loops of 32 bytes a step and more, for processors with AVX2. What is n blocks
// of 64 bytes, or of 32 elements, is said at each kind.

#define ARGUMENTS \
	MOVQ out+0(FP), DI \
	MOVQ x+8(FP), SI   \
	MOVQ y+16(FP), DX  \
	MOVQ n+24(FP), CX

// What comparisons begin with, see there.
#define COMPARISON \
	ARGUMENTS                       \
	VPBROADCASTQ flip+32(FP), Y15   \
	MOVQ         invert+40(FP), BX  \
	VPBROADCASTQ invert+40(FP), Y14 \
	VPCMPEQB     Y13, Y13, Y13      \
	VPABSB       Y13, Y13           \
	LEAQ         ·spread(SB), R8

// What choices begin with.
#define CHOICE \
	MOVQ  out+0(FP), DI       \
	MOVQ  condition+8(FP), R8 \
	MOVQ  x+16(FP), SI        \
	MOVQ  y+24(FP), DX        \
	MOVQ  n+32(FP), CX        \
	VPXOR Y15, Y15, Y15

#define NEXT64 \
	ADDQ $64, SI \
	ADDQ $64, DX \
	ADDQ $64, DI \
	DECQ CX      \
	JNZ  loop    \
	VZEROUPPER   \
	RET

// func name(out, x, y unsafe.Pointer, n int), of n blocks of 64 bytes.
#define BINARY(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-32           \
	ARGUMENTS                           \
loop:                                   \
	VMOVDQU     (SI), Y0                \
	VMOVDQU     32(SI), Y1              \
	INSTRUCTION (DX), Y0, Y0            \
	INSTRUCTION 32(DX), Y1, Y1          \
	VMOVDQU     Y0, (DI)                \
	VMOVDQU     Y1, 32(DI)              \
	NEXT64

BINARY(·add8, VPADDB)
BINARY(·add16, VPADDW)
BINARY(·add32, VPADDD)
BINARY(·add64, VPADDQ)
BINARY(·addf32, VADDPS)
BINARY(·addf64, VADDPD)
BINARY(·sub8, VPSUBB)
BINARY(·sub16, VPSUBW)
BINARY(·sub32, VPSUBD)
BINARY(·sub64, VPSUBQ)
BINARY(·subf32, VSUBPS)
BINARY(·subf64, VSUBPD)
BINARY(·mul16, VPMULLW)
BINARY(·mul32, VPMULLD)
BINARY(·mulf32, VMULPS)
BINARY(·mulf64, VMULPD)
BINARY(·divf32, VDIVPS)
BINARY(·divf64, VDIVPD)
BINARY(·and64, VPAND)
BINARY(·or64, VPOR)
BINARY(·xor64, VPXOR)
BINARY(·max8, VPMAXSB)
BINARY(·max16, VPMAXSW)
BINARY(·max32, VPMAXSD)
BINARY(·maxu8, VPMAXUB)
BINARY(·maxu16, VPMAXUW)
BINARY(·maxu32, VPMAXUD)
BINARY(·min8, VPMINSB)
BINARY(·min16, VPMINSW)
BINARY(·min32, VPMINSD)
BINARY(·minu8, VPMINUB)
BINARY(·minu16, VPMINUW)
BINARY(·minu32, VPMINUD)

// MUL8 is the products of the bytes at off: those at even places, and those at
// odd ones, as words.
#define MUL8(off) \
	VMOVDQU off(SI), Y0   \
	VMOVDQU off(DX), Y1   \
	VPMULLW Y1, Y0, Y2    \
	VPSRLW  $8, Y0, Y0    \
	VPSRLW  $8, Y1, Y1    \
	VPMULLW Y1, Y0, Y0    \
	VPSLLW  $8, Y0, Y0    \
	VPAND   Y15, Y2, Y2   \
	VPOR    Y2, Y0, Y0    \
	VMOVDQU Y0, off(DI)

// func mul8(out, x, y unsafe.Pointer, n int)
TEXT ·mul8(SB), NOSPLIT, $0-32
	ARGUMENTS
	VPCMPEQW Y15, Y15, Y15
	VPSRLW   $8, Y15, Y15

loop:
	MUL8(0)
	MUL8(32)
	NEXT64

// MUL64 is the low halves of the products of quadwords, from those of their
// halves.
#define MUL64(off) \
	VMOVDQU  off(SI), Y0  \
	VMOVDQU  off(DX), Y1  \
	VPSRLQ   $32, Y0, Y2  \
	VPSRLQ   $32, Y1, Y3  \
	VPMULUDQ Y1, Y2, Y2   \
	VPMULUDQ Y3, Y0, Y3   \
	VPADDQ   Y3, Y2, Y2   \
	VPSLLQ   $32, Y2, Y2  \
	VPMULUDQ Y1, Y0, Y0   \
	VPADDQ   Y2, Y0, Y0   \
	VMOVDQU  Y0, off(DI)

// func mul64(out, x, y unsafe.Pointer, n int)
TEXT ·mul64(SB), NOSPLIT, $0-32
	ARGUMENTS

loop:
	MUL64(0)
	MUL64(32)
	NEXT64

// Comparisons are func name(out, x, y unsafe.Pointer, n int, flip, invert uint64),
// of n blocks of 32 elements: flip, which is xored with quadwords of both
// operands, makes unsigned integers signed, and invert, all ones or 0, makes the
// answers opposite.
#define NEXT32(bytes) \
	ADDQ $bytes, SI \
	ADDQ $bytes, DX \
	ADDQ $32, DI    \
	DECQ CX         \
	JNZ  loop       \
	VZEROUPPER      \
	RET

// LOADBOTH has what is at off of y in a, of x in b.
#define LOADBOTH(off, a, b) \
	VPXOR off(SI), Y15, b \
	VPXOR off(DX), Y15, a

#define COMPARE8(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-48      \
	COMPARISON                     \
loop:                              \
	LOADBOTH(0, Y0, Y1)            \
	INSTRUCTION Y1, Y0, Y0         \
	VPXOR       Y14, Y0, Y0        \
	VPAND       Y13, Y0, Y0        \
	VMOVDQU     Y0, (DI)           \
	NEXT32(32)

#define COMPARE16(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-48      \
	COMPARISON                     \
loop:                              \
	LOADBOTH(0, Y0, Y1)            \
	LOADBOTH(32, Y2, Y3)           \
	INSTRUCTION Y1, Y0, Y0         \
	INSTRUCTION Y3, Y2, Y2         \
	VPACKSSWB   Y2, Y0, Y0         \
	VPERMQ      $0xd8, Y0, Y0      \
	VPXOR       Y14, Y0, Y0        \
	VPAND       Y13, Y0, Y0        \
	VMOVDQU     Y0, (DI)           \
	NEXT32(64)

// ANSWERS8 writes the signs of the eight dwords of Y0 as bools, ANSWERS4 those of
// the quadwords of Y0 and Y2.
#define ANSWERS8(at) \
	VMOVMSKPS Y0, AX         \
	XORL      BX, AX         \
	ANDL      $0xff, AX      \
	MOVQ      (R8)(AX*8), R9 \
	MOVQ      R9, at

#define EIGHT32(off, at, INSTRUCTION) \
	LOADBOTH(off, Y0, Y1)      \
	INSTRUCTION Y1, Y0, Y0     \
	ANSWERS8(at)

#define COMPARE32(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-48              \
	COMPARISON                             \
loop:                                      \
	EIGHT32(0, (DI), INSTRUCTION)          \
	EIGHT32(32, 8(DI), INSTRUCTION)        \
	EIGHT32(64, 16(DI), INSTRUCTION)       \
	EIGHT32(96, 24(DI), INSTRUCTION)       \
	NEXT32(128)

#define ANSWERS4(at) \
	VMOVMSKPD Y0, AX         \
	VMOVMSKPD Y2, R10        \
	SHLL      $4, R10        \
	ORL       R10, AX        \
	XORL      BX, AX         \
	ANDL      $0xff, AX      \
	MOVQ      (R8)(AX*8), R9 \
	MOVQ      R9, at

#define EIGHT64(off, off2, at, INSTRUCTION) \
	LOADBOTH(off, Y0, Y1)      \
	LOADBOTH(off2, Y2, Y3)     \
	INSTRUCTION Y1, Y0, Y0     \
	INSTRUCTION Y3, Y2, Y2     \
	ANSWERS4(at)

#define COMPARE64(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-48                  \
	COMPARISON                                 \
loop:                                          \
	EIGHT64(0, 32, (DI), INSTRUCTION)          \
	EIGHT64(64, 96, 8(DI), INSTRUCTION)        \
	EIGHT64(128, 160, 16(DI), INSTRUCTION)     \
	EIGHT64(192, 224, 24(DI), INSTRUCTION)     \
	NEXT32(256)

COMPARE8(·eq8, VPCMPEQB)
COMPARE8(·lt8, VPCMPGTB)
COMPARE16(·eq16, VPCMPEQW)
COMPARE16(·lt16, VPCMPGTW)
COMPARE32(·eq32, VPCMPEQD)
COMPARE32(·lt32, VPCMPGTD)
COMPARE64(·eq64, VPCMPEQQ)
COMPARE64(·lt64, VPCMPGTQ)

#define EIGHTF32(off, at, predicate) \
	VMOVUPS off(SI), Y0                 \
	VCMPPS  $predicate, off(DX), Y0, Y0 \
	ANSWERS8(at)

#define COMPAREF32(name, predicate) \
TEXT name(SB), NOSPLIT, $0-48              \
	COMPARISON                             \
loop:                                      \
	EIGHTF32(0, (DI), predicate)           \
	EIGHTF32(32, 8(DI), predicate)         \
	EIGHTF32(64, 16(DI), predicate)        \
	EIGHTF32(96, 24(DI), predicate)        \
	NEXT32(128)

#define EIGHTF64(off, off2, at, predicate) \
	VMOVUPD off(SI), Y0                  \
	VMOVUPD off2(SI), Y2                 \
	VCMPPD  $predicate, off(DX), Y0, Y0  \
	VCMPPD  $predicate, off2(DX), Y2, Y2 \
	ANSWERS4(at)

#define COMPAREF64(name, predicate) \
TEXT name(SB), NOSPLIT, $0-48              \
	COMPARISON                             \
loop:                                      \
	EIGHTF64(0, 32, (DI), predicate)       \
	EIGHTF64(64, 96, 8(DI), predicate)     \
	EIGHTF64(128, 160, 16(DI), predicate)  \
	EIGHTF64(192, 224, 24(DI), predicate)  \
	NEXT32(256)

// The predicates are those that a NaN makes false and that raise nothing.
COMPAREF32(·eqf32, 0)
COMPAREF32(·ltf32, 17)
COMPAREF32(·lef32, 18)
COMPAREF64(·eqf64, 0)
COMPAREF64(·ltf64, 17)
COMPAREF64(·lef64, 18)

// Choices are func name(out, condition, x, y unsafe.Pointer, n int), of n blocks
// of 32 elements.
// PICK has the elements of y where the mask, of what is not to be x, has ones.
#define PICK(off) \
	VMOVDQU   off(SI), Y1            \
	VPBLENDVB Y0, off(DX), Y1, Y1    \
	VMOVDQU   Y1, off(DI)

#define NEXTCHOICE(bytes) \
	ADDQ $32, R8    \
	ADDQ $bytes, SI \
	ADDQ $bytes, DX \
	ADDQ $bytes, DI \
	DECQ CX         \
	JNZ  loop       \
	VZEROUPPER      \
	RET

// func where8(out, condition, x, y unsafe.Pointer, n int)
TEXT ·where8(SB), NOSPLIT, $0-40
	CHOICE

loop:
	VPCMPEQB (R8), Y15, Y0
	PICK(0)
	NEXTCHOICE(32)

#define PICK16(from, off) \
	VPMOVZXBW from(R8), Y0    \
	VPCMPEQW  Y15, Y0, Y0     \
	PICK(off)

// func where16(out, condition, x, y unsafe.Pointer, n int)
TEXT ·where16(SB), NOSPLIT, $0-40
	CHOICE

loop:
	PICK16(0, 0)
	PICK16(16, 32)
	NEXTCHOICE(64)

#define PICK32(from, off) \
	VPMOVZXBD from(R8), Y0    \
	VPCMPEQD  Y15, Y0, Y0     \
	PICK(off)

// func where32(out, condition, x, y unsafe.Pointer, n int)
TEXT ·where32(SB), NOSPLIT, $0-40
	CHOICE

loop:
	PICK32(0, 0)
	PICK32(8, 32)
	PICK32(16, 64)
	PICK32(24, 96)
	NEXTCHOICE(128)

#define PICK64(from, off) \
	VPMOVZXBQ from(R8), Y0    \
	VPCMPEQQ  Y15, Y0, Y0     \
	PICK(off)

// func where64(out, condition, x, y unsafe.Pointer, n int)
TEXT ·where64(SB), NOSPLIT, $0-40
	CHOICE

loop:
	PICK64(0, 0)
	PICK64(4, 32)
	PICK64(8, 64)
	PICK64(12, 96)
	PICK64(16, 128)
	PICK64(20, 160)
	PICK64(24, 192)
	PICK64(28, 224)
	NEXTCHOICE(256)
