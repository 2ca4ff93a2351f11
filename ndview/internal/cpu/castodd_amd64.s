#include "textflag.h"
#include "castvector_amd64.h"

// Y1 becomes Y0 with the last of 24 bits in the place of those below, for lanes
// from 1<<24 up, whose Y2, the size, has more; Y2 tells the others. Y15 is 255.
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

// Half of a large one has a sign bit to spare, and loses nothing.
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
