//===- Compat.c - what glibc 2.28 lacks and the wheels refer to -----------===//
// SPDX-License-Identifier: Apache-2.0
//
// The wheels are compiled with the headers of a newer glibc and linked against
// the symbols of glibc 2.28 (stubs.py beside this file). Each name that is
// newer and still referred to, by our objects or by Debian's archives, is here,
// hidden in each library. A missing one is a linker error that names it.

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>

// 2.32: libstdc++ leaves out atomic operations where it is true. False is
// always right.
char __libc_single_threaded = 0;

// 2.33: before, these were inline calls of the versioned functions below.
// The version is _STAT_VER, the kernel's layout.
#ifdef __x86_64__
enum { statVersion = 1 };
#else
enum { statVersion = 0 };
#endif
int __xstat(int version, const char *path, struct stat *result);
int __lxstat(int version, const char *path, struct stat *result);
int __fxstat(int version, int file, struct stat *result);
int __fxstatat(int version, int folder, const char *path, struct stat *result,
               int flags);
int __xmknod(int version, const char *path, mode_t mode, dev_t *device);

int stat(const char *path, struct stat *result) {
  return __xstat(statVersion, path, result);
}
int lstat(const char *path, struct stat *result) {
  return __lxstat(statVersion, path, result);
}
int fstat(int file, struct stat *result) {
  return __fxstat(statVersion, file, result);
}
int fstatat(int folder, const char *path, struct stat *result, int flags) {
  return __fxstatat(statVersion, folder, path, result, flags);
}
// The same layout on 64-bit systems.
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout");
int stat64(const char *path, struct stat64 *result) {
  return __xstat(statVersion, path, (struct stat *)result);
}
int lstat64(const char *path, struct stat64 *result) {
  return __lxstat(statVersion, path, (struct stat *)result);
}
int fstat64(int file, struct stat64 *result) {
  return __fxstat(statVersion, file, (struct stat *)result);
}
int fstatat64(int folder, const char *path, struct stat64 *result, int flags) {
  return __fxstatat(statVersion, folder, path, (struct stat *)result, flags);
}

// 2.36: LLVM names temporary files with it. 2.25 has the system call.
uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) < 0 && errno == EINTR) {
  }
  return number;
}

// 2.33: LLVM prints the size of the heap with it. Before, the counters had 32
// bits.
struct mallinfo mallinfo(void);
struct mallinfo2 mallinfo2(void) {
  struct mallinfo small = mallinfo();
  return (struct mallinfo2){(unsigned)small.arena,    (unsigned)small.ordblks,
                            (unsigned)small.smblks,   (unsigned)small.hblks,
                            (unsigned)small.hblkhd,   (unsigned)small.usmblks,
                            (unsigned)small.fsmblks,  (unsigned)small.uordblks,
                            (unsigned)small.fordblks, (unsigned)small.keepcost};
}
