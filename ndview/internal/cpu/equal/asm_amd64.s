//go:build !noasm

#include "textflag.h"

// Times as fast as the Go loops, at elements in the caches (record assembly): f16 31.8,
// bf16 37.9, f32 35.5, f64 18.7, c64 16.9, c128 9.0, time 15.9.

// Reports whether all elements of x and y are equal, in blocks of 64 bytes, at least
// one. NaN is not equal to itself. For AVX2.

#define ENTER \
	MOVQ     x+0(FP), SI      \
	MOVQ     y+8(FP), DX      \
	MOVQ     blocks+16(FP), CX \
	VPCMPEQB Y15, Y15, Y15

// Y0 and Y1 are all ones where elements are equal.
#define LEAVE \
	VPAND      Y0, Y15, Y15 \
	VPAND      Y1, Y15, Y15 \
	ADDQ       $64, SI      \
	ADDQ       $64, DX      \
	DECQ       CX           \
	JNZ        loop         \
	VPMOVMSKB  Y15, AX      \
	CMPL       AX, $-1

// func name(x, y unsafe.Pointer, blocks int64) bool
#define FLOATS(name, COMPARE) \
TEXT name(SB), NOSPLIT, $0-25 \
	ENTER                     \
loop:                         \
	VMOVUPS  (SI), Y0         \
	VMOVUPS  32(SI), Y1       \
	COMPARE  $0, (DX), Y0, Y0 \
	COMPARE  $0, 32(DX), Y1, Y1 \
	LEAVE                     \
	SETEQ    ret+24(FP)       \
	VZEROUPPER                \
	RET

FLOATS(·same32, VCMPPS)
FLOATS(·same64, VCMPPD)

// Elements are equal if their bits are and they are not NaN, or if both are zeros. Y14
// has all bits but the signs, Y13 infinities, Y12 zeros.
#define HALVES(at, y) \
	VMOVDQU  at(SI), y      \
	VMOVDQU  at(DX), Y2     \
	VPCMPEQW Y2, y, Y3      \
	VPAND    Y14, y, Y4     \
	VPCMPGTW Y13, Y4, Y5    \
	VPANDN   Y3, Y5, Y3     \
	VPOR     y, Y2, Y2      \
	VPAND    Y14, Y2, Y2    \
	VPCMPEQW Y12, Y2, Y2    \
	VPOR     Y2, Y3, y

// func sameHalves(x, y unsafe.Pointer, blocks int64, infinity uint64) bool
TEXT ·sameHalves(SB), NOSPLIT, $0-33
	ENTER
	VPCMPEQW     Y14, Y14, Y14
	VPSRLW       $1, Y14, Y14
	VPBROADCASTQ infinity+24(FP), Y13
	VPXOR        Y12, Y12, Y12

loop:
	HALVES(0, Y0)
	HALVES(32, Y1)
	LEAVE
	SETEQ ret+32(FP)
	VZEROUPPER
	RET

// Elements are equal if their bits are and they are not Y14, which is NaT.
#define TIMES(at, y) \
	VMOVDQU  at(SI), y        \
	VPCMPEQQ Y14, y, Y3       \
	VPCMPEQQ at(DX), y, Y2    \
	VPANDN   Y2, Y3, y

// func sameTimes(x, y unsafe.Pointer, blocks int64) bool
TEXT ·sameTimes(SB), NOSPLIT, $0-25
	ENTER
	VPSLLQ $63, Y15, Y14

loop:
	TIMES(0, Y0)
	TIMES(32, Y1)
	LEAVE
	SETEQ ret+24(FP)
	VZEROUPPER
	RET
