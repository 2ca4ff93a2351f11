#include "textflag.h"

// Every other unit of blocks of 64 bytes, more than none, for processors with AVX2:
// what is kept is packed, which takes the halves of vectors apart.

#define ENTER \
	MOVQ     dst+0(FP), DI     \
	MOVQ     src+8(FP), SI     \
	MOVQ     blocks+16(FP), CX \
	VPCMPEQB Y15, Y15, Y15

// func name(dst, src unsafe.Pointer, blocks int64), of units whose lower bits are
// what SHIFT by so many leaves of Y15.
#define PACKED(name, SHIFT, bits, PACK) \
TEXT name(SB), NOSPLIT, $0-24       \
	ENTER                           \
	SHIFT   $bits, Y15, Y15         \
loop:                               \
	VPAND   (SI), Y15, Y0           \
	VPAND   32(SI), Y15, Y1         \
	PACK    Y1, Y0, Y0              \
	VPERMQ  $0xD8, Y0, Y0           \
	VMOVDQU Y0, (DI)                \
	ADDQ    $64, SI                 \
	ADDQ    $32, DI                 \
	DECQ    CX                      \
	JNZ     loop                    \
	VZEROUPPER                      \
	RET

PACKED(·everyOther1, VPSRLW, 8, VPACKUSWB)
PACKED(·everyOther2, VPSRLD, 16, VPACKUSDW)

// func everyOther4(dst, src unsafe.Pointer, blocks int64)
TEXT ·everyOther4(SB), NOSPLIT, $0-24
	ENTER

loop:
	VMOVUPS (SI), Y0
	VSHUFPS $0x88, 32(SI), Y0, Y0
	VPERMQ  $0xD8, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ    $64, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func reverseBlocks(dst, src unsafe.Pointer, blocks int64, order unsafe.Pointer, width int64)
TEXT ·reverseBlocks(SB), NOSPLIT, $0-40
	MOVQ           dst+0(FP), DI
	MOVQ           src+8(FP), SI
	MOVQ           blocks+16(FP), CX
	MOVQ           order+24(FP), DX
	ADDQ           width+32(FP), SI
	VBROADCASTI128 (DX), Y15

loop:
	VMOVDQU -32(SI), Y0
	VPSHUFB Y15, Y0, Y0
	VPERMQ  $0x4E, Y0, Y0
	VMOVDQU Y0, (DI)
	SUBQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
