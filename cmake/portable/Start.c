//===- Start.c - how a program of the wheels starts -----------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before 2.34, glibc left a program's own constructors to its start files. The
// start files of a newer glibc leave them to glibc, so a program that runs on
// both brings its own. A newer glibc sees the function that it is given and
// runs no constructor itself.

typedef void Constructor(int, char **, char **);
#define HIDDEN __attribute__((visibility("hidden")))

// The linker defines both ends.
extern Constructor *__init_array_start[] HIDDEN;
extern Constructor *__init_array_end[] HIDDEN;

HIDDEN void anabranchRunConstructors(int count, char **words,
                                     char **environment) {
  for (Constructor **next = __init_array_start; next != __init_array_end;
       ++next)
    (*next)(count, words, environment);
}

// The kernel's stack has argc and argv; the first register has the loader's
// function for the end:
// __libc_start_main(main, argc, argv, constructors, null, end, stack).
#ifdef __x86_64__
__asm__(".text\n"
        ".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  xorl %ebp, %ebp\n"
        "  movq %rdx, %r9\n"
        "  popq %rsi\n"
        "  movq %rsp, %rdx\n"
        "  andq $-16, %rsp\n"
        "  pushq %rax\n"
        "  pushq %rsp\n"
        "  xorl %r8d, %r8d\n"
        "  leaq anabranchRunConstructors(%rip), %rcx\n"
        "  leaq main(%rip), %rdi\n"
        "  call *__libc_start_main@GOTPCREL(%rip)\n"
        "  hlt\n");
#else
__asm__(".text\n"
        ".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "  mov x29, #0\n"
        "  mov x30, #0\n"
        "  mov x5, x0\n"
        "  ldr x1, [sp]\n"
        "  add x2, sp, #8\n"
        "  mov x6, sp\n"
        "  mov x4, #0\n"
        "  adrp x3, anabranchRunConstructors\n"
        "  add x3, x3, :lo12:anabranchRunConstructors\n"
        "  adrp x0, main\n"
        "  add x0, x0, :lo12:main\n"
        "  bl __libc_start_main\n"
        "  brk #1\n");
#endif
