//go:build linux

#include "funcdata.h"
#include "go_asm.h"
#include "textflag.h"

// func onSystemStack(c *call)
TEXT ·onSystemStack(SB), NOSPLIT, $24-8
	NO_LOCAL_POINTERS
	LEAQ callInC<>(SB), AX
	MOVQ c+0(FP), BX
	MOVQ AX, 0(SP)
	MOVQ BX, 8(SP)
	CALL runtime·asmcgocall(SB)
	RET

// callInC is a C function with a *call as argument. The frame aligns the stack to 16 bytes.
TEXT callInC<>(SB), NOSPLIT, $16-0
	MOVQ DI, 8(SP)
	MOVQ DI, R11
	MOVQ call_args(R11), DI
	MOVQ call_args+8(R11), SI
	MOVQ call_args+16(R11), DX
	MOVQ call_args+24(R11), CX
	MOVQ call_args+32(R11), R8
	MOVQ call_args+40(R11), R9
	MOVQ call_function(R11), R11
	XORL AX, AX // no arguments in vector registers
	CALL R11
	MOVQ 8(SP), DI
	MOVQ AX, call_result(DI)
	XORL AX, AX // what asmcgocall returns
	RET
