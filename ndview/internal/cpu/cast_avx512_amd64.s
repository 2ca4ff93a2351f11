//go:build !noasm

#include "textflag.h"
#include "cast_amd64.h"

// Times as fast as the Go loops, at elements in the caches (record assembly):
// wideFloatToU32 11.5, wideFloatToI64 13.4, wideFloatToU64 12.0, wideDoubleToU32 20.9,
// wideDoubleToI64 5.0, wideDoubleToU64 6.5, wideU32toDouble 5.0, wideI64toFloat 13.3,
// wideI64toDouble 2.2, wideU64toFloat 13.7, wideU64toDouble 3.3, wideOddI64 4.7,
// wideOddU64 4.3.

// Casts between floats and integers for which only AVX-512 has instructions. n is the
// number of blocks of 32 elements, n > 0.

// Processes eight elements at a time: a Z register for 64-bit elements, a Y register
// for 32-bit ones.
#define EACH(one, in, out) \
	one(0*in, 0*out) \
	one(1*in, 1*out) \
	one(2*in, 2*out) \
	one(3*in, 3*out)

#define DOUBLE_TO_LONG(in, out) \
	VCVTTPD2QQ in(SI), Z0 \
	VMOVDQU64  Z0, out(DI)

// func wideDoubleToI64(dst, src unsafe.Pointer, n int)
TEXT ·wideDoubleToI64(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(DOUBLE_TO_LONG, 64, 64)
	NEXT(256, 256)

#define FLOAT_TO_LONG(in, out) \
	VCVTTPS2QQ in(SI), Z0 \
	VMOVDQU64  Z0, out(DI)

// func wideFloatToI64(dst, src unsafe.Pointer, n int)
TEXT ·wideFloatToI64(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(FLOAT_TO_LONG, 32, 64)
	NEXT(128, 256)

#define DOUBLE_TO_WORD(in, out) \
	VCVTTPD2QQ in(SI), Z0 \
	VPMOVQD    Z0, Y0 \
	VMOVDQU    Y0, out(DI)

// func wideDoubleToU32(dst, src unsafe.Pointer, n int)
TEXT ·wideDoubleToU32(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(DOUBLE_TO_WORD, 64, 32)
	NEXT(256, 128)

#define FLOAT_TO_WORD(in, out) \
	VCVTTPS2QQ in(SI), Z0 \
	VPMOVQD    Z0, Y0 \
	VMOVDQU    Y0, out(DI)

// func wideFloatToU32(dst, src unsafe.Pointer, n int)
TEXT ·wideFloatToU32(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(FLOAT_TO_WORD, 32, 32)
	NEXT(128, 128)

// A number of at least 2^63 (Z15) is converted minus 2^63, which Z14 adds back.

#define DOUBLE_TO_UNSIGNED(in, out) \
	VMOVUPD    in(SI), Z0 \
	VCMPPD     $0x1D, Z15, Z0, K1 \
	VSUBPD     Z15, Z0, K1, Z0 \
	VCVTTPD2QQ Z0, Z0 \
	VPXORQ     Z14, Z0, K1, Z0 \
	VMOVDQU64  Z0, out(DI)

// func wideDoubleToU64(dst, src unsafe.Pointer, n int)
TEXT ·wideDoubleToU64(SB), NOSPLIT, $0-24
	ENTER
	MOVQ         $0x43e0000000000000, AX
	VPBROADCASTQ AX, Z15
	MOVQ         $0x8000000000000000, AX
	VPBROADCASTQ AX, Z14
loop:
	EACH(DOUBLE_TO_UNSIGNED, 64, 64)
	NEXT(256, 256)

#define FLOAT_TO_UNSIGNED(in, out) \
	VMOVUPS    in(SI), Y0 \
	VCMPPS     $0x1D, Y15, Y0, K1 \
	VSUBPS     Y15, Y0, K1, Y0 \
	VCVTTPS2QQ Y0, Z0 \
	VPXORQ     Z14, Z0, K1, Z0 \
	VMOVDQU64  Z0, out(DI)

// func wideFloatToU64(dst, src unsafe.Pointer, n int)
TEXT ·wideFloatToU64(SB), NOSPLIT, $0-24
	ENTER
	MOVL         $0x5f000000, AX
	VPBROADCASTD AX, Y15
	MOVQ         $0x8000000000000000, AX
	VPBROADCASTQ AX, Z14
loop:
	EACH(FLOAT_TO_UNSIGNED, 32, 64)
	NEXT(128, 256)

#define LONG_TO_DOUBLE(in, out) \
	VCVTQQ2PD in(SI), Z0 \
	VMOVUPD   Z0, out(DI)

// func wideI64toDouble(dst, src unsafe.Pointer, n int)
TEXT ·wideI64toDouble(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(LONG_TO_DOUBLE, 64, 64)
	NEXT(256, 256)

#define UNSIGNED_TO_DOUBLE(in, out) \
	VCVTUQQ2PD in(SI), Z0 \
	VMOVUPD    Z0, out(DI)

// func wideU64toDouble(dst, src unsafe.Pointer, n int)
TEXT ·wideU64toDouble(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(UNSIGNED_TO_DOUBLE, 64, 64)
	NEXT(256, 256)

#define LONG_TO_FLOAT(in, out) \
	VMOVDQU64 in(SI), Z0 \
	VCVTQQ2PS Z0, Y0 \
	VMOVUPS   Y0, out(DI)

// func wideI64toFloat(dst, src unsafe.Pointer, n int)
TEXT ·wideI64toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(LONG_TO_FLOAT, 64, 32)
	NEXT(256, 128)

#define UNSIGNED_TO_FLOAT(in, out) \
	VMOVDQU64  in(SI), Z0 \
	VCVTUQQ2PS Z0, Y0 \
	VMOVUPS    Y0, out(DI)

// func wideU64toFloat(dst, src unsafe.Pointer, n int)
TEXT ·wideU64toFloat(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(UNSIGNED_TO_FLOAT, 64, 32)
	NEXT(256, 128)

#define WORD_TO_DOUBLE(in, out) \
	VCVTUDQ2PD in(SI), Z0 \
	VMOVUPD    Z0, out(DI)

// func wideU32toDouble(dst, src unsafe.Pointer, n int)
TEXT ·wideU32toDouble(SB), NOSPLIT, $0-24
	ENTER
loop:
	EACH(WORD_TO_DOUBLE, 32, 64)
	NEXT(128, 256)

// See roundToOddDouble: Z15 has the bits that are lost, Z14 the last bit that is kept,
// Z13 is 1.
#define ODD_CONSTANTS \
	MOVQ         $0x7ff, AX \
	VPBROADCASTQ AX, Z15    \
	MOVQ         $0x800, AX \
	VPBROADCASTQ AX, Z14    \
	MOVQ         $1, AX     \
	VPBROADCASTQ AX, Z13

#define STORE_ODD(convert, out) \
	VPANDNQ Z0, Z15, K1, Z0 \
	VPORQ   Z14, Z0, K1, Z0 \
	convert Z0, Z0          \
	VMOVUPD Z0, out(DI)

// The bits above bit 53 are neither all 0 nor all 1.
#define ODD_LONG(in, out) \
	VMOVDQU64            in(SI), Z0 \
	VPTESTMQ             Z15, Z0, K1 \
	VPSRAQ               $53, Z0, Z1 \
	VPADDQ               Z13, Z1, Z1 \
	VPCMPUQ              $6, Z13, Z1, K1, K1 \
	STORE_ODD(VCVTQQ2PD, out)

#define ODD_UNSIGNED(in, out) \
	VMOVDQU64             in(SI), Z0 \
	VPTESTMQ              Z15, Z0, K1 \
	VPSRLQ                $53, Z0, Z1 \
	VPTESTMQ              Z1, Z1, K1, K1 \
	STORE_ODD(VCVTUQQ2PD, out)

// func wideOddI64(dst, src unsafe.Pointer, n int)
TEXT ·wideOddI64(SB), NOSPLIT, $0-24
	ENTER
	ODD_CONSTANTS
loop:
	EACH(ODD_LONG, 64, 64)
	NEXT(256, 256)

// func wideOddU64(dst, src unsafe.Pointer, n int)
TEXT ·wideOddU64(SB), NOSPLIT, $0-24
	ENTER
	ODD_CONSTANTS
loop:
	EACH(ODD_UNSIGNED, 64, 64)
	NEXT(256, 256)
