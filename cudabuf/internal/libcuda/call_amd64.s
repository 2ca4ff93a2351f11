//go:build linux && !gorgonia

#include "textflag.h"

// enter calls a C function with the words of a frame: it is itself called by C's
// conventions, with the address of the frame in DI, on a stack that is C's. The
// function gets as many words as the longest call has; by those conventions it
// does not see the ones that it has no parameters for. Its result stays in AX.
TEXT enter<>(SB), NOSPLIT, $64
	MOVQ DI, R11
	MOVQ 56(R11), AX
	MOVQ AX, 0(SP)
	MOVQ 64(R11), AX
	MOVQ AX, 8(SP)
	MOVQ 72(R11), AX
	MOVQ AX, 16(SP)
	MOVQ 80(R11), AX
	MOVQ AX, 24(SP)
	MOVQ 88(R11), AX
	MOVQ AX, 32(SP)
	MOVQ 96(R11), AX
	MOVQ AX, 40(SP)
	MOVQ 104(R11), AX
	MOVQ AX, 48(SP)
	MOVQ 112(R11), AX
	MOVQ AX, 56(SP)
	MOVQ 8(R11), DI
	MOVQ 16(R11), SI
	MOVQ 24(R11), DX
	MOVQ 32(R11), CX
	MOVQ 40(R11), R8
	MOVQ 48(R11), R9
	MOVQ 0(R11), R11
	CALL R11
	RET

// enterAddress is the address of enter.
GLOBL ·enterAddress(SB), NOPTR|RODATA, $8
DATA ·enterAddress(SB)/8, $enter<>(SB)
