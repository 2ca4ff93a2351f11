#include "textflag.h"

// Units with gaps, and units backwards, for processors with AVX2.

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

// func everyBlocks(dst, src unsafe.Pointer, blocks int64, orders unsafe.Pointer, step int64)
TEXT ·everyBlocks(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ orders+24(FP), DX
	MOVQ step+32(FP), BX
	SHLQ $4, BX
	LEAQ (SI)(BX*1), R9

loop:
	VPXOR Y0, Y0, Y0
	XORQ  R8, R8

halves:
	VMOVDQU     (SI)(R8*1), X1
	VINSERTI128 $1, (R9)(R8*1), Y1, Y1
	VPSHUFB     (DX)(R8*2), Y1, Y1
	VPOR        Y1, Y0, Y0
	ADDQ        $16, R8
	CMPQ        R8, BX
	JNE         halves
	VMOVDQU     Y0, (DI)
	LEAQ        (SI)(BX*2), SI
	LEAQ        (R9)(BX*2), R9
	ADDQ        $32, DI
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET
