#include "textflag.h"

// Maxima of the keys of floats, which are made on the way, for processors with
// AVX-512.

#define PREPARE(SHIFT) \
	VPBROADCASTQ flip+24(FP), Z15   \
	VPBROADCASTQ zero+32(FP), Z14   \
	VPTERNLOGQ   $0xFF, Z13, Z13, Z13 \
	SHIFT        $1, Z13, Z13

// KEY32 and KEY64 make keys of the floats at an address, by way of t. Z13 is the
// greatest of keys, whose bits turn the order of negative floats around. Adding
// Z14, a zero of one sign or the other, makes zeros alike or leaves them.
#define KEY(at, x, t, k, ADD, COMPARE, SHIFT, sign) \
	VPXORQ     at, Z15, x         \
	ADD        Z14, x, x          \
	COMPARE    $3, x, x, k        \
	SHIFT      $sign, x, t        \
	VPTERNLOGQ $0x78, Z13, t, x
#define KEY32(at, x, t, k) \
	KEY(at, x, t, k, VADDPS, VCMPPS, VPSRAD, 31) \
	VMOVDQA32 Z13, k, x
#define KEY64(at, x, t, k) \
	KEY(at, x, t, k, VADDPD, VCMPPD, VPSRAQ, 63) \
	VMOVDQA64 Z13, k, x

// func name(lanes, x unsafe.Pointer, n int, flip, zero uint64): the greatest of
// lanes, which are 64 bytes, and the keys of n blocks of 256 bytes.
#define GREATEST(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-40     \
	MOVQ      lanes+0(FP), DI     \
	MOVQ      x+8(FP), SI         \
	MOVQ      n+16(FP), CX        \
	PREPARE(SHIFT)                \
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

GREATEST(·wideGreatestFloat32, KEY32, VPMAXSD, VPSRLD)
GREATEST(·wideGreatestFloat64, KEY64, VPMAXSQ, VPSRLQ)

// func name(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int): each of w is
// made the greater of it and four keys, of rows that are pitch bytes apart, of n
// blocks of 64 bytes.
#define EACH(name, KEY, MAX, SHIFT) \
TEXT name(SB), NOSPLIT, $0-48     \
	MOVQ      w+0(FP), DI         \
	MOVQ      x+8(FP), SI         \
	MOVQ      n+16(FP), CX        \
	MOVQ      pitch+40(FP), R8    \
	LEAQ      (R8)(R8*2), R9      \
	PREPARE(SHIFT)                \
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

EACH(·wideEachFloat32, KEY32, VPMAXSD, VPSRLD)
EACH(·wideEachFloat64, KEY64, VPMAXSQ, VPSRLQ)
