/* The compiler library's C API: a graph description in, a package out.
 *
 * Part of the Anabranch project, under the Apache License v2.0.
 * See LICENSE for license information.
 *
 * Every function may be called from several threads at once. No function
 * throws, aborts or prints; what went wrong is in the result.
 */
#ifndef ANABRANCH_COMPILER_H
#define ANABRANCH_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define ANABRANCH_COMPILER_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or the meaning of a function here changes. */
#define ANABRANCH_COMPILER_API_VERSION 3

/* The value of a frozen input (graph inputs with a "constant" name). The bytes
 * are only read while anabranch_compile runs. */
typedef struct anabranch_constant {
  const char *name;
  const char *dtype; /* as in the graph description: "f32", "i64", ... */
  int64_t rank;
  const int64_t *shape;
  const void *data; /* may be null when the tensor has no elements */
  /* In elements, none negative; null: row-major contiguous. */
  const int64_t *strides;
} anabranch_constant;

/* Told how far the compilation is: `done` of `total` steps of `phase`. Called
 * on the thread that called anabranch_compile, and often enough (a few times a
 * second) to poll for signals. Anything but zero cancels. */
typedef int (*anabranch_progress_fn)(const char *phase, int64_t done,
                                     int64_t total, void *user_data);

/* Machine code of kernels that was made before, for this graph or for another,
 * by a key of 64 hexadecimal digits. Both functions are called from any thread,
 * several at once, and fail silently: a kernel that is not found is made. */
typedef struct anabranch_object_store {
  /* The compiler's own build, which it does not see: code depends on it. */
  const char *identity;
  /* Hands the bytes that were kept under the key to `take`, or does nothing. */
  void (*find)(const char *key,
               void (*take)(const void *bytes, size_t size, void *taker),
               void *taker, void *user_data);
  void (*keep)(const char *key, const void *bytes, size_t size,
               void *user_data);
  void *user_data;
} anabranch_object_store;

/* Options are a JSON object; an unknown key is a user error. Absent keys take
 * the defaults in brackets.
 *   "threads"  threads that compile kernels, 0 = one per CPU        [0]
 *   "dump"     folder for the IR after each phase that changed it   [none]
 *   "stop"     phase after which to stop, without a package         [none]
 *   "explain"  put every refusal and its reason into the report     [false]
 *   "debug"    keep intermediate files, verify after every pass     [false]
 *   "cpu"      target CPU as LLVM names it                          ["host"]
 *   "bindings" list of objects: a program for each, in one package,
 *              in which these symbols have these values             [none]
 *   "pad"      let sizes without a program run in one of larger sizes; an
 *              error if that would change a result                  [false]
 *   "symbolic" also the program in which no symbol has a value      [false]
 *   "super_kernels" "marked": of scopes in the graph; "auto": also of other
 *              launches, where "machine" promises gain           ["marked"]
 *   "panels"   how frozen operands of products are packed: "best" for each
 *              number of rows, or "alike" for all, so that programs of equal
 *              weights share them                                 ["best"]
 *   "blockings" object: how kernels of products are cut up, as tuning found,
 *              by their keys in the report                          [none]
 *   "list_blockings" the report names so many ways to cut up each  [0]
 *   "config"   any object: kept in the manifest as it is            [none] */
typedef struct anabranch_compile_request {
  uint32_t api_version; /* ANABRANCH_COMPILER_API_VERSION */
  const char *graph;    /* graph description: UTF-8 JSON */
  size_t graph_size;
  const anabranch_constant *constants;
  size_t constant_count;
  const char *options; /* JSON object, NUL-terminated, or null */
  const char
      *output; /* folder of the package; must not exist yet. It is
                  written beside and renamed: there whole or not at all */
  anabranch_progress_fn progress; /* or null */
  void *user_data;
  const anabranch_object_store *objects; /* or null */
} anabranch_compile_request;

typedef enum anabranch_compile_status {
  ANABRANCH_COMPILE_OK = 0,
  /* The graph asks for something impossible, or an option is wrong. */
  ANABRANCH_COMPILE_USER_ERROR = 1,
  /* A fault of the compiler or of the machine (no space on the disk). */
  ANABRANCH_COMPILE_INTERNAL_ERROR = 2,
  ANABRANCH_COMPILE_CANCELLED = 3
} anabranch_compile_status;

typedef struct anabranch_compile_result anabranch_compile_result;

/* Compiles. Always makes a result (unless memory is out: then null and
 * ANABRANCH_COMPILE_INTERNAL_ERROR), to be released by
 * anabranch_compile_result_free. Returns the result's status. */
ANABRANCH_COMPILER_EXPORT anabranch_compile_status
anabranch_compile(const anabranch_compile_request *request,
                  anabranch_compile_result **result);

ANABRANCH_COMPILER_EXPORT anabranch_compile_status
anabranch_compile_result_status(const anabranch_compile_result *result);

/* Every diagnostic as one text: what was wrong, the user's line, what to do.
 * Empty when nothing went wrong and there is no remark. Lives as long as
 * the result. */
ANABRANCH_COMPILER_EXPORT const char *
anabranch_compile_result_message(const anabranch_compile_result *result);

/* A JSON object; lives as long as the result:
 *   {"phases":    [{"name": "import", "ms": 1.5}],
 *    "kernels":   [{"name": "..", "choice": "contraction", "ms": 12.0,
 *                   "launches": 6, "location": "m.py:12", "found": false}],
 *    "fallbacks": [{"op": "aten.topk", "calls": 2, "reason": "..",
 *                   "location": "m.py:40"}],
 *    "super_kernels": [{"name": "layer_0", "launches": 9, "streams": 1,
 *                       "location": "m.py:12"}],
 *    "super_breaks": [{"scope": "layer", "reason": "..",
 *                      "location": "m.py:40", "bypassed": false}],
 *    "dispatches": 57, "arena_bytes": 123456, "explain": ["..."]}
 * A failed compilation has what is known up to the failure. */
ANABRANCH_COMPILER_EXPORT const char *
anabranch_compile_result_report(const anabranch_compile_result *result);

ANABRANCH_COMPILER_EXPORT void
anabranch_compile_result_free(anabranch_compile_result *result);

/* The operators with a lowering, as a JSON array that lives for ever:
 *   [{"op": "add.Tensor", "family": "pointwise", "dtypes": ["f32", ...],
 *     "samples": "T(3, 5), T(5)", "whole": false}] */
ANABRANCH_COMPILER_EXPORT const char *anabranch_operator_table(void);

/* The version of the compiler, "0.1.0". */
ANABRANCH_COMPILER_EXPORT const char *anabranch_compiler_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ANABRANCH_COMPILER_H */
