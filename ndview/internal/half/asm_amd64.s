//go:build !noasm

#include "textflag.h"

// Times as fast as the Go loops, at elements in the caches (record assembly):
// widenFloat16 37.6, widenFloat16Double 15.8, widenBFloat16 12.6, widenBFloat16Double
// 5.5, narrowFloat16 40.8, narrowDoubleFloat16 13.5, narrowBFloat16 6.4,
// narrowDoubleBFloat16 4.7.

// Each function converts n elements, n a multiple of 16, n > 0.

// func hasF16C() bool
TEXT ·hasF16C(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	SHRL $29, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET

// func widenFloat16(dst *float32, src *uint16, n int)
TEXT ·widenFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// func narrowFloat16(dst *uint16, src *float32, n int)
TEXT ·narrowFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVUPS   (SI), Y0
	VMOVUPS   32(SI), Y1
	VCVTPS2PH $0, Y0, X0 // 0: to nearest, ties to even
	VCVTPS2PH $0, Y1, X1
	VMOVDQU   X0, (DI)
	VMOVDQU   X1, 16(DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// STICKY is roundToOdd of the 8 doubles at off(SI), as floats in Y0. Y15 has the low
// bits. It overwrites Y1 to Y3.
#define STICKY(off) \
	VMOVUPD     off(SI), Y0      \
	VMOVUPD     off+32(SI), Y1   \
	VPAND       Y15, Y0, Y2      \
	VPAND       Y15, Y1, Y3      \
	VPADDQ      Y15, Y2, Y2      \
	VPADDQ      Y15, Y3, Y3      \
	VPOR        Y2, Y0, Y0       \
	VPOR        Y3, Y1, Y1       \
	VPANDN      Y0, Y15, Y0      \
	VPANDN      Y1, Y15, Y1      \
	VCVTPD2PSY  Y0, X0           \
	VCVTPD2PSY  Y1, X1           \
	VINSERTF128 $1, X1, Y0, Y0

// LOWBITS sets Y15 to the bits of four doubles that are dropped.
#define LOWBITS \
	VPCMPEQQ Y15, Y15, Y15 \
	VPSRLQ   $24, Y15, Y15

// func narrowDoubleFloat16(dst *uint16, src *float64, n int)
TEXT ·narrowDoubleFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	LOWBITS

loop:
	STICKY(0)
	VCVTPS2PH $0, Y0, X4
	STICKY(64)
	VCVTPS2PH $0, Y0, X5
	VMOVDQU   X4, (DI)
	VMOVDQU   X5, 16(DI)
	ADDQ      $128, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// func widenBFloat16(dst *float32, src *uint16, n int)
TEXT ·widenBFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPMOVZXWD (SI), Y0
	VPMOVZXWD 16(SI), Y1
	VPSLLD    $16, Y0, Y0
	VPSLLD    $16, Y1, Y1
	VMOVDQU   Y0, (DI)
	VMOVDQU   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// ROUND converts the 8 floats in Y0 to bfloat16, as dwords in out. Y12 has 0x40, Y13
// 0x7fff, Y14 1. It overwrites Y1 and Y2.
#define ROUND(out) \
	VPSRLD    $16, Y0, Y1      \
	VPAND     Y14, Y1, Y2      \
	VPADDD    Y13, Y2, Y2      \
	VPADDD    Y0, Y2, Y2       \
	VPSRLD    $16, Y2, Y2      \
	VPOR      Y12, Y1, Y1      \
	VCMPPS    $3, Y0, Y0, Y0   \ // 3: unordered, true for NaNs
	VPBLENDVB Y0, Y1, Y2, out

// CONSTANTS sets the constants of ROUND.
#define CONSTANTS \
	VPCMPEQD Y14, Y14, Y14 \
	VPSRLD   $17, Y14, Y13 \
	VPSRLD   $31, Y14, Y14 \
	VPSLLD   $6, Y14, Y12

// func narrowBFloat16(dst *uint16, src *float32, n int)
TEXT ·narrowBFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	CONSTANTS

loop:
	VMOVUPS   (SI), Y0
	ROUND(Y4)
	VMOVUPS   32(SI), Y0
	ROUND(Y5)
	VPACKUSDW Y5, Y4, Y4
	VPERMQ    $0xd8, Y4, Y4
	VMOVDQU   Y4, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// func narrowDoubleBFloat16(dst *uint16, src *float64, n int)
TEXT ·narrowDoubleBFloat16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	CONSTANTS
	LOWBITS

loop:
	STICKY(0)
	ROUND(Y4)
	STICKY(64)
	ROUND(Y5)
	VPACKUSDW Y5, Y4, Y4
	VPERMQ    $0xd8, Y4, Y4
	VMOVDQU   Y4, (DI)
	ADDQ      $128, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// func widenFloat16Double(dst *float64, src *uint16, n int)
TEXT ·widenFloat16Double(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPH2PS (SI), X0
	VCVTPH2PS 8(SI), X1
	VCVTPH2PS 16(SI), X2
	VCVTPH2PS 24(SI), X3
	VCVTPS2PD X0, Y0
	VCVTPS2PD X1, Y1
	VCVTPS2PD X2, Y2
	VCVTPS2PD X3, Y3
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	VMOVUPD   Y2, 64(DI)
	VMOVUPD   Y3, 96(DI)
	ADDQ      $32, SI
	ADDQ      $128, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET

// func widenBFloat16Double(dst *float64, src *uint16, n int)
TEXT ·widenBFloat16Double(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPMOVZXWD (SI), X0
	VPMOVZXWD 8(SI), X1
	VPMOVZXWD 16(SI), X2
	VPMOVZXWD 24(SI), X3
	VPSLLD    $16, X0, X0
	VPSLLD    $16, X1, X1
	VPSLLD    $16, X2, X2
	VPSLLD    $16, X3, X3
	VCVTPS2PD X0, Y0
	VCVTPS2PD X1, Y1
	VCVTPS2PD X2, Y2
	VCVTPS2PD X3, Y3
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	VMOVUPD   Y2, 64(DI)
	VMOVUPD   Y3, 96(DI)
	ADDQ      $32, SI
	ADDQ      $128, DI
	SUBQ      $16, CX
	JNZ       loop
	VZEROUPPER
	RET
