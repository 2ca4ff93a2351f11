#include "textflag.h"

// Registers of decodeSequencesAVX:
//
//	SI, R10  the next byte of the input, and the last at which a sequence may begin
//	DI, R8   the output, likewise
//	R9       the first byte of the output
//	CX, DX   where the next sequence begins, and where the match goes
//	BX, R11  the length of the match beyond the least, and its offset
//	R12      the offset, or 16 if that is less
//	R13, R14 repeatSteps and repeatMasks
//	AX       where the match comes from, and temporary values

// func decodeSequencesAVX(dst *byte, out, lastOut int, src *byte, in, lastIn int, masks *[17][16]byte, steps *[17]byte) (newOut, newIn int)
TEXT ·decodeSequencesAVX(SB), NOSPLIT, $0-80
	MOVQ dst+0(FP), R9
	MOVQ out+8(FP), DI
	MOVQ lastOut+16(FP), R8
	MOVQ src+24(FP), SI
	MOVQ in+32(FP), AX
	MOVQ lastIn+40(FP), R10
	ADDQ R9, DI
	ADDQ R9, R8
	ADDQ SI, R10
	ADDQ AX, SI
	MOVQ masks+48(FP), R14
	MOVQ steps+56(FP), R13

next:
	CMPQ    SI, R10
	JHI     done
	CMPQ    DI, R8
	JHI     done
	MOVBLZX (SI), AX
	VMOVDQU 1(SI), X0
	MOVL    AX, BX
	ANDL    $15, BX
	CMPL    AX, $0xf0
	JAE     literals
	SHRL    $4, AX
	VMOVDQU X0, (DI)
	LEAQ    3(SI)(AX*1), CX
	LEAQ    (DI)(AX*1), DX

match:
	// The first 16 bytes. If the offset is less, the mask repeats that many.
	MOVWLZX -2(CX), R11
	MOVQ    DX, AX
	SUBQ    R11, AX
	CMPQ    AX, R9
	JB      done
	MOVL    $16, R12
	CMPL    R11, $16
	CMOVLLS R11, R12
	VMOVDQU (AX), X1
	SHLL    $4, R12
	JZ      done
	VPSHUFB (R14)(R12*1), X1, X1
	VMOVDQU X1, (DX)
	CMPL    BX, $12
	JHI     long
	LEAQ    4(DX)(BX*1), DI
	MOVQ    CX, SI
	JMP     next

literals:
	// 15 literals and as many as the next byte has, unless that is 255.
	MOVBLZX 1(SI), AX
	CMPL    AX, $255
	JEQ     done
	ADDL    $15, AX
	LEAQ    4(SI)(AX*1), CX
	LEAQ    (DI)(AX*1), DX
	VMOVDQU 2(SI), X0
	VMOVDQU 18(SI), X1
	VMOVDQU X0, (DI)
	VMOVDQU X1, 16(DI)
	CMPL    AX, $32
	JLS     match
	MOVQ    DI, R12
	MOVQ    SI, AX

copyLiterals:
	VMOVDQU 34(AX), X0
	VMOVDQU 50(AX), X1
	VMOVDQU X0, 32(R12)
	VMOVDQU X1, 48(R12)
	ADDQ    $32, AX
	ADDQ    $32, R12
	LEAQ    32(R12), R11
	CMPQ    R11, DX
	JB      copyLiterals
	JMP     match

long:
	CMPL    BX, $15
	JNE     known
	MOVBLZX (CX), AX
	CMPL    AX, $255
	JEQ     done
	ADDL    AX, BX
	INCQ    CX

known:
	// More than 16 bytes: the least multiple of the offset that is not below 16 is a
	// distance at which copies of 16 bytes do not overlap.
	SHRL    $4, R12
	MOVBLZX (R13)(R12*1), AX
	CMPL    R11, $16
	CMOVLCS AX, R11
	LEAQ    4(DX)(BX*1), DI
	MOVQ    CX, SI
	MOVQ    DX, AX
	SUBQ    R11, AX
	VMOVDQU 16(AX), X1
	VMOVDQU X1, 16(DX)
	CMPL    BX, $28
	JLS     next

copyMatch:
	VMOVDQU 32(AX), X0
	VMOVDQU X0, 32(DX)
	VMOVDQU 48(AX), X1
	VMOVDQU X1, 48(DX)
	ADDQ    $32, AX
	ADDQ    $32, DX
	LEAQ    32(DX), R12
	CMPQ    R12, DI
	JB      copyMatch
	JMP     next

done:
	MOVQ dst+0(FP), AX
	SUBQ AX, DI
	MOVQ DI, newOut+64(FP)
	MOVQ src+24(FP), AX
	SUBQ AX, SI
	MOVQ SI, newIn+72(FP)
	RET
