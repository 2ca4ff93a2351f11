#include "textflag.h"

// Registers of decodeStepsBMI2:
//
//	BX, CX   the next bits of the input; the low byte of CX is how many are valid
//	SI, R8   the next input, and the last position at which a step may begin
//	DI, R9   the output, likewise
//	R10      the first byte of the stream's output
//	DX, R11  steps and lit

// STEP decodes one step, or jumps with nothing consumed.
#define STEP(literal, overlap, next) \
	MOVL    BX, AX          \
	ANDL    $2047, AX       \
	MOVQ    (DX)(AX*8), R12 \
	TESTL   R12, R12        \
	JS      literal         \
	RORXQ   $8, R12, R13    \
	BEXTRQ  R13, BX, AX     \
	MOVQ    R12, R13        \
	SHRQ    $48, R13        \
	ADDQ    AX, R13         \
	MOVQ    DI, R14         \
	SUBQ    R13, R14        \
	CMPQ    R14, R10        \
	JB      done            \
	SHRXQ   R12, BX, BX     \
	SUBL    R12, CX         \
	MOVL    R12, R15        \
	SHRL    $24, R15        \
	SHRQ    $32, R12        \
	MOVBLZX R12, AX         \
	SHRL    $8, R12         \
	CMPQ    R13, R15        \
	JB      overlap         \
	MOVQ    (R14), R13      \
	SHLXQ   R12, R13, R13   \
	ORQ     AX, R13         \
	MOVQ    R13, (DI)       \
	ADDQ    R15, DI         \
next:

// OVERLAP copies byte by byte, since the match begins within the last bytes of the output.
#define OVERLAP(overlap, copy, next) \
overlap:                      \
	MOVB AX, (DI)         \
	SHRL $3, R12          \
	ANDL $1, R12          \
	LEAQ (DI)(R12*1), R13 \
	ADDQ R15, DI          \
copy:                         \
	MOVB (R14), AX        \
	MOVB AX, (R13)        \
	INCQ R14              \
	INCQ R13              \
	CMPQ R13, DI          \
	JB   copy             \
	JMP  next

// func decodeStepsBMI2(steps *step, lit *entry, dst *byte, out, lastOut, start int, src *byte, in, lastIn int, buf uint64, n uint) (newOut, newIn int, newBuf uint64, newN uint)
TEXT ·decodeStepsBMI2(SB), NOSPLIT, $0-120
	MOVQ steps+0(FP), DX
	MOVQ lit+8(FP), R11
	MOVQ dst+16(FP), AX
	MOVQ out+24(FP), DI
	ADDQ AX, DI
	MOVQ lastOut+32(FP), R9
	ADDQ AX, R9
	MOVQ start+40(FP), R10
	ADDQ AX, R10
	MOVQ src+48(FP), AX
	MOVQ in+56(FP), SI
	ADDQ AX, SI
	MOVQ lastIn+64(FP), R8
	ADDQ AX, R8
	MOVQ buf+72(FP), BX
	MOVQ n+80(FP), CX

loop:
	CMPQ    SI, R8
	JA      done
	CMPQ    DI, R9
	JA      done
	MOVBLZX CX, CX
	MOVQ    (SI), AX
	SHLXQ   CX, AX, AX
	ORQ     AX, BX
	MOVL    $63, AX
	SUBL    CX, AX
	SHRL    $3, AX
	ADDQ    AX, SI
	ORL     $56, CX

	// Two steps and a literal take up to 2*24 and 15 bits, but a literal follows only one.
	STEP(literal, overlap1, next1)
	STEP(literal, overlap2, next2)
	JMP loop

	OVERLAP(overlap1, copy1, next1)
	OVERLAP(overlap2, copy2, next2)

literal: // a literal whose code is longer than the index, which is in AX
	MOVL  (R11)(AX*4), R12
	TESTL $0x2000, R12     // isSubtable
	JZ    done
	MOVL  R12, R13
	SHRL  $16, R13
	SHRL  $8, R12
	ANDL  $15, R12
	MOVQ  BX, AX
	SHRQ  $11, AX
	BZHIQ R12, AX, AX
	ADDL  R13, AX
	ANDL  $4095, AX
	MOVL  (R11)(AX*4), R12
	TESTL $0x40, R12       // isLiteral
	JZ    done
	MOVL  R12, AX
	ANDL  $63, AX
	ADDL  $11, AX
	SHRXQ AX, BX, BX
	SUBL  AX, CX
	SHRL  $16, R12
	MOVB  R12, (DI)
	INCQ  DI
	JMP   loop

done:
	MOVBLZX CX, CX
	SUBQ    dst+16(FP), DI
	SUBQ    src+48(FP), SI
	MOVQ    DI, newOut+88(FP)
	MOVQ    SI, newIn+96(FP)
	MOVQ    BX, newBuf+104(FP)
	MOVQ    CX, newN+112(FP)
	RET
