//go:build !noasm

#include "textflag.h"

// Times as fast as the Go loops, at elements in the caches (record assembly): greatest8
// 59.5, eachGreatest8 42.8, place8 13.9, zeros8 30.3, flipKeys-8 49.5, find8 1.4,
// eachGreatestof4x8 45.3, greatest16 43.6, eachGreatest16 20.2, place16 6.9, zeros16
// 11.5, flipKeys-16 18.9, find16 12.2, eachGreatestof4x16 32.4, greatest32 23.1,
// eachGreatest32 9.6, place32 4.6, zeros32 5.6, flipKeys-32 9.1, find32 5.7,
// eachGreatestof4x32 17.1, greatest64 3.7, eachGreatest64 3.8, place64 2.4, zeros64 2.9,
// flipKeys-64 6.2, find64 3.7, eachGreatestof4x64 4.7, keys16 19.4, keys32 11.6, back32
// 12.7, greatestfloat32 15.0, greatestfloat32 (AVX-512) 28.6, eachfloat32 14.0 to 14.5,
// eachfloat32 (AVX-512) 14.5 to 28.2, keys64 5.9, back64 6.4, greatestfloat64 5.7,
// greatestfloat64 (AVX-512) 15.2, eachfloat64 5.9, eachfloat64 (AVX-512) 5.9 to 14.8,
// sums32 10.7, add32 5.8, add32x4 9.8, narrow 4.5, sums64 4.3, add64 2.2, add64x4 7.3,
// compensatedValues 4.6.

// Keys of elements, and operations on keys, for AVX2. Each kind says what a block is.

#define NEXT32 \
	ADDQ $32, SI \
	ADDQ $32, DI \
	DECQ CX      \
	JNZ  loop    \
	VZEROUPPER   \
	RET

// Encodes n blocks of 32 bytes.
#define KEYS \
	MOVQ         to+0(FP), DI      \
	MOVQ         x+8(FP), SI       \
	MOVQ         n+16(FP), CX      \
	VPBROADCASTQ flip+24(FP), Y15  \
	VPBROADCASTQ other+32(FP), Y14

// func flipKeys(to, x unsafe.Pointer, n int, flip, bias uint64). bias must be 0 unless
// elements have 8 bytes.
TEXT ·flipKeys(SB), NOSPLIT, $0-40
	KEYS

loop:
	VPXOR   (SI), Y15, Y0
	VPADDQ  Y14, Y0, Y0
	VMOVDQU Y0, (DI)
	NEXT32

// KEY32 and KEY64 encode the floats at an address. Y13 is the greatest key, Y12 is 0.
// Y14 is a zero that is added: +0 makes zeros alike, -0 keeps their signs. FOLD32 and
// FOLD64 reverse the order of negative floats.
#define FOLD32(x) \
	VPSRAD $31, x, Y2  \
	VPSRLD $1, Y2, Y2  \
	VPXOR  Y2, x, x
#define FOLD64(x) \
	VPCMPGTQ x, Y12, Y2  \
	VPSRLQ   $1, Y2, Y2  \
	VPXOR    Y2, x, x
#define KEY32(at, x) \
	VPXOR     at, Y15, x      \
	VADDPS    Y14, x, x       \
	VCMPPS    $3, x, x, Y1    \
	FOLD32(x)                 \
	VPBLENDVB Y1, Y13, x, x
#define KEY64(at, x) \
	VPXOR     at, Y15, x      \
	VADDPD    Y14, x, x       \
	VCMPPD    $3, x, x, Y1    \
	FOLD64(x)                 \
	VPBLENDVB Y1, Y13, x, x

// func name(to, x unsafe.Pointer, n int, flip, zero uint64)
#define FLOATS(name, KEY, SHIFT) \
TEXT name(SB), NOSPLIT, $0-40     \
	KEYS                          \
	VPCMPEQD Y13, Y13, Y13        \
	SHIFT    $1, Y13, Y13         \
	VPXOR    Y12, Y12, Y12        \
loop:                             \
	KEY((SI), Y0)                 \
	VMOVDQU  Y0, (DI)             \
	NEXT32

FLOATS(·keys32, KEY32, VPSRLD)
FLOATS(·keys64, KEY64, VPSRLQ)

// func name(to, keys unsafe.Pointer, n int, flip, unused uint64): decodes floats.
#define BACK(name, FOLD) \
TEXT name(SB), NOSPLIT, $0-40     \
	KEYS                          \
	VPXOR    Y12, Y12, Y12        \
loop:                             \
	VMOVDQU  (SI), Y0             \
	FOLD(Y0)                      \
	VPXOR    Y15, Y0, Y0          \
	VMOVDQU  Y0, (DI)             \
	NEXT32

BACK(·back32, FOLD32)
BACK(·back64, FOLD64)

// func keys16(to, x unsafe.Pointer, n int, flip, infinity, alike uint64). alike is all
// ones to make zeros alike, or 0. AVX2 has no 16-bit float arithmetic: the key of -0,
// which is -1, becomes 0 by subtracting -1. All others are those of the Go loop.
TEXT ·keys16(SB), NOSPLIT, $0-48
	KEYS
	VPBROADCASTQ alike+40(FP), Y11
	VPCMPEQW     Y13, Y13, Y13
	VPSRLW       $1, Y13, Y13
	VPCMPEQW     Y10, Y10, Y10

loop:
	VPXOR     (SI), Y15, Y0
	VPAND     Y13, Y0, Y1
	VPCMPGTW  Y14, Y1, Y3
	VPSRAW    $15, Y0, Y2
	VPXOR     Y2, Y1, Y0
	VPCMPEQW  Y10, Y0, Y2
	VPAND     Y11, Y2, Y2
	VPSUBW    Y2, Y0, Y0
	VPBLENDVB Y3, Y13, Y0, Y0
	VMOVDQU   Y0, (DI)
	NEXT32

// Sets acc to the maximum of it and the keys at an address.
#define MAX8(at, acc) VPMAXSB at, acc, acc
#define MAX16(at, acc) VPMAXSW at, acc, acc
#define MAX32(at, acc) VPMAXSD at, acc, acc
#define MAX64(at, acc) \
	VMOVDQU   at, Y8           \
	VPCMPGTQ  acc, Y8, Y9      \
	VPBLENDVB Y9, Y8, acc, acc

// func name(lanes, keys unsafe.Pointer, n int): n blocks of 128 bytes. lanes has 32
// bytes.
#define GREATEST(name, MAX) \
TEXT name(SB), NOSPLIT, $0-24   \
	MOVQ    lanes+0(FP), DI     \
	MOVQ    keys+8(FP), SI      \
	MOVQ    n+16(FP), CX        \
	VMOVDQU (DI), Y0            \
	VMOVDQU Y0, Y1              \
	VMOVDQU Y0, Y2              \
	VMOVDQU Y0, Y3              \
loop:                           \
	MAX((SI), Y0)               \
	MAX(32(SI), Y1)             \
	MAX(64(SI), Y2)             \
	MAX(96(SI), Y3)             \
	ADDQ    $128, SI            \
	DECQ    CX                  \
	JNZ     loop                \
	VMOVDQU Y0, (DI)            \
	MAX((DI), Y1)               \
	VMOVDQU Y1, (DI)            \
	MAX((DI), Y2)               \
	VMOVDQU Y2, (DI)            \
	MAX((DI), Y3)               \
	VMOVDQU Y3, (DI)            \
	VZEROUPPER                  \
	RET

GREATEST(·greatest8, MAX8)
GREATEST(·greatest16, MAX16)
GREATEST(·greatest32, MAX32)
GREATEST(·greatest64, MAX64)

// func name(w, keys unsafe.Pointer, n int): n blocks of 32 bytes.
#define EACH(name, MAX) \
TEXT name(SB), NOSPLIT, $0-24 \
	MOVQ    w+0(FP), DI       \
	MOVQ    keys+8(FP), SI    \
	MOVQ    n+16(FP), CX      \
loop:                         \
	VMOVDQU (SI), Y0          \
	MAX((DI), Y0)             \
	VMOVDQU Y0, (DI)          \
	NEXT32

EACH(·eachGreatest8, MAX8)
EACH(·eachGreatest16, MAX16)
EACH(·eachGreatest32, MAX32)
EACH(·eachGreatest64, MAX64)

// func name(w, keys unsafe.Pointer, n, pitch int): EACH of four rows of keys that are
// pitch bytes apart.
#define EACH_OF_FOUR(name, MAX) \
TEXT name(SB), NOSPLIT, $0-32 \
	MOVQ    w+0(FP), DI       \
	MOVQ    keys+8(FP), SI    \
	MOVQ    n+16(FP), CX      \
	MOVQ    pitch+24(FP), R8  \
	LEAQ    (R8)(R8*2), R9    \
loop:                         \
	VMOVDQU (SI), Y0          \
	MAX((SI)(R8*1), Y0)       \
	MAX((SI)(R8*2), Y0)       \
	MAX((SI)(R9*1), Y0)       \
	MAX((DI), Y0)             \
	VMOVDQU Y0, (DI)          \
	NEXT32

EACH_OF_FOUR(·eachGreatestOf4x8, MAX8)
EACH_OF_FOUR(·eachGreatestOf4x16, MAX16)
EACH_OF_FOUR(·eachGreatestOf4x32, MAX32)
EACH_OF_FOUR(·eachGreatestOf4x64, MAX64)

// func name(lanes, x unsafe.Pointer, n int, flip, zero uint64): GREATEST of the keys of
// n blocks of 64 bytes.
#define GREATEST_FLOAT(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-40     \
	KEYS                          \
	VPCMPEQD Y13, Y13, Y13        \
	SHIFT    $1, Y13, Y13         \
	VPXOR    Y12, Y12, Y12        \
	VMOVDQU  (DI), Y10            \
	VMOVDQU  Y10, Y11             \
loop:                             \
	KEY((SI), Y0)                 \
	MAX(Y0, Y10)                  \
	KEY(32(SI), Y3)               \
	MAX(Y3, Y11)                  \
	ADDQ     $64, SI              \
	DECQ     CX                   \
	JNZ      loop                 \
	MAX(Y11, Y10)                 \
	VMOVDQU  Y10, (DI)            \
	VZEROUPPER                    \
	RET

GREATEST_FLOAT(·greatestFloat32, KEY32, MAX32, VPSRLD)
GREATEST_FLOAT(·greatestFloat64, KEY64, MAX64, VPSRLQ)

// func name(w, x unsafe.Pointer, n int, flip, zero uint64): EACH of the keys of n
// blocks of 32 bytes.
#define EACH_FLOAT(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-40     \
	KEYS                          \
	VPCMPEQD Y13, Y13, Y13        \
	SHIFT    $1, Y13, Y13         \
	VPXOR    Y12, Y12, Y12        \
loop:                             \
	KEY((SI), Y0)                 \
	MAX((DI), Y0)                 \
	VMOVDQU  Y0, (DI)             \
	NEXT32

EACH_FLOAT(·eachFloat32, KEY32, MAX32, VPSRLD)
EACH_FLOAT(·eachFloat64, KEY64, MAX64, VPSRLQ)

// func name(best, at, keys unsafe.Pointer, n int, row uint64): n blocks of 32 bytes.
// row is repeated in its elements.
#define PLACE(name, GREATER) \
TEXT name(SB), NOSPLIT, $0-40         \
	MOVQ         best+0(FP), DI       \
	MOVQ         at+8(FP), DX         \
	MOVQ         keys+16(FP), SI      \
	MOVQ         n+24(FP), CX         \
	VPBROADCASTQ row+32(FP), Y15      \
loop:                                 \
	VMOVDQU      (SI), Y0             \
	VMOVDQU      (DI), Y1             \
	GREATER      Y1, Y0, Y2           \
	VPBLENDVB    Y2, Y0, Y1, Y1       \
	VMOVDQU      (DX), Y3             \
	VPBLENDVB    Y2, Y15, Y3, Y3      \
	VMOVDQU      Y1, (DI)             \
	VMOVDQU      Y3, (DX)             \
	ADDQ         $32, DX              \
	NEXT32

PLACE(·place8, VPCMPGTB)
PLACE(·place16, VPCMPGTW)
PLACE(·place32, VPCMPGTD)
PLACE(·place64, VPCMPGTQ)

// func name(keys unsafe.Pointer, n int, w uint64) int: n blocks of 32 bytes. w is
// repeated in its elements. Returns the number of blocks before the first that contains
// w.
#define FIND(name, EQUAL) \
TEXT name(SB), NOSPLIT, $0-32      \
	MOVQ         keys+0(FP), SI    \
	MOVQ         n+8(FP), CX       \
	VPBROADCASTQ w+16(FP), Y15     \
	XORQ         DX, DX            \
loop:                              \
	EQUAL        (SI), Y15, Y0     \
	VPTEST       Y0, Y0            \
	JNZ          found             \
	ADDQ         $32, SI           \
	INCQ         DX                \
	CMPQ         DX, CX            \
	JNE          loop              \
found:                             \
	MOVQ         DX, ret+24(FP)    \
	VZEROUPPER                     \
	RET

FIND(·find8, VPCMPEQB)
FIND(·find16, VPCMPEQW)
FIND(·find32, VPCMPEQD)
FIND(·find64, VPCMPEQQ)

// func name(x unsafe.Pointer, n int, mask uint64) int: n blocks of 32 bytes. mask is
// repeated in its elements. Returns the number of bytes of elements without any bit of
// the mask.
#define ZEROS(name, EQUAL) \
TEXT name(SB), NOSPLIT, $0-32      \
	MOVQ         x+0(FP), SI       \
	MOVQ         n+8(FP), CX       \
	VPBROADCASTQ mask+16(FP), Y15  \
	VPXOR        Y14, Y14, Y14     \
	XORQ         DX, DX            \
loop:                              \
	VPAND        (SI), Y15, Y0     \
	EQUAL        Y14, Y0, Y0       \
	VPMOVMSKB    Y0, AX            \
	POPCNTL      AX, AX            \
	ADDQ         AX, DX            \
	ADDQ         $32, SI           \
	DECQ         CX                \
	JNZ          loop              \
	MOVQ         DX, ret+24(FP)    \
	VZEROUPPER                     \
	RET

ZEROS(·zeros8, VPCMPEQB)
ZEROS(·zeros16, VPCMPEQW)
ZEROS(·zeros32, VPCMPEQD)
ZEROS(·zeros64, VPCMPEQQ)

// Maxima of keys of floats, which are encoded in registers, for AVX-512.

#define WIDE_PREPARE(SHIFT) \
	VPBROADCASTQ flip+24(FP), Z15   \
	VPBROADCASTQ zero+32(FP), Z14   \
	VPTERNLOGQ   $0xFF, Z13, Z13, Z13 \
	SHIFT        $1, Z13, Z13

// WIDE_KEY32 and WIDE_KEY64 encode the floats at an address; t is temporary. Z13 is the
// greatest key, with which the order of negative floats is reversed. Z14 is a zero that
// is added: +0 makes zeros alike, -0 keeps their signs.
#define KEY(at, x, t, k, ADD, COMPARE, SHIFT, sign) \
	VPXORQ     at, Z15, x         \
	ADD        Z14, x, x          \
	COMPARE    $3, x, x, k        \
	SHIFT      $sign, x, t        \
	VPTERNLOGQ $0x78, Z13, t, x
#define WIDE_KEY32(at, x, t, k) \
	KEY(at, x, t, k, VADDPS, VCMPPS, VPSRAD, 31) \
	VMOVDQA32 Z13, k, x
#define WIDE_KEY64(at, x, t, k) \
	KEY(at, x, t, k, VADDPD, VCMPPD, VPSRAQ, 63) \
	VMOVDQA64 Z13, k, x

// func name(lanes, x unsafe.Pointer, n int, flip, zero uint64): the maximum of lanes,
// which are 64 bytes, and the keys of n blocks of 256 bytes.
#define WIDE_GREATEST(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-40     \
	MOVQ      lanes+0(FP), DI     \
	MOVQ      x+8(FP), SI         \
	MOVQ      n+16(FP), CX        \
	WIDE_PREPARE(SHIFT)                \
	VMOVDQU64 (DI), Z8            \
	VMOVDQA64 Z8, Z9              \
	VMOVDQA64 Z8, Z10             \
	VMOVDQA64 Z8, Z11             \
loop:                             \
	KEY((SI), Z0, Z4, K1)         \
	KEY(64(SI), Z1, Z5, K2)       \
	KEY(128(SI), Z2, Z6, K3)      \
	KEY(192(SI), Z3, Z7, K4)      \
	MAX       Z0, Z8, Z8          \
	MAX       Z1, Z9, Z9          \
	MAX       Z2, Z10, Z10        \
	MAX       Z3, Z11, Z11        \
	ADDQ      $256, SI            \
	DECQ      CX                  \
	JNZ       loop                \
	MAX       Z9, Z8, Z8          \
	MAX       Z11, Z10, Z10       \
	MAX       Z10, Z8, Z8         \
	VMOVDQU64 Z8, (DI)            \
	VZEROUPPER                    \
	RET

WIDE_GREATEST(·wideGreatestFloat32, WIDE_KEY32, VPMAXSD, VPSRLD)
WIDE_GREATEST(·wideGreatestFloat64, WIDE_KEY64, VPMAXSQ, VPSRLQ)

// func name(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int): sets each of w
// to the maximum of it and four keys, of rows that are pitch bytes apart. n blocks of
// 64 bytes.
#define WIDE_EACH(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-48     \
	MOVQ      w+0(FP), DI         \
	MOVQ      x+8(FP), SI         \
	MOVQ      n+16(FP), CX        \
	MOVQ      pitch+40(FP), R8    \
	LEAQ      (R8)(R8*2), R9      \
	WIDE_PREPARE(SHIFT)                \
loop:                             \
	KEY((SI), Z0, Z4, K1)         \
	KEY((SI)(R8*1), Z1, Z5, K2)   \
	KEY((SI)(R8*2), Z2, Z6, K3)   \
	KEY((SI)(R9*1), Z3, Z7, K4)   \
	MAX       Z1, Z0, Z0          \
	MAX       Z3, Z2, Z2          \
	MAX       (DI), Z0, Z0        \
	MAX       Z2, Z0, Z0          \
	VMOVDQU64 Z0, (DI)            \
	ADDQ      $64, SI             \
	ADDQ      $64, DI             \
	DECQ      CX                  \
	JNZ       loop                \
	VZEROUPPER                    \
	RET

WIDE_EACH(·wideEachFloat32, WIDE_KEY32, VPMAXSD, VPSRLD)
WIDE_EACH(·wideEachFloat64, WIDE_KEY64, VPMAXSQ, VPSRLQ)

// Sums, for AVX2.

// The addresses of x and of the next three rows, and the prefetch distance.
#define ROWS \
	MOVQ acc+0(FP), DI     \
	MOVQ x+8(FP), SI       \
	MOVQ pitch+16(FP), AX  \
	MOVQ ahead+24(FP), R11 \
	MOVQ n+32(FP), CX      \
	LEAQ (SI)(AX*1), R8    \
	LEAQ (R8)(AX*1), R9    \
	LEAQ (R9)(AX*1), R10

// FETCH prefetches each row at that distance, or at its own address if the distance is
// 0.
#define FETCH \
	PREFETCHT0 (SI)(R11*1) \
	PREFETCHT0 (R8)(R11*1) \
	PREFETCHT0 (R9)(R11*1) \
	PREFETCHT0 (R10)(R11*1)

#define NEXT_ROWS \
	ADDQ $32, SI  \
	ADDQ $32, R8  \
	ADDQ $32, R9  \
	ADDQ $32, R10 \
	ADDQ $64, DI  \
	DECQ CX       \
	JNZ  loop     \
	VZEROUPPER    \
	RET

// WIDEN4 adds four floats of each of four rows to doubles.
#define WIDEN4(off, at, sum) \
	VCVTPS2PD off(SI), sum    \
	VCVTPS2PD off(R8), Y8     \
	VCVTPS2PD off(R9), Y9     \
	VCVTPS2PD off(R10), Y10   \
	VADDPD    Y8, sum, sum    \
	VADDPD    Y10, Y9, Y9     \
	VADDPD    Y9, sum, sum    \
	VADDPD    at(DI), sum, sum \
	VMOVUPD   sum, at(DI)

// func sums32(lanes, x unsafe.Pointer, n int): n blocks of 16 floats. lanes has 4
// doubles.
TEXT ·sums32(SB), NOSPLIT, $0-24
	MOVQ  lanes+0(FP), DI
	MOVQ  x+8(FP), SI
	MOVQ  n+16(FP), CX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

loop:
	VCVTPS2PD (SI), Y4
	VCVTPS2PD 16(SI), Y5
	VCVTPS2PD 32(SI), Y6
	VCVTPS2PD 48(SI), Y7
	VADDPD    Y4, Y0, Y0
	VADDPD    Y5, Y1, Y1
	VADDPD    Y6, Y2, Y2
	VADDPD    Y7, Y3, Y3
	ADDQ      $64, SI
	DECQ      CX
	JNZ       loop
	VADDPD    Y1, Y0, Y0
	VADDPD    Y3, Y2, Y2
	VADDPD    Y2, Y0, Y0
	VMOVUPD   Y0, (DI)
	VZEROUPPER
	RET

// func add32x4(acc, x unsafe.Pointer, pitch, ahead, n int): n blocks of 8 floats in
// each of 4 rows, pitch bytes apart.
TEXT ·add32x4(SB), NOSPLIT, $0-40
	ROWS

loop:
	FETCH
	WIDEN4(0, 0, Y0)
	WIDEN4(16, 32, Y1)
	NEXT_ROWS

// func add32(acc, x unsafe.Pointer, n int): n blocks of 8 floats.
TEXT ·add32(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VADDPD    (DI), Y0, Y0
	VADDPD    32(DI), Y1, Y1
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func narrow(out, x unsafe.Pointer, n int): converts n blocks of 4 doubles to floats.
TEXT ·narrow(SB), NOSPLIT, $0-24
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPD2PSY (SI), X0
	VMOVUPS    X0, (DI)
	ADDQ       $32, SI
	ADDQ       $16, DI
	DECQ       CX
	JNZ        loop
	VZEROUPPER
	RET

// EXACT adds x to sum, and the rounding error to rest. It needs two more registers.
#define EXACT(x, sum, rest, s, of) \
	VADDPD x, sum, s      \
	VSUBPD sum, s, of     \
	VSUBPD of, x, x       \
	VSUBPD of, s, of      \
	VSUBPD of, sum, of    \
	VADDPD x, of, of      \
	VADDPD of, rest, rest \
	VMOVAPD s, sum

// func sums64(sums, rests, x unsafe.Pointer, n int): n blocks of 32 doubles. sums and
// rests have 4 doubles each.
TEXT ·sums64(SB), NOSPLIT, $0-32
	MOVQ   sums+0(FP), DI
	MOVQ   rests+8(FP), DX
	MOVQ   x+16(FP), SI
	MOVQ   n+24(FP), CX
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11

loop:
	VMOVUPD (SI), Y0
	VMOVUPD 64(SI), Y1
	VMOVUPD 128(SI), Y2
	VMOVUPD 192(SI), Y3
	VADDPD  32(SI), Y0, Y0
	VADDPD  96(SI), Y1, Y1
	VADDPD  160(SI), Y2, Y2
	VADDPD  224(SI), Y3, Y3
	VADDPD  Y1, Y0, Y0
	VADDPD  Y3, Y2, Y2
	VADDPD  Y2, Y0, Y0
	EXACT(Y0, Y10, Y11, Y4, Y5)
	ADDQ    $256, SI
	DECQ    CX
	JNZ     loop
	VMOVUPD Y10, (DI)
	VMOVUPD Y11, (DX)
	VZEROUPPER
	RET

// ADD4 adds four doubles, in the order 0, 2, 1, 3, to compensated sums, which are pairs
// of a sum and its rounding errors.
#define ADD4(x) \
	VMOVUPD   (DI), Y0            \
	VMOVUPD   32(DI), Y1          \
	VUNPCKLPD Y1, Y0, Y2          \
	VUNPCKHPD Y1, Y0, Y3          \
	EXACT(x, Y2, Y3, Y4, Y5)      \
	VUNPCKLPD Y3, Y2, Y0          \
	VUNPCKHPD Y3, Y2, Y1          \
	VMOVUPD   Y0, (DI)            \
	VMOVUPD   Y1, 32(DI)

// func add64x4(acc, x unsafe.Pointer, pitch, ahead, n int): n blocks of 4 doubles in
// each of 4 rows, pitch bytes apart.
TEXT ·add64x4(SB), NOSPLIT, $0-40
	ROWS

loop:
	FETCH
	VMOVUPD (SI), Y6
	VMOVUPD (R8), Y7
	VADDPD  (R9), Y6, Y6
	VADDPD  (R10), Y7, Y7
	VADDPD  Y7, Y6, Y6
	VPERMPD $0xd8, Y6, Y6
	ADD4(Y6)
	NEXT_ROWS

// func add64(acc, x unsafe.Pointer, n int): n blocks of 4 doubles.
TEXT ·add64(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPERMPD $0xd8, (SI), Y6
	ADD4(Y6)
	ADDQ    $32, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func compensatedValues(x unsafe.Pointer, n int): replaces n blocks of 4 compensated
// sums by their values, at the beginning of x. A value is the sum plus its rounding
// errors, or the sum if that is NaN.
TEXT ·compensatedValues(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ SI, DI

loop:
	VMOVUPD   (SI), Y0
	VMOVUPD   32(SI), Y1
	VUNPCKLPD Y1, Y0, Y2
	VUNPCKHPD Y1, Y0, Y3
	VADDPD    Y3, Y2, Y3
	VCMPPD    $3, Y3, Y3, Y4
	VBLENDVPD Y4, Y2, Y3, Y3
	VPERMPD   $0xd8, Y3, Y3
	VMOVUPD   Y3, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET
