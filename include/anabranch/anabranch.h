/* The C API: open a package, run it, read the error. Plain C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every function may be called from any thread. A function that can fail
 * returns a status. Null means success; the caller releases any other status
 * with anabranch_status_free. No function throws or ends the process.
 */
#ifndef ANABRANCH_ANABRANCH_H
#define ANABRANCH_ANABRANCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ANABRANCH_C_API __attribute__((visibility("default")))
#else
#define ANABRANCH_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anabranch_status anabranch_status;
typedef struct anabranch_executable anabranch_executable;

/* The numbers are those of anabranch::StatusCode. */
enum anabranch_status_code {
  ANABRANCH_OK = 0,
  ANABRANCH_INVALID_ARGUMENT = 1,
  ANABRANCH_TYPE_ERROR = 2,
  ANABRANCH_INDEX_ERROR = 3,
  ANABRANCH_ZERO_DIVISION = 4,
  ANABRANCH_OUT_OF_MEMORY = 5,
  ANABRANCH_BAD_PACKAGE = 6,
  ANABRANCH_UNSUPPORTED = 7,
  ANABRANCH_HOST_ERROR = 8,
  ANABRANCH_IO_ERROR = 9,
  ANABRANCH_INTERNAL = 10
};

/* The numbers are those of anabranch::DType. */
enum anabranch_dtype {
  ANABRANCH_BOOL = 0,
  ANABRANCH_U8,
  ANABRANCH_I8,
  ANABRANCH_I16,
  ANABRANCH_I32,
  ANABRANCH_I64,
  ANABRANCH_F16,
  ANABRANCH_BF16,
  ANABRANCH_F32,
  ANABRANCH_F64,
  ANABRANCH_U16,
  ANABRANCH_U32,
  ANABRANCH_U64,
  ANABRANCH_C32,
  ANABRANCH_C64,
  ANABRANCH_C128,
  ANABRANCH_F8E4M3FN,
  ANABRANCH_F8E5M2,
  ANABRANCH_F8E4M3FNUZ,
  ANABRANCH_F8E5M2FNUZ
};

/* A strided tensor that the caller owns. */
typedef struct anabranch_tensor {
  void *data;             /* the element with index zero */
  const int64_t *shape;   /* rank entries */
  const int64_t *strides; /* in elements; null: row-major contiguous */
  int32_t rank;
  int32_t dtype; /* anabranch_dtype */
} anabranch_tensor;

enum anabranch_input_kind {
  ANABRANCH_INPUT_TENSOR = 0,
  ANABRANCH_INPUT_SCALAR = 1
};

typedef struct anabranch_input {
  int32_t kind; /* anabranch_input_kind */
  anabranch_tensor tensor;
  int64_t scalar;
} anabranch_input;

enum anabranch_output_kind {
  ANABRANCH_OUTPUT_TENSOR = 0,
  ANABRANCH_OUTPUT_ALIAS = 1, /* input number `input`, as it is */
  ANABRANCH_OUTPUT_SCALAR = 2,
  ANABRANCH_OUTPUT_NONE = 3
};

typedef struct anabranch_output {
  int32_t kind; /* anabranch_output_kind */
  int32_t input;
  int64_t scalar;
  anabranch_tensor tensor;
} anabranch_output;

/* Returns memory for the tensor that is output number `index`. The tensor's
 * shape and strides are valid until the function returns. Null means out of
 * memory. A run asks at its beginning, and at its end for a tensor whose size
 * it has found. */
typedef void *(*anabranch_allocate_fn)(void *context, size_t index,
                                       const anabranch_tensor *tensor);

typedef struct anabranch_open_options {
  const char *device; /* null: "cpu" */
  int32_t threads;    /* 0: the default */
  int32_t skip_hashes;
  const char *target; /* null: the best that this CPU can run */
  /* Whose packages may be opened: "user", "group" or "anyone" (OpenOptions).
   * Null: the value of ANABRANCH_TRUST, else "user". */
  const char *trust;
} anabranch_open_options;

/* `options` may be null. */
ANABRANCH_C_API anabranch_status *
anabranch_open(const char *path, const anabranch_open_options *options,
               anabranch_executable **executable);
ANABRANCH_C_API void anabranch_close(anabranch_executable *executable);

ANABRANCH_C_API size_t
anabranch_input_count(const anabranch_executable *executable);
ANABRANCH_C_API size_t
anabranch_output_count(const anabranch_executable *executable);
/* The name of an input; null if there is no input of this number. */
ANABRANCH_C_API const char *
anabranch_input_name(const anabranch_executable *executable, size_t index);

/* The package's declaration of an input or an output. */
typedef struct anabranch_value_info {
  const char *name; /* "" when it has none */
  int32_t kind;     /* anabranch_input_kind or anabranch_output_kind */
  int32_t dtype;
  int32_t rank;
  int32_t mutated;        /* an input that is written in place */
  const int64_t *shape;   /* -1: any size */
  const int64_t *strides; /* -1: depends on sizes */
  /* The first value of a state that the caller keeps from call to call; null
   * for other inputs. */
  const void *initial;
} anabranch_value_info;

/* Pointers in `info` are valid as long as the executable. */
ANABRANCH_C_API anabranch_status *
anabranch_describe_input(const anabranch_executable *executable, size_t index,
                         anabranch_value_info *info);
ANABRANCH_C_API anabranch_status *
anabranch_describe_output(const anabranch_executable *executable, size_t index,
                          anabranch_value_info *info);
/* The target whose code runs; "" if the package has only one. Valid as long as
 * the executable. */
ANABRANCH_C_API const char *
anabranch_target(const anabranch_executable *executable);
/* The short name of a dtype, such as "f32"; null for a number that is none. */
ANABRANCH_C_API const char *anabranch_dtype_name(int32_t dtype);
/* Bytes of one element; 0 for a number that is no dtype. */
ANABRANCH_C_API size_t anabranch_item_size(int32_t dtype);

/* Runs the program and fills `outputs`. Only `allocate` sees `shape` and
 * `strides` of their tensors, which are null after the call. */
ANABRANCH_C_API anabranch_status *
anabranch_run(const anabranch_executable *executable,
              const anabranch_input *inputs, size_t input_count,
              anabranch_output *outputs, size_t output_count,
              anabranch_allocate_fn allocate, void *context);

/* The code of a status; ANABRANCH_OK for null. */
ANABRANCH_C_API int anabranch_status_code_of(const anabranch_status *status);
/* The message of a status; "" for null. Valid as long as the status. */
ANABRANCH_C_API const char *
anabranch_status_message(const anabranch_status *status);
ANABRANCH_C_API void anabranch_status_free(anabranch_status *status);

ANABRANCH_C_API void anabranch_set_default_threads(int32_t threads);
/* Binds workers to CPUs: "off", "cores" or a list of CPUs such as "0,2-3". */
ANABRANCH_C_API anabranch_status *anabranch_pin_workers(const char *where);
ANABRANCH_C_API const char *anabranch_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ANABRANCH_ANABRANCH_H */
