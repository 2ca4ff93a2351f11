#include "textflag.h"

// func streamLines(dst, src unsafe.Pointer, n int64)
TEXT ·streamLines(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	VMOVDQU  (SI), Y0
	VMOVDQU  32(SI), Y1
	VMOVNTDQ Y0, (DI)
	VMOVNTDQ Y1, 32(DI)
	ADDQ     $64, SI
	ADDQ     $64, DI
	DECQ     CX
	JNZ      loop
	VZEROUPPER
	RET

// func StreamEnd()
TEXT ·StreamEnd(SB), NOSPLIT, $0-0
	SFENCE
	RET
