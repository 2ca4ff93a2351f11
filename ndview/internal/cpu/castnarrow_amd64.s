#include "textflag.h"
#include "castvector_amd64.h"

// Casts to integers of fewer bits, for processors with AVX2. What a float does not
// fit in becomes the smallest integer of 32 bits, of which the lower bits are taken.

// 32 elements as integers of 32 bits in Y0, Y2, Y4 and Y6.

#define WORDS \
	VMOVDQU (SI), Y0   \
	VMOVDQU 32(SI), Y2 \
	VMOVDQU 64(SI), Y4 \
	VMOVDQU 96(SI), Y6

#define LONGS \
	LOAD8  \
	LOWER4

#define FLOATS \
	VCVTTPS2DQ (SI), Y0   \
	VCVTTPS2DQ 32(SI), Y2 \
	VCVTTPS2DQ 64(SI), Y4 \
	VCVTTPS2DQ 96(SI), Y6

#define REALS \
	LONGS             \
	VCVTTPS2DQ Y0, Y0 \
	VCVTTPS2DQ Y2, Y2 \
	VCVTTPS2DQ Y4, Y4 \
	VCVTTPS2DQ Y6, Y6

#define DOUBLES8(at, x, y) \
	VCVTTPD2DQY at(SI), x      \
	VCVTTPD2DQY at+32(SI), X8  \
	VINSERTI128 $1, X8, y, y

#define DOUBLES \
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

// Y15 has the bits that are taken, so that packing does not saturate. It packs the
// two halves of vectors apart.

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

// The order in which eight parts lie that two steps of packing have mixed.
DATA packed<>+0(SB)/4, $0
DATA packed<>+4(SB)/4, $4
DATA packed<>+8(SB)/4, $1
DATA packed<>+12(SB)/4, $5
DATA packed<>+16(SB)/4, $2
DATA packed<>+20(SB)/4, $6
DATA packed<>+24(SB)/4, $3
DATA packed<>+28(SB)/4, $7
GLOBL packed<>(SB), RODATA|NOPTR, $32

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

// func name(dst, src unsafe.Pointer, n int), of elements of so many bytes.
#define NARROW(name, SOURCE, size, TO, bits) \
TEXT name(SB), NOSPLIT, $0-24       \
	ENTER                           \
	VPCMPEQD Y15, Y15, Y15          \
	VPSRLD   $(32-bits), Y15, Y15   \
	VMOVDQU  packed<>(SB), Y13      \
loop:                               \
	SOURCE                          \
	TO                              \
	NEXT(32*size, 4*bits)

NARROW(·n32to16, WORDS, 4, TO16, 16)
NARROW(·n32to8, WORDS, 4, TO8, 8)
NARROW(·n64to16, LONGS, 8, TO16, 16)
NARROW(·n64to8, LONGS, 8, TO8, 8)
NARROW(·floatTo16, FLOATS, 4, TO16, 16)
NARROW(·floatTo8, FLOATS, 4, TO8, 8)
NARROW(·doubleTo16, DOUBLES, 8, TO16, 16)
NARROW(·doubleTo8, DOUBLES, 8, TO8, 8)
NARROW(·realTo32, REALS, 8, TO32, 32)
NARROW(·realTo16, REALS, 8, TO16, 16)
NARROW(·realTo8, REALS, 8, TO8, 8)
NARROW(·realDoubleTo32, REAL_DOUBLES, 16, TO32, 32)
NARROW(·realDoubleTo16, REAL_DOUBLES, 16, TO16, 16)
NARROW(·realDoubleTo8, REAL_DOUBLES, 16, TO8, 8)
