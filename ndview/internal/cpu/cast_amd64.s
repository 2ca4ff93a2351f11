//go:build !noasm

#include "textflag.h"
#include "cast_amd64.h"

// Times as fast as the Go loops, at elements in the caches (record assembly): i8to16
// 15.5, i8to32 8.1, i8to64 4.1, u8to16 15.7, u8to32 8.1, u8to64 4.0, i16to32 11.2,
// i16to64 6.5, u16to32 9.9, u16to64 5.5, i32to64 3.7, u32to64 3.9, n16to8 15.6, n32to8
// 8.1, n32to16 8.1, n64to8 4.1, n64to16 4.0, n64to32 5.2, floatto8 23.0, floatto16 23.1,
// doubleto8 6.0, doubleto16 6.0, truth8 12.5, truth16 18.4, truthHalf 14.9, truth32
// 12.6, truthFloat 15.3, truth64 6.4, truthDouble 7.7, truthComplex 5.5,
// truthComplexDouble 3.0, i32toFloat 15.0, i32toDouble 4.5, u32toFloat 7.6, floatToI32
// 32.1, floatToU32 3.0, floatToI64 3.0, floatToDouble 3.7, doubleToI32 11.2, doubleToU32
// 2.9, doubleToI64 2.9, floatToU64 1.4, doubleToU64 1.8, n64to32complex 7.9, realDouble
// 2.2, u32to64complex 5.8, doubleToComplex 1.6, doubleToFloat 3.9, realto32 23.4,
// realdoubleto32 5.3, i8toFloat 10.3, i8toDouble 4.5, u8toFloat 11.5, u8toDouble 5.3,
// i16toFloat 11.5, i16toDouble 4.6, u16toFloat 10.4, u16toDouble 4.0, i8tocomplex 6.7,
// i8tocomplexdouble 1.9, u8tocomplex 6.6, u8tocomplexdouble 2.0, i16tocomplex 6.7,
// i16tocomplexdouble 1.9, u16tocomplex 6.7, u16tocomplexdouble 1.9, i32tocomplex 6.6,
// i32tocomplexdouble 1.8, realto8 17.7, realto16 16.8, realdoubleto8 4.5, realdoubleto16
// 4.6, oddI32toFloat 6.0, oddU32toFloat 4.6.

// Casts for AVX2. n is the number of blocks of 32 elements, n > 0.

// Integers to wider integers.

// func u8to16(dst, src unsafe.Pointer, n int)
TEXT ·u8to16(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY2(VPMOVZXBW, 16)
	STORE2
	NEXT(32, 64)

// func i8to16(dst, src unsafe.Pointer, n int)
TEXT ·i8to16(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY2(VPMOVSXBW, 16)
	STORE2
	NEXT(32, 64)

// func u8to32(dst, src unsafe.Pointer, n int)
TEXT ·u8to32(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VPMOVZXBD, 8)
	STORE4
	NEXT(32, 128)

// func i8to32(dst, src unsafe.Pointer, n int)
TEXT ·i8to32(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VPMOVSXBD, 8)
	STORE4
	NEXT(32, 128)

// func u16to32(dst, src unsafe.Pointer, n int)
TEXT ·u16to32(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VPMOVZXWD, 16)
	STORE4
	NEXT(64, 128)

// func i16to32(dst, src unsafe.Pointer, n int)
TEXT ·i16to32(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VPMOVSXWD, 16)
	STORE4
	NEXT(64, 128)

// func u8to64(dst, src unsafe.Pointer, n int)
TEXT ·u8to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVZXBQ, 4)
	STORE8
	NEXT(32, 256)

// func i8to64(dst, src unsafe.Pointer, n int)
TEXT ·i8to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVSXBQ, 4)
	STORE8
	NEXT(32, 256)

// func u16to64(dst, src unsafe.Pointer, n int)
TEXT ·u16to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVZXWQ, 8)
	STORE8
	NEXT(64, 256)

// func i16to64(dst, src unsafe.Pointer, n int)
TEXT ·i16to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVSXWQ, 8)
	STORE8
	NEXT(64, 256)

// func u32to64(dst, src unsafe.Pointer, n int)
TEXT ·u32to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVZXDQ, 16)
	STORE8
	NEXT(128, 256)

// func i32to64(dst, src unsafe.Pointer, n int)
TEXT ·i32to64(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VPMOVSXDQ, 16)
	STORE8
	NEXT(128, 256)

// Integers to narrower integers. The upper bits are cleared, so that packing does not
// saturate. Packing treats the two halves of vectors separately.

// func n16to8(dst, src unsafe.Pointer, n int)
TEXT ·n16to8(SB), NOSPLIT, $0-24
	ENTER
	VPCMPEQW Y15, Y15, Y15
	VPSRLW   $8, Y15, Y15
loop:
	VPAND     (SI), Y15, Y0
	VPAND     32(SI), Y15, Y1
	VPACKUSWB Y1, Y0, Y0
	VPERMQ    $0xD8, Y0, Y0
	VMOVDQU   Y0, (DI)
	NEXT(64, 32)

// func n64to32(dst, src unsafe.Pointer, n int)
TEXT ·n64to32(SB), NOSPLIT, $0-24
	ENTER
loop:
	LOAD8
	LOWER4
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
	VMOVDQU Y4, 64(DI)
	VMOVDQU Y6, 96(DI)
	NEXT(256, 128)

#define REAL(from, to) \
	VMOVUPD   from(SI), Y0       \
	VUNPCKLPD from+32(SI), Y0, Y0 \
	VPERMQ    $0xD8, Y0, Y0      \
	VMOVUPD   Y0, to(DI)

// realDouble copies the real parts of complex128.
TEXT ·realDouble(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $1, CX
loop:
	REAL(0, 0)
	REAL(64, 32)
	REAL(128, 64)
	REAL(192, 96)
	NEXT(256, 128)

// The permutation that restores the order of eight parts after two packing steps.
DATA mixed<>+0(SB)/4, $0
DATA mixed<>+4(SB)/4, $4
DATA mixed<>+8(SB)/4, $1
DATA mixed<>+12(SB)/4, $5
DATA mixed<>+16(SB)/4, $2
DATA mixed<>+20(SB)/4, $6
DATA mixed<>+24(SB)/4, $3
DATA mixed<>+28(SB)/4, $7
GLOBL mixed<>(SB), RODATA|NOPTR, $32

// Conversion to bool. Y15 is 0, Y14 has bytes of 1. A comparison with 0 gives all ones,
// which ANDN turns into 0.
#define TRUTH \
	ENTER                    \
	VPXOR    Y15, Y15, Y15   \
	VPCMPEQB Y14, Y14, Y14   \
	VPABSB   Y14, Y14        \
	VMOVDQU  mixed<>(SB), Y13

#define STORE_TRUTH \
	VPANDN  Y14, Y0, Y0 \
	VMOVDQU Y0, (DI)

// func truth8(dst, src unsafe.Pointer, n int)
TEXT ·truth8(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VPCMPEQB (SI), Y15, Y0
	STORE_TRUTH
	NEXT(32, 32)

// func truth16(dst, src unsafe.Pointer, n int)
TEXT ·truth16(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VPCMPEQW  (SI), Y15, Y0
	VPCMPEQW  32(SI), Y15, Y1
	VPACKSSWB Y1, Y0, Y0
	VPERMQ    $0xD8, Y0, Y0
	STORE_TRUTH
	NEXT(64, 32)

// truthHalf is for 16-bit floats, whose sign bit is ignored.
TEXT ·truthHalf(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VMOVDQU   (SI), Y0
	VMOVDQU   32(SI), Y1
	VPADDW    Y0, Y0, Y0
	VPADDW    Y1, Y1, Y1
	VPCMPEQW  Y0, Y15, Y0
	VPCMPEQW  Y1, Y15, Y1
	VPACKSSWB Y1, Y0, Y0
	VPERMQ    $0xD8, Y0, Y0
	STORE_TRUTH
	NEXT(64, 32)

#define PACK_TRUTH \
	VPACKSSDW Y1, Y0, Y0  \
	VPACKSSDW Y3, Y2, Y2  \
	VPACKSSWB Y2, Y0, Y0  \
	VPERMD    Y0, Y13, Y0

// func truth32(dst, src unsafe.Pointer, n int)
TEXT ·truth32(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VPCMPEQD (SI), Y15, Y0
	VPCMPEQD 32(SI), Y15, Y1
	VPCMPEQD 64(SI), Y15, Y2
	VPCMPEQD 96(SI), Y15, Y3
	PACK_TRUTH
	STORE_TRUTH
	NEXT(128, 32)

// func truthFloat(dst, src unsafe.Pointer, n int)
TEXT ·truthFloat(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VCMPPS $0, (SI), Y15, Y0
	VCMPPS $0, 32(SI), Y15, Y1
	VCMPPS $0, 64(SI), Y15, Y2
	VCMPPS $0, 96(SI), Y15, Y3
	PACK_TRUTH
	STORE_TRUTH
	NEXT(128, 32)

// Packs the result of LOWER4 to bools.
#define PACK_LOWER \
	VPACKSSDW Y2, Y0, Y0  \
	VPACKSSDW Y6, Y4, Y2  \
	VPACKSSWB Y2, Y0, Y0  \
	VPERMD    Y0, Y13, Y0

// func truth64(dst, src unsafe.Pointer, n int)
TEXT ·truth64(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VPCMPEQQ (SI), Y15, Y0
	VPCMPEQQ 32(SI), Y15, Y1
	VPCMPEQQ 64(SI), Y15, Y2
	VPCMPEQQ 96(SI), Y15, Y3
	VPCMPEQQ 128(SI), Y15, Y4
	VPCMPEQQ 160(SI), Y15, Y5
	VPCMPEQQ 192(SI), Y15, Y6
	VPCMPEQQ 224(SI), Y15, Y7
	LOWER4
	PACK_LOWER
	STORE_TRUTH
	NEXT(256, 32)

// func truthDouble(dst, src unsafe.Pointer, n int)
TEXT ·truthDouble(SB), NOSPLIT, $0-24
	TRUTH
loop:
	VCMPPD $0, (SI), Y15, Y0
	VCMPPD $0, 32(SI), Y15, Y1
	VCMPPD $0, 64(SI), Y15, Y2
	VCMPPD $0, 96(SI), Y15, Y3
	VCMPPD $0, 128(SI), Y15, Y4
	VCMPPD $0, 160(SI), Y15, Y5
	VCMPPD $0, 192(SI), Y15, Y6
	VCMPPD $0, 224(SI), Y15, Y7
	LOWER4
	PACK_LOWER
	STORE_TRUTH
	NEXT(256, 32)

// Compares both parts with 0.
#define COMPLEX(at, y) \
	VCMPPS  $0, at(SI), Y15, y \
	VPSHUFD $0xB1, y, Y12      \
	VPAND   Y12, y, y

// truthComplex is for complex64.
// func truthComplex(dst, src unsafe.Pointer, n int)
TEXT ·truthComplex(SB), NOSPLIT, $0-24
	TRUTH
loop:
	COMPLEX(0, Y0)
	COMPLEX(32, Y1)
	COMPLEX(64, Y2)
	COMPLEX(96, Y3)
	COMPLEX(128, Y4)
	COMPLEX(160, Y5)
	COMPLEX(192, Y6)
	COMPLEX(224, Y7)
	LOWER4
	PACK_LOWER
	STORE_TRUTH
	NEXT(256, 32)

// If both parts are 0, no bit other than the signs is set.
#define COMPLEX_DOUBLE(at, y) \
	VMOVUPD   at(SI), Y8       \
	VMOVUPD   at+32(SI), Y9    \
	VUNPCKLPD Y9, Y8, Y10      \
	VUNPCKHPD Y9, Y8, Y11      \
	VPOR      Y10, Y11, Y10    \
	VPADDQ    Y10, Y10, Y10    \
	VPCMPEQQ  Y10, Y15, Y10    \
	VPERMQ    $0xD8, Y10, y

// truthComplexDouble is for complex128.
// func truthComplexDouble(dst, src unsafe.Pointer, n int)
TEXT ·truthComplexDouble(SB), NOSPLIT, $0-24
	TRUTH
loop:
	COMPLEX_DOUBLE(0, Y0)
	COMPLEX_DOUBLE(64, Y1)
	COMPLEX_DOUBLE(128, Y2)
	COMPLEX_DOUBLE(192, Y3)
	COMPLEX_DOUBLE(256, Y4)
	COMPLEX_DOUBLE(320, Y5)
	COMPLEX_DOUBLE(384, Y6)
	COMPLEX_DOUBLE(448, Y7)
	LOWER4
	PACK_LOWER
	STORE_TRUTH
	NEXT(512, 32)

// Numbers of 32 and 64 bits. A float that does not fit becomes the smallest integer.

// func i32toFloat(dst, src unsafe.Pointer, n int)
TEXT ·i32toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VCVTDQ2PS, 32)
	STORE4
	NEXT(128, 128)

// Integers of 8 and 16 bits, by way of 32 bits.
#define FLOATS(extend, step) \
	BY4(extend, step)    \
	VCVTDQ2PS Y0, Y0     \
	VCVTDQ2PS Y1, Y1     \
	VCVTDQ2PS Y2, Y2     \
	VCVTDQ2PS Y3, Y3     \
	STORE4

#define DOUBLES(extend, step) \
	extend    (SI), X0       \
	extend    step(SI), X1   \
	extend    2*step(SI), X2 \
	extend    3*step(SI), X3 \
	VCVTDQ2PD X0, Y0         \
	VCVTDQ2PD X1, Y1         \
	VCVTDQ2PD X2, Y2         \
	VCVTDQ2PD X3, Y3         \
	STORE4

// func u8toFloat(dst, src unsafe.Pointer, n int)
TEXT ·u8toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	FLOATS(VPMOVZXBD, 8)
	NEXT(32, 128)

// func u8toDouble(dst, src unsafe.Pointer, n int)
TEXT ·u8toDouble(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $1, CX
loop:
	DOUBLES(VPMOVZXBD, 4)
	NEXT(16, 128)

// func i8toFloat(dst, src unsafe.Pointer, n int)
TEXT ·i8toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	FLOATS(VPMOVSXBD, 8)
	NEXT(32, 128)

// func i8toDouble(dst, src unsafe.Pointer, n int)
TEXT ·i8toDouble(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $1, CX
loop:
	DOUBLES(VPMOVSXBD, 4)
	NEXT(16, 128)

// func u16toFloat(dst, src unsafe.Pointer, n int)
TEXT ·u16toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	FLOATS(VPMOVZXWD, 16)
	NEXT(64, 128)

// func u16toDouble(dst, src unsafe.Pointer, n int)
TEXT ·u16toDouble(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $1, CX
loop:
	DOUBLES(VPMOVZXWD, 8)
	NEXT(32, 128)

// func i16toFloat(dst, src unsafe.Pointer, n int)
TEXT ·i16toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	FLOATS(VPMOVSXWD, 16)
	NEXT(64, 128)

// func i16toDouble(dst, src unsafe.Pointer, n int)
TEXT ·i16toDouble(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $1, CX
loop:
	DOUBLES(VPMOVSXWD, 8)
	NEXT(32, 128)

DATA upper<>+0(SB)/4, $0x47800000 // 65536
GLOBL upper<>(SB), RODATA|NOPTR, $4

// Both halves are exact as floats, so their sum is rounded once.
#define U32_TO_FLOAT(at) \
	VMOVDQU   at(SI), Y0    \
	VPSRLD    $16, Y0, Y1   \
	VPAND     Y15, Y0, Y0   \
	VCVTDQ2PS Y0, Y0        \
	VCVTDQ2PS Y1, Y1        \
	VMULPS    Y14, Y1, Y1   \
	VADDPS    Y0, Y1, Y0    \
	VMOVDQU   Y0, at(DI)

// func u32toFloat(dst, src unsafe.Pointer, n int)
TEXT ·u32toFloat(SB), NOSPLIT, $0-24
	ENTER
	VPCMPEQD     Y15, Y15, Y15
	VPSRLD       $16, Y15, Y15
	VBROADCASTSS upper<>(SB), Y14
loop:
	U32_TO_FLOAT(0)
	U32_TO_FLOAT(32)
	U32_TO_FLOAT(64)
	U32_TO_FLOAT(96)
	NEXT(128, 128)

// func i32toDouble(dst, src unsafe.Pointer, n int)
TEXT ·i32toDouble(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VCVTDQ2PD, 16)
	STORE8
	NEXT(128, 256)

// func floatToDouble(dst, src unsafe.Pointer, n int)
TEXT ·floatToDouble(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY8(VCVTPS2PD, 16)
	STORE8
	NEXT(128, 256)

// func floatToI32(dst, src unsafe.Pointer, n int)
TEXT ·floatToI32(SB), NOSPLIT, $0-24
	ENTER
loop:
	BY4(VCVTTPS2DQ, 32)
	STORE4
	NEXT(128, 128)

#define HALVED(op, from, to) \
	op      from(SI), X0    \
	op      from+32(SI), X1 \
	VMOVDQU X0, to(DI)      \
	VMOVDQU X1, to+16(DI)

// func doubleToI32(dst, src unsafe.Pointer, n int)
TEXT ·doubleToI32(SB), NOSPLIT, $0-24
	ENTER
loop:
	HALVED(VCVTTPD2DQY, 0, 0)
	HALVED(VCVTTPD2DQY, 64, 32)
	HALVED(VCVTTPD2DQY, 128, 64)
	HALVED(VCVTTPD2DQY, 192, 96)
	NEXT(256, 128)

// func doubleToFloat(dst, src unsafe.Pointer, n int)
TEXT ·doubleToFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	HALVED(VCVTPD2PSY, 0, 0)
	HALVED(VCVTPD2PSY, 64, 32)
	HALVED(VCVTPD2PSY, 128, 64)
	HALVED(VCVTPD2PSY, 192, 96)
	NEXT(256, 128)

// One element at a time, eight per iteration: there are no vector instructions for this
// before AVX-512.
#define LONG4(convert, from, store, to, at) \
	convert (at)*from(SI), AX    \
	convert (at+1)*from(SI), BX  \
	convert (at+2)*from(SI), DX  \
	convert (at+3)*from(SI), R8  \
	store   AX, (at)*to(DI)      \
	store   BX, (at+1)*to(DI)    \
	store   DX, (at+2)*to(DI)    \
	store   R8, (at+3)*to(DI)

#define LONGS(convert, from, store, to) \
	LONG4(convert, from, store, to, 0) \
	LONG4(convert, from, store, to, 4)

// func floatToI64(dst, src unsafe.Pointer, n int)
TEXT ·floatToI64(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $2, CX
loop:
	LONGS(CVTTSS2SQ, 4, MOVQ, 8)
	NEXT(32, 64)

// func floatToU32(dst, src unsafe.Pointer, n int)
TEXT ·floatToU32(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $2, CX
loop:
	LONGS(CVTTSS2SQ, 4, MOVL, 4)
	NEXT(32, 32)

// func doubleToI64(dst, src unsafe.Pointer, n int)
TEXT ·doubleToI64(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $2, CX
loop:
	LONGS(CVTTSD2SQ, 8, MOVQ, 8)
	NEXT(64, 64)

// func doubleToU32(dst, src unsafe.Pointer, n int)
TEXT ·doubleToU32(SB), NOSPLIT, $0-24
	ENTER
	SHLQ $2, CX
loop:
	LONGS(CVTTSD2SQ, 8, MOVL, 4)
	NEXT(64, 32)

// Four doubles, each followed by a zero. Y15 alternates between all ones and zeros.
#define SPREAD(at) \
	VMOVUPD at(SI), Y0         \
	VPERMPD $0x50, Y0, Y1      \
	VPERMPD $0xFA, Y0, Y0      \
	VANDPD  Y15, Y1, Y1        \
	VANDPD  Y15, Y0, Y0        \
	VMOVUPD Y1, 2*at(DI)       \
	VMOVUPD Y0, 2*at+32(DI)

// func doubleToComplex(dst, src unsafe.Pointer, n int)
TEXT ·doubleToComplex(SB), NOSPLIT, $0-24
	ENTER
	SHLQ     $1, CX
	VPCMPEQD Y15, Y15, Y15
	VPXOR    Y14, Y14, Y14
	VBLENDPD $0xA, Y14, Y15, Y15
loop:
	SPREAD(0)
	SPREAD(32)
	SPREAD(64)
	SPREAD(96)
	NEXT(128, 256)

// A number of at least 2^63 (X15) is converted minus 2^63, which R9 adds back.
#define UNSIGNED(load, subtract, convert, compare, from, to) \
	load     from(SI), X0 \
	MOVAPS   X0, X1       \
	convert  X0, AX       \
	subtract X15, X1      \
	convert  X1, BX       \
	XORQ     R9, BX       \
	compare  X15, X0      \
	CMOVQCC  BX, AX       \
	MOVQ     AX, to(DI)

DATA half<>+0(SB)/8, $0x43e0000000000000
DATA half<>+8(SB)/4, $0x5f000000
GLOBL half<>(SB), RODATA|NOPTR, $16

// func doubleToU64(dst, src unsafe.Pointer, n int)
TEXT ·doubleToU64(SB), NOSPLIT, $0-24
	ENTER
	SHLQ  $3, CX
	MOVSD half<>(SB), X15
	MOVQ  $0x8000000000000000, R9
loop:
	UNSIGNED(MOVSD, SUBSD, CVTTSD2SQ, UCOMISD, 0, 0)
	UNSIGNED(MOVSD, SUBSD, CVTTSD2SQ, UCOMISD, 8, 8)
	UNSIGNED(MOVSD, SUBSD, CVTTSD2SQ, UCOMISD, 16, 16)
	UNSIGNED(MOVSD, SUBSD, CVTTSD2SQ, UCOMISD, 24, 24)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  loop
	RET

// func floatToU64(dst, src unsafe.Pointer, n int)
TEXT ·floatToU64(SB), NOSPLIT, $0-24
	ENTER
	SHLQ  $3, CX
	MOVSS half<>+8(SB), X15
	MOVQ  $0x8000000000000000, R9
loop:
	UNSIGNED(MOVSS, SUBSS, CVTTSS2SQ, UCOMISS, 0, 0)
	UNSIGNED(MOVSS, SUBSS, CVTTSS2SQ, UCOMISS, 4, 8)
	UNSIGNED(MOVSS, SUBSS, CVTTSS2SQ, UCOMISS, 8, 16)
	UNSIGNED(MOVSS, SUBSS, CVTTSS2SQ, UCOMISS, 12, 24)
	ADDQ $16, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  loop
	RET

// Casts to narrower integers. A float that does not fit becomes the smallest 32-bit
// integer, whose low bits are kept.

// Loads 32 elements as 32-bit integers in Y0, Y2, Y4 and Y6.

#define WORDS \
	VMOVDQU (SI), Y0   \
	VMOVDQU 32(SI), Y2 \
	VMOVDQU 64(SI), Y4 \
	VMOVDQU 96(SI), Y6

#define NARROW_LONGS \
	LOAD8  \
	LOWER4

#define NARROW_FLOATS \
	VCVTTPS2DQ (SI), Y0   \
	VCVTTPS2DQ 32(SI), Y2 \
	VCVTTPS2DQ 64(SI), Y4 \
	VCVTTPS2DQ 96(SI), Y6

#define REALS \
	NARROW_LONGS             \
	VCVTTPS2DQ Y0, Y0 \
	VCVTTPS2DQ Y2, Y2 \
	VCVTTPS2DQ Y4, Y4 \
	VCVTTPS2DQ Y6, Y6

#define DOUBLES8(at, x, y) \
	VCVTTPD2DQY at(SI), x      \
	VCVTTPD2DQY at+32(SI), X8  \
	VINSERTI128 $1, X8, y, y

#define NARROW_DOUBLES \
	DOUBLES8(0, X0, Y0)   \
	DOUBLES8(64, X2, Y2)  \
	DOUBLES8(128, X4, Y4) \
	DOUBLES8(192, X6, Y6)

#define REAL_DOUBLES4(at, x) \
	VMOVUPD     at(SI), Y8        \
	VUNPCKLPD   at+32(SI), Y8, Y8 \
	VPERMQ      $0xD8, Y8, Y8     \
	VCVTTPD2DQY Y8, x

#define REAL_DOUBLES8(at, x, y) \
	REAL_DOUBLES4(at, x)     \
	REAL_DOUBLES4(at+64, X9) \
	VINSERTI128 $1, X9, y, y

#define REAL_DOUBLES \
	REAL_DOUBLES8(0, X0, Y0)   \
	REAL_DOUBLES8(128, X2, Y2) \
	REAL_DOUBLES8(256, X4, Y4) \
	REAL_DOUBLES8(384, X6, Y6)

// Y15 has the bits to keep, so that packing does not saturate. Packing treats the two
// halves of vectors separately.

#define CUT \
	VPAND     Y15, Y0, Y0 \
	VPAND     Y15, Y2, Y2 \
	VPAND     Y15, Y4, Y4 \
	VPAND     Y15, Y6, Y6 \
	VPACKUSDW Y2, Y0, Y0  \
	VPACKUSDW Y6, Y4, Y4

#define TO16 \
	CUT                  \
	VPERMQ  $0xD8, Y0, Y0 \
	VPERMQ  $0xD8, Y4, Y4 \
	VMOVDQU Y0, (DI)      \
	VMOVDQU Y4, 32(DI)

#define TO8 \
	CUT                    \
	VPACKUSWB Y4, Y0, Y0   \
	VPERMD    Y0, Y13, Y0  \
	VMOVDQU   Y0, (DI)

#define TO32 \
	VMOVDQU Y0, (DI)   \
	VMOVDQU Y2, 32(DI) \
	VMOVDQU Y4, 64(DI) \
	VMOVDQU Y6, 96(DI)

// func name(dst, src unsafe.Pointer, n int), for elements of size bytes.
#define NARROW(name, SOURCE, size, TO, bits) \
TEXT name(SB), NOSPLIT, $0-24       \
	ENTER                           \
	VPCMPEQD Y15, Y15, Y15          \
	VPSRLD   $(32-bits), Y15, Y15   \
	VMOVDQU  mixed<>(SB), Y13      \
loop:                               \
	SOURCE                          \
	TO                              \
	NEXT(32*size, 4*bits)

NARROW(·n32to16, WORDS, 4, TO16, 16)
NARROW(·n32to8, WORDS, 4, TO8, 8)
NARROW(·n64to16, NARROW_LONGS, 8, TO16, 16)
NARROW(·n64to8, NARROW_LONGS, 8, TO8, 8)
NARROW(·floatTo16, NARROW_FLOATS, 4, TO16, 16)
NARROW(·floatTo8, NARROW_FLOATS, 4, TO8, 8)
NARROW(·doubleTo16, NARROW_DOUBLES, 8, TO16, 16)
NARROW(·doubleTo8, NARROW_DOUBLES, 8, TO8, 8)
NARROW(·realTo32, REALS, 8, TO32, 32)
NARROW(·realTo16, REALS, 8, TO16, 16)
NARROW(·realTo8, REALS, 8, TO8, 8)
NARROW(·realDoubleTo32, REAL_DOUBLES, 16, TO32, 32)
NARROW(·realDoubleTo16, REAL_DOUBLES, 16, TO16, 16)
NARROW(·realDoubleTo8, REAL_DOUBLES, 16, TO8, 8)

// Casts of integers of up to 32 bits to complex numbers. An element is extended to 64
// bits, of which Y15 keeps the low 32 as the real part; the imaginary part becomes 0.

#define COMPLEX4(extend, from, to) \
	extend    from(SI), Y0 \
	VPAND     Y15, Y0, Y0  \
	VCVTDQ2PS Y0, Y0       \
	VMOVUPS   Y0, to(DI)

#define COMPLEX_DOUBLE2(extend, from, to) \
	extend    from(SI), X0 \
	VPAND     X15, X0, X0  \
	VCVTDQ2PD X0, Y0       \
	VMOVUPD   Y0, to(DI)

#define KEEP_LOWER \
	VPCMPEQD Y15, Y15, Y15 \
	VPSRLQ   $32, Y15, Y15

// func name(dst, src unsafe.Pointer, n int), for integers of size bytes.
#define TO_COMPLEX(name, extend, size) \
TEXT name(SB), NOSPLIT, $0-24          \
	ENTER                              \
	SHLQ $1, CX                        \
	KEEP_LOWER                         \
loop:                                  \
	COMPLEX4(extend, 0*size, 0)         \
	COMPLEX4(extend, 4*size, 32)        \
	COMPLEX4(extend, 8*size, 64)        \
	COMPLEX4(extend, 12*size, 96)       \
	NEXT(16*size, 128)

TO_COMPLEX(·u8toComplex, VPMOVZXBQ, 1)
TO_COMPLEX(·i8toComplex, VPMOVSXBQ, 1)
TO_COMPLEX(·u16toComplex, VPMOVZXWQ, 2)
TO_COMPLEX(·i16toComplex, VPMOVSXWQ, 2)
TO_COMPLEX(·i32toComplex, VPMOVSXDQ, 4)

// func name(dst, src unsafe.Pointer, n int), for integers of size bytes.
#define TO_COMPLEX_DOUBLE(name, extend, size) \
TEXT name(SB), NOSPLIT, $0-24          \
	ENTER                              \
	SHLQ $2, CX                        \
	KEEP_LOWER                         \
loop:                                  \
	COMPLEX_DOUBLE2(extend, 0*size, 0)  \
	COMPLEX_DOUBLE2(extend, 2*size, 32) \
	COMPLEX_DOUBLE2(extend, 4*size, 64) \
	COMPLEX_DOUBLE2(extend, 6*size, 96) \
	NEXT(8*size, 128)

TO_COMPLEX_DOUBLE(·u8toComplexDouble, VPMOVZXBQ, 1)
TO_COMPLEX_DOUBLE(·i8toComplexDouble, VPMOVSXBQ, 1)
TO_COMPLEX_DOUBLE(·u16toComplexDouble, VPMOVZXWQ, 2)
TO_COMPLEX_DOUBLE(·i16toComplexDouble, VPMOVSXWQ, 2)
TO_COMPLEX_DOUBLE(·i32toComplexDouble, VPMOVSXDQ, 4)

// Rounds to odd: Y1 = Y0 with the lowest of its 24 leading bits set if lower bits are
// lost. It applies to lanes of at least 1<<24; Y2, the magnitude, becomes the mask of
// the others. Y15 is 255.
#define ODD \
	VPAND     Y15, Y0, Y1    \
	VPADDD    Y15, Y1, Y1    \
	VPOR      Y0, Y1, Y1     \
	VPANDN    Y1, Y15, Y1    \
	VPSRLD    $24, Y2, Y2    \
	VPCMPEQD  Y14, Y2, Y2

#define ODD_I32(at) \
	VMOVDQU   at(SI), Y0     \
	VPABSD    Y0, Y2         \
	ODD                      \
	VPBLENDVB Y2, Y0, Y1, Y1 \
	VCVTDQ2PS Y1, Y1         \
	VMOVDQU   Y1, at(DI)

// Half of a large number fits a signed integer, and is exact.
#define ODD_U32(at) \
	VMOVDQU   at(SI), Y0     \
	VMOVDQA   Y0, Y2         \
	ODD                      \
	VPSRLD    $1, Y1, Y1     \
	VPBLENDVB Y2, Y0, Y1, Y1 \
	VCVTDQ2PS Y1, Y1         \
	VPANDN    Y1, Y2, Y2     \
	VADDPS    Y2, Y1, Y1     \
	VMOVDQU   Y1, at(DI)

#define CONSTANTS \
	VPCMPEQD Y15, Y15, Y15 \
	VPSRLD   $24, Y15, Y15 \
	VPXOR    Y14, Y14, Y14

// func oddI32toFloat(dst, src unsafe.Pointer, n int)
TEXT ·oddI32toFloat(SB), NOSPLIT, $0-24
	ENTER
	CONSTANTS
loop:
	ODD_I32(0)
	ODD_I32(32)
	ODD_I32(64)
	ODD_I32(96)
	NEXT(128, 128)

// func oddU32toFloat(dst, src unsafe.Pointer, n int)
TEXT ·oddU32toFloat(SB), NOSPLIT, $0-24
	ENTER
	CONSTANTS
loop:
	ODD_U32(0)
	ODD_U32(32)
	ODD_U32(64)
	ODD_U32(96)
	NEXT(128, 128)
