/* The words between a test and the program that runs foreign kernels for it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The test sends requests; the program answers with notes, the last of which is
 * ANABRANCH_DONE. All memory belongs to the test: the program asks for a page
 * when a kernel first touches it, and sends back the bytes that kernels
 * changed.
 */
#ifndef ANABRANCH_SUPPORT_NATIVE_FOREIGNCALLS_H
#define ANABRANCH_SUPPORT_NATIVE_FOREIGNCALLS_H

#include <stdint.h>

enum { ANABRANCH_FOREIGN_PAGE = 4096, ANABRANCH_FOREIGN_ARGUMENTS = 4 };

enum anabranch_foreign_request_kind {
  ANABRANCH_LOAD, /* the library of this name */
  ANABRANCH_FIND, /* whether a function of this name exists */
  ANABRANCH_CALL /* the function of this name, `times` times, each time with one
                    more in the last argument; the first result but zero ends it
                  */
};

struct anabranch_foreign_request {
  uint64_t kind, times;
  uint64_t arguments[ANABRANCH_FOREIGN_ARGUMENTS];
  char name[480];
};

enum anabranch_foreign_note_kind {
  ANABRANCH_WANTS, /* the page at `value`; the answer is a word and, if that is
                      not zero, the page */
  ANABRANCH_WROTE, /* `bytes` at `value`, which follow */
  ANABRANCH_DONE   /* `value` is the result */
};

struct anabranch_foreign_note {
  uint64_t kind, value, bytes;
};

#endif /* ANABRANCH_SUPPORT_NATIVE_FOREIGNCALLS_H */
