#include "textflag.h"

// Loops of one operand, and what else has a file of Go beside it, function_amd64.go.

#define ONE \
	MOVQ out+0(FP), DI \
	MOVQ x+8(FP), SI   \
	MOVQ n+16(FP), CX

#define NEXT(bytes) \
	ADDQ $bytes, SI \
	ADDQ $bytes, DI \
	DECQ CX         \
	JNZ  loop       \
	VZEROUPPER      \
	RET

// func name(out, x unsafe.Pointer, n int), of n blocks of 64 bytes. What PREPARE
// leaves in Y15 is an operand of INSTRUCTION.
#define UNARY(name, PREPARE, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-24           \
	ONE                                 \
	PREPARE                             \
loop:                                   \
	INSTRUCTION (SI), Y15, Y0           \
	INSTRUCTION 32(SI), Y15, Y1         \
	VMOVDQU     Y0, (DI)                \
	VMOVDQU     Y1, 32(DI)              \
	NEXT(64)

#define ONES  VPCMPEQB Y15, Y15, Y15
#define ZERO  VPXOR Y15, Y15, Y15
#define SIGN32 ONES; VPSLLD $31, Y15, Y15
#define SIGN64 ONES; VPSLLQ $63, Y15, Y15
#define REST32 ONES; VPSRLD $1, Y15, Y15
#define REST64 ONES; VPSRLQ $1, Y15, Y15

UNARY(·neg8, ZERO, VPSUBB)
UNARY(·neg16, ZERO, VPSUBW)
UNARY(·neg32, ZERO, VPSUBD)
UNARY(·neg64, ZERO, VPSUBQ)
UNARY(·negf32, SIGN32, VPXOR)
UNARY(·negf64, SIGN64, VPXOR)
UNARY(·absf32, REST32, VPAND)
UNARY(·absf64, REST64, VPAND)

// func name(out, x unsafe.Pointer, n int), likewise.
#define ROOT(name, INSTRUCTION) \
TEXT name(SB), NOSPLIT, $0-24           \
	ONE                                 \
loop:                                   \
	INSTRUCTION (SI), Y0                \
	INSTRUCTION 32(SI), Y1              \
	VMOVDQU     Y0, (DI)                \
	VMOVDQU     Y1, 32(DI)              \
	NEXT(64)

ROOT(·sqrtf32, VSQRTPS)
ROOT(·sqrtf64, VSQRTPD)

#define ROUND(name, INSTRUCTION, mode) \
TEXT name(SB), NOSPLIT, $0-24           \
	ONE                                 \
loop:                                   \
	INSTRUCTION $mode, (SI), Y0         \
	INSTRUCTION $mode, 32(SI), Y1       \
	VMOVDQU     Y0, (DI)                \
	VMOVDQU     Y1, 32(DI)              \
	NEXT(64)

ROUND(·rintf32, VROUNDPS, 8)
ROUND(·floorf32, VROUNDPS, 9)
ROUND(·ceilf32, VROUNDPS, 10)
ROUND(·truncf32, VROUNDPS, 11)
ROUND(·rintf64, VROUNDPD, 8)
ROUND(·floorf64, VROUNDPD, 9)
ROUND(·ceilf64, VROUNDPD, 10)
ROUND(·truncf64, VROUNDPD, 11)

// PRODUCT is that of complex numbers at off: the real parts of x with y, less and
// more the imaginary ones with y turned round.
#define PRODUCT(off, REALS, IMAGINARIES, TURNED, MULTIPLY, ADDSUB) \
	VMOVUPS  off(SI), Y0 \
	VMOVUPS  off(DX), Y1 \
	REALS(Y0, Y2)        \
	IMAGINARIES(Y0, Y0)  \
	TURNED(Y1, Y3)       \
	MULTIPLY Y1, Y2, Y2  \
	MULTIPLY Y3, Y0, Y0  \
	ADDSUB   Y0, Y2, Y2  \
	VMOVUPS  Y2, off(DI)

#define REALS32(a, b) VMOVSLDUP a, b
#define IMAGINARIES32(a, b) VMOVSHDUP a, b
#define TURNED32(a, b) VPERMILPS $0xb1, a, b
#define REALS64(a, b) VMOVDDUP a, b
#define IMAGINARIES64(a, b) VPERMILPD $0xf, a, b
#define TURNED64(a, b) VPERMILPD $5, a, b

// func mulc64(out, x, y unsafe.Pointer, n int), of n blocks of 64 bytes.
TEXT ·mulc64(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	PRODUCT(0, REALS32, IMAGINARIES32, TURNED32, VMULPS, VADDSUBPS)
	PRODUCT(32, REALS32, IMAGINARIES32, TURNED32, VMULPS, VADDSUBPS)
	ADDQ $64, DX
	NEXT(64)

// func mulc128(out, x, y unsafe.Pointer, n int), of n blocks of 64 bytes.
TEXT ·mulc128(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	PRODUCT(0, REALS64, IMAGINARIES64, TURNED64, VMULPD, VADDSUBPD)
	PRODUCT(32, REALS64, IMAGINARIES64, TURNED64, VMULPD, VADDSUBPD)
	ADDQ $64, DX
	NEXT(64)

// func expf32(out, x unsafe.Pointer, n int) int, of n blocks of 32 bytes: 2^k * e^r
// where x = k*ln2 + r and |r| <= ln2/2. The power of two comes in two halves, that
// it may be beyond a float32.
TEXT ·expf32(SB), NOSPLIT, $0-32
	ONE
	MOVQ    CX, done+24(FP)
	LEAQ    ·exponential(SB), R8
	VMOVUPS (R8), Y4
	VMOVUPS 32(R8), Y5
	VMOVUPS 64(R8), Y6
	VMOVUPS 96(R8), Y7
	VMOVUPS 128(R8), Y8
	VMOVUPS 160(R8), Y9
	VMOVUPS 192(R8), Y10
	VMOVUPS 224(R8), Y11
	VMOVUPS 256(R8), Y12
	VMOVUPS 288(R8), Y13
	VMOVUPS 320(R8), Y14
	VPSRLD  $23, Y12, Y15 // the exponent of 1

loop:
	VMOVUPS      (SI), Y0
	VMINPS       Y0, Y14, Y0 // a NaN stays
	VMAXPS       Y0, Y13, Y0
	VMULPS       Y4, Y0, Y1
	VROUNDPS     $8, Y1, Y1
	VFNMADD231PS Y5, Y1, Y0
	VFNMADD231PS Y6, Y1, Y0
	VCVTPS2DQ    Y1, Y1
	VMOVAPS      Y11, Y2
	VFMADD213PS  Y10, Y0, Y2
	VFMADD213PS  Y9, Y0, Y2
	VFMADD213PS  Y8, Y0, Y2
	VFMADD213PS  Y7, Y0, Y2
	VMULPS       Y0, Y0, Y3
	VFMADD213PS  Y0, Y3, Y2
	VADDPS       Y12, Y2, Y2
	VPSRAD       $1, Y1, Y3
	VPSUBD       Y3, Y1, Y1
	VPADDD       Y15, Y3, Y3
	VPADDD       Y15, Y1, Y1
	VPSLLD       $23, Y3, Y3
	VPSLLD       $23, Y1, Y1
	VMULPS       Y3, Y2, Y2
	VMULPS       Y1, Y2, Y2
	VMOVUPS      Y2, (DI)
	NEXT(32)

// WAVE is func name(out, x unsafe.Pointer, n int) (done int), of n blocks of 32
// bytes: the sine or cosine of r, |r| <= pi/4, where |x| = k*pi/2 + r. It ends
// before the first block of which a number is too large for that, or none. Y13 are
// the quarters that x is ahead, Y14 the bits of x that the result takes over.
#define WAVE(name, AHEAD) \
TEXT name(SB), NOSPLIT, $0-32     \
	ONE                           \
	XORQ     BX, BX               \
	LEAQ     ·wave(SB), R8        \
	VPCMPEQD Y15, Y15, Y15        \
	VPSLLD   $31, Y15, Y15        \
	AHEAD                         \
loop:                             \
	VMOVUPS      (SI), Y0         \
	VANDNPS      Y0, Y15, Y1      \
	VANDPS       Y14, Y0, Y0      \
	VCMPPS       $22, (R8), Y1, Y2 \
	VMOVMSKPS    Y2, AX           \
	TESTL        AX, AX           \
	JNZ          end              \
	VMULPS       32(R8), Y1, Y2   \
	VROUNDPS     $8, Y2, Y2       \
	VFNMADD231PS 64(R8), Y2, Y1   \
	VFNMADD231PS 96(R8), Y2, Y1   \
	VFNMADD231PS 128(R8), Y2, Y1  \
	VCVTPS2DQ    Y2, Y2           \
	VPADDD       Y13, Y2, Y2      \
	VMULPS       Y1, Y1, Y3       \
	VMOVUPS      224(R8), Y4      \
	VFMADD213PS  192(R8), Y3, Y4  \
	VFMADD213PS  160(R8), Y3, Y4  \
	VMULPS       Y1, Y3, Y5       \
	VFMADD213PS  Y1, Y5, Y4       \
	VMOVUPS      320(R8), Y6      \
	VFMADD213PS  288(R8), Y3, Y6  \
	VFMADD213PS  256(R8), Y3, Y6  \
	VMULPS       Y3, Y3, Y7       \
	VMOVUPS      352(R8), Y8      \
	VFNMADD231PS 384(R8), Y3, Y8  \
	VFMADD213PS  Y8, Y7, Y6       \
	VPSLLD       $31, Y2, Y9      \
	VBLENDVPS    Y9, Y6, Y4, Y4   \
	VPSRLD       $1, Y2, Y2       \
	VPSLLD       $31, Y2, Y2      \
	VPXOR        Y2, Y0, Y0       \
	VPXOR        Y0, Y4, Y4       \
	VMOVUPS      Y4, (DI)         \
	ADDQ         $32, SI          \
	ADDQ         $32, DI          \
	INCQ         BX               \
	CMPQ         BX, CX           \
	JLT          loop             \
end:                              \
	VZEROUPPER                    \
	MOVQ         BX, done+24(FP)  \
	RET

#define SINE \
	VMOVAPS Y15, Y14      \
	VPXOR   Y13, Y13, Y13

#define COSINE \
	VPXOR  Y14, Y14, Y14 \
	VPSRLD $31, Y15, Y13

WAVE(·sinf32, SINE)
WAVE(·cosf32, COSINE)
