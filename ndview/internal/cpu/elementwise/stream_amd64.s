#include "textflag.h"

// func streamBlocks(to, from unsafe.Pointer, n int)
TEXT ·streamBlocks(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
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

// func streamed()
TEXT ·streamed(SB), NOSPLIT, $0-0
	SFENCE
	RET
