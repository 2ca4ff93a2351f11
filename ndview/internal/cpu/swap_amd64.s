#include "textflag.h"

// The places that the bytes of 16 come from, by the size of numbers: 2, 4 and 8.
DATA turned<>+0(SB)/8, $0x0607040502030001
DATA turned<>+8(SB)/8, $0x0e0f0c0d0a0b0809
DATA turned<>+16(SB)/8, $0x0405060700010203
DATA turned<>+24(SB)/8, $0x0c0d0e0f08090a0b
DATA turned<>+32(SB)/8, $0x0001020304050607
DATA turned<>+40(SB)/8, $0x08090a0b0c0d0e0f
GLOBL turned<>(SB), RODATA|NOPTR, $48

// func swapVectors(dst, src unsafe.Pointer, blocks, size int64), of blocks of 128
// bytes, more than none. For AVX2.
TEXT ·swapVectors(SB), NOSPLIT, $0-32
	MOVQ           dst+0(FP), DI
	MOVQ           src+8(FP), SI
	MOVQ           blocks+16(FP), CX
	MOVQ           size+24(FP), AX
	LEAQ           turned<>(SB), DX
	SHRQ           $2, AX
	SHLQ           $4, AX
	VBROADCASTI128 (DX)(AX*1), Y15

loop:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	VMOVDQU    (SI), Y0
	VMOVDQU    32(SI), Y1
	VMOVDQU    64(SI), Y2
	VMOVDQU    96(SI), Y3
	VPSHUFB    Y15, Y0, Y0
	VPSHUFB    Y15, Y1, Y1
	VPSHUFB    Y15, Y2, Y2
	VPSHUFB    Y15, Y3, Y3
	VMOVDQU    Y0, (DI)
	VMOVDQU    Y1, 32(DI)
	VMOVDQU    Y2, 64(DI)
	VMOVDQU    Y3, 96(DI)
	ADDQ       $128, SI
	ADDQ       $128, DI
	DECQ       CX
	JNZ        loop
	VZEROUPPER
	RET
