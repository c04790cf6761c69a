/ A line of comment
	.text
	.globl	first, second
	.type	first, @function
first:	nop ; .byte 1, 2 ; .short 3	# 4 ; .byte 5
	.ascii	"a;#"			/* over
		two lines; .byte 7 */
	nop
	movb	$'#, %al
	movb	$';', %al
	.size	first, .-first
	.macro	twice what
	.byte	\what
	.byte	\what
	.endm
	.type	second, @function
second:	call	first
	jmp	*%rax
	.if	0
	.byte	9
	.else
	nop
	.endif
	twice	0x90
	.rept	3
	nop
	.endr
	.pushsection .rodata
	.long	second - .
	.popsection
	.data
	.quad	first
	.previous
	.long	1
"quoted name":
	.value	2
	.section .text.more, "ax", @progbits
third:	ret
	.section	odd, "ax"
	nop
	.section	.note, ""
	.long	3
	.section	odd
	.TEXT
	ret
	.section	odd
	.zero	4
	.size	third, 1
