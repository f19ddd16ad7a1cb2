/* The compiler library's C API: a graph description in, a package out.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every function may be called from several threads at once. No function
 * throws, aborts or prints; errors are in the result.
 */
#ifndef ANABRANCH_COMPILER_H
#define ANABRANCH_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define ANABRANCH_COMPILER_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Raise it whenever a struct or the meaning of a function here changes. */
#define ANABRANCH_COMPILER_API_VERSION 3

/* The value of a frozen input: a graph input with a "constant" name. Only
 * anabranch_compile reads the bytes, while it runs. */
typedef struct anabranch_constant {
  const char *name;
  const char *dtype; /* as in the graph description: "f32", "i64", ... */
  int64_t rank;
  const int64_t *shape;
  const void *data; /* may be null when the tensor has no elements */
  /* In elements, none negative; null: row-major contiguous. */
  const int64_t *strides;
} anabranch_constant;

/* Reports that `done` of `total` steps of `phase` are done. anabranch_compile
 * calls it on its own thread, a few times a second, so that the caller can poll
 * for signals. Any result but zero cancels. */
typedef int (*anabranch_progress_fn)(const char *phase, int64_t done,
                                     int64_t total, void *user_data);

/* A store of compiled kernels, of this graph or of others, under keys of 64
 * hexadecimal digits. The compiler calls both functions from any thread,
 * several at once. A function that fails does nothing: the compiler compiles a
 * kernel that it does not find. */
typedef struct anabranch_object_store {
  /* Identifies the compiler's build. Machine code depends on it, and the
   * compiler cannot find it out itself. */
  const char *identity;
  /* Calls `take` with the bytes under the key, or does nothing. */
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
 *   "hazards"  an in-place write that nothing orders after a reader on
 *              another stream: "error", or "wait" to order it     ["error"]
 *   "machine"  object: the measured rates of this machine. With it the
 *              compiler also makes streams where they gain time     [none]
 *   "super_kernels" "marked": of scopes in the graph; "auto": also of other
 *              launches, where "machine" promises gain           ["marked"]
 *   "activations" what products with weights of 4 or 8 bits read of the
 *              other operand: "exact", all of its precision; "int8", 8 bits
 *              with a scale for each row and some columns         ["exact"]
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
      *output; /* folder of the package; must not exist yet. The compiler
                  writes it beside and renames it: it exists whole or not */
  anabranch_progress_fn progress; /* or null */
  void *user_data;
  const anabranch_object_store *objects; /* or null */
} anabranch_compile_request;

typedef enum anabranch_compile_status {
  ANABRANCH_COMPILE_OK = 0,
  /* The graph asks for what cannot be compiled, or an option is wrong. */
  ANABRANCH_COMPILE_USER_ERROR = 1,
  /* A fault of the compiler or of the machine (no space on the disk). */
  ANABRANCH_COMPILE_INTERNAL_ERROR = 2,
  ANABRANCH_COMPILE_CANCELLED = 3
} anabranch_compile_status;

typedef struct anabranch_compile_result anabranch_compile_result;

/* Compiles a graph and returns the result's status. It always makes a result,
 * which the caller releases with anabranch_compile_result_free. Only if there
 * is no memory, the result is null, and the status is
 * ANABRANCH_COMPILE_INTERNAL_ERROR. */
ANABRANCH_COMPILER_EXPORT anabranch_compile_status
anabranch_compile(const anabranch_compile_request *request,
                  anabranch_compile_result **result);

ANABRANCH_COMPILER_EXPORT anabranch_compile_status
anabranch_compile_result_status(const anabranch_compile_result *result);

/* All diagnostics as one text: what was wrong, the user's line, what to do.
 * Empty if there are none. Valid as long as the result. */
ANABRANCH_COMPILER_EXPORT const char *
anabranch_compile_result_message(const anabranch_compile_result *result);

/* The report, a JSON object, valid as long as the result:
 *   {"phases":    [{"name": "import", "ms": 1.5}],
 *    "kernels":   [{"name": "..", "choice": "contraction", "ms": 12.0,
 *                   "launches": 6, "location": "m.py:12", "found": false}],
 *    "fallbacks": [{"op": "aten.topk", "calls": 2, "reason": "..",
 *                   "location": "m.py:40"}],
 *    "super_kernels": [{"name": "layer_0", "launches": 9, "streams": 1,
 *                       "symbolic": false, "location": "m.py:12"}],
 *    "super_breaks": [{"scope": "layer", "reason": "..",
 *                      "location": "m.py:40", "bypassed": false}],
 *    "dispatches": 57, "arena_bytes": 123456, "explain": ["..."]}
 * A failed compilation reports what was known before the failure. */
ANABRANCH_COMPILER_EXPORT const char *
anabranch_compile_result_report(const anabranch_compile_result *result);

ANABRANCH_COMPILER_EXPORT void
anabranch_compile_result_free(anabranch_compile_result *result);

/* The operators with a lowering, as a JSON array that is never released:
 *   [{"op": "add.Tensor", "family": "pointwise", "dtypes": ["f32", ...],
 *     "samples": "T(3, 5), T(5)", "whole": false}] */
ANABRANCH_COMPILER_EXPORT const char *anabranch_operator_table(void);

/* The version of the compiler, "0.1.0". */
ANABRANCH_COMPILER_EXPORT const char *anabranch_compiler_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ANABRANCH_COMPILER_H */
