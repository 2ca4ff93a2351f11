#include "textflag.h"

// The functions move 16 elements of 4 bytes per step. The four planes are n bytes apart.

// func shuffle4SSE2(dst, src *byte, n, steps int)
TEXT ·shuffle4SSE2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ steps+24(FP), CX
	LEAQ (DI)(DX*2), R8
	PCMPEQL X15, X15
	PSRLW $8, X15           // 0x00ff in each word
shuffle:
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVO X0, X4
	MOVO X1, X5
	MOVO X2, X6
	MOVO X3, X7
	PAND X15, X0
	PAND X15, X1
	PAND X15, X2
	PAND X15, X3
	PACKUSWB X1, X0         // bytes 0 and 2 of 8 elements, alternately
	PACKUSWB X3, X2
	PSRLW $8, X4
	PSRLW $8, X5
	PSRLW $8, X6
	PSRLW $8, X7
	PACKUSWB X5, X4         // bytes 1 and 3
	PACKUSWB X7, X6
	MOVO X0, X1
	MOVO X2, X3
	MOVO X4, X5
	MOVO X6, X7
	PAND X15, X0
	PAND X15, X2
	PACKUSWB X2, X0         // bytes 0 of 16 elements
	PSRLW $8, X1
	PSRLW $8, X3
	PACKUSWB X3, X1         // bytes 2
	PAND X15, X4
	PAND X15, X6
	PACKUSWB X6, X4         // bytes 1
	PSRLW $8, X5
	PSRLW $8, X7
	PACKUSWB X7, X5         // bytes 3
	MOVOU X0, (DI)
	MOVOU X4, (DI)(DX*1)
	MOVOU X1, (R8)
	MOVOU X5, (R8)(DX*1)
	ADDQ $64, SI
	ADDQ $16, DI
	ADDQ $16, R8
	DECQ CX
	JNZ shuffle
	RET

// func unshuffle4SSE2(dst, src *byte, n, steps int)
TEXT ·unshuffle4SSE2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ steps+24(FP), CX
	LEAQ (SI)(DX*2), R8
unshuffle:
	MOVOU (SI), X0
	MOVOU (SI)(DX*1), X1
	MOVOU (R8), X2
	MOVOU (R8)(DX*1), X3
	MOVO X0, X4
	MOVO X2, X5
	PUNPCKLBW X1, X0        // bytes 0 and 1 of 8 elements, alternately
	PUNPCKHBW X1, X4
	PUNPCKLBW X3, X2        // bytes 2 and 3
	PUNPCKHBW X3, X5
	MOVO X0, X1
	MOVO X4, X3
	PUNPCKLWL X2, X0        // 4 elements
	PUNPCKHWL X2, X1
	PUNPCKLWL X5, X4
	PUNPCKHWL X5, X3
	MOVOU X0, (DI)
	MOVOU X1, 16(DI)
	MOVOU X4, 32(DI)
	MOVOU X3, 48(DI)
	ADDQ $16, SI
	ADDQ $16, R8
	ADDQ $64, DI
	DECQ CX
	JNZ unshuffle
	RET

// func unshuffle4Stream(dst, src *byte, n, steps int)
TEXT ·unshuffle4Stream(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ steps+24(FP), CX
	LEAQ (SI)(DX*2), R8
stream:
	MOVOU (SI), X0
	MOVOU (SI)(DX*1), X1
	MOVOU (R8), X2
	MOVOU (R8)(DX*1), X3
	MOVO X0, X4
	MOVO X2, X5
	PUNPCKLBW X1, X0        // bytes 0 and 1 of 8 elements, alternately
	PUNPCKHBW X1, X4
	PUNPCKLBW X3, X2        // bytes 2 and 3
	PUNPCKHBW X3, X5
	MOVO X0, X1
	MOVO X4, X3
	PUNPCKLWL X2, X0        // 4 elements
	PUNPCKHWL X2, X1
	PUNPCKLWL X5, X4
	PUNPCKHWL X5, X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X4, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ $16, SI
	ADDQ $16, R8
	ADDQ $64, DI
	DECQ CX
	JNZ stream
	SFENCE
	RET
