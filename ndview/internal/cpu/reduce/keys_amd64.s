#include "textflag.h"

// Keys of elements, and what is done with keys, for processors with AVX2. What is
// a block is said at each kind.

#define NEXT32 \
	ADDQ $32, SI \
	ADDQ $32, DI \
	DECQ CX      \
	JNZ  loop    \
	VZEROUPPER   \
	RET

// Keys are made of n blocks of 32 bytes.
#define KEYS \
	MOVQ         to+0(FP), DI      \
	MOVQ         x+8(FP), SI       \
	MOVQ         n+16(FP), CX      \
	VPBROADCASTQ flip+24(FP), Y15  \
	VPBROADCASTQ other+32(FP), Y14

// func flipKeys(to, x unsafe.Pointer, n int, flip, bias uint64), where bias is for
// elements of 8 bytes, or 0.
TEXT ·flipKeys(SB), NOSPLIT, $0-40
	KEYS

loop:
	VPXOR   (SI), Y15, Y0
	VPADDQ  Y14, Y0, Y0
	VMOVDQU Y0, (DI)
	NEXT32

// KEY32 and KEY64 make keys of the floats at an address. Y13 is the greatest of
// keys, Y12 is 0. Adding Y14, a zero of one sign or the other, makes zeros alike or
// leaves them. FOLD32 and FOLD64 turn the order of negative floats around.
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

// func name(to, keys unsafe.Pointer, n int, flip, unused uint64): floats again.
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

// func keys16(to, x unsafe.Pointer, n int, flip, infinity, alike uint64), where
// alike is all ones to make zeros alike, or 0. There is no arithmetic of such
// floats: a sign is taken off by subtracting it from the inverse.
TEXT ·keys16(SB), NOSPLIT, $0-48
	KEYS
	VPBROADCASTQ alike+40(FP), Y11
	VPCMPEQW     Y13, Y13, Y13
	VPSRLW       $1, Y13, Y13

loop:
	VPXOR     (SI), Y15, Y0
	VPAND     Y13, Y0, Y1
	VPCMPGTW  Y14, Y1, Y3
	VPSRAW    $15, Y0, Y2
	VPXOR     Y2, Y1, Y0
	VPAND     Y11, Y2, Y2
	VPSUBW    Y2, Y0, Y0
	VPBLENDVB Y3, Y13, Y0, Y0
	VMOVDQU   Y0, (DI)
	NEXT32

// These make acc the greater of it and the keys at an address.
#define MAX8(at, acc) VPMAXSB at, acc, acc
#define MAX16(at, acc) VPMAXSW at, acc, acc
#define MAX32(at, acc) VPMAXSD at, acc, acc
#define MAX64(at, acc) \
	VMOVDQU   at, Y8           \
	VPCMPGTQ  acc, Y8, Y9      \
	VPBLENDVB Y9, Y8, acc, acc

// func name(lanes, keys unsafe.Pointer, n int), of n blocks of 128 bytes. Lanes
// are 32 bytes.
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

// func name(w, keys unsafe.Pointer, n int), of n blocks of 32 bytes.
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

// func name(w, keys unsafe.Pointer, n, pitch int): EACH of four rows of keys, which
// are pitch bytes apart.
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

// func name(lanes, x unsafe.Pointer, n int, flip, zero uint64): GREATEST of the
// keys of n blocks of 64 bytes.
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

// func name(best, at, keys unsafe.Pointer, n int, row uint64), of n blocks of 32
// bytes, and row in each part of row.
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

// func name(keys unsafe.Pointer, n int, w uint64) int, of n blocks of 32 bytes and
// a key in each part of w: how many blocks are before the first that has it.
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

// func name(x unsafe.Pointer, n int, mask uint64) int, of n blocks of 32 bytes:
// the bytes of elements that have no bit of their part of mask.
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
