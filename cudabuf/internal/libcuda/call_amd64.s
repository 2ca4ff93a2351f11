//go:build linux && !gorgonia

#include "textflag.h"

// enter calls the C function of a frame. It is called in the C calling convention
// on a C stack, with the address of the frame in DI. It passes the maximum number
// of arguments; a function ignores those that it has no parameters for. The
// result of the function stays in AX.
//
// It takes half the time of purego.SyscallN, which copies 32 words three times.
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
