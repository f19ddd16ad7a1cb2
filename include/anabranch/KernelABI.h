/* The contract between generated kernels and the runtime: plain C, versioned.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel library (`kernels.so` in a package) exports, for every kernel NAME,
 *
 *   int32_t NAME(void *const *buffers, const int64_t *sizes,
 *                void *scratch, int64_t tile);
 *   void NAME_plan(const int64_t *sizes, anabranch_kernel_plan *plan);
 *
 * may export
 *
 *   int32_t NAME_setup(void *const *buffers, const int64_t *sizes,
 *                      void *scratch);
 *   void NAME_footprint(const int64_t *sizes, int64_t tile,
 *                   anabranch_strided_region *regions);
 *
 * and, for a program with computed sizes, one `anabranch_sizes` function. A
 * library with Fourier transforms exports the variable `anabranch_fft` of type
 * anabranch_fft_fn, which the runtime sets when it loads the library.
 */
#ifndef ANABRANCH_KERNELABI_H
#define ANABRANCH_KERNELABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raise it whenever the meaning of anything in this header changes. A package
 * states the version that it was built for. The runtime refuses another one. */
#define ANABRANCH_KERNEL_ABI_VERSION 6

/* Every buffer that the runtime allocates, and the scratch memory, starts at a
 * multiple of this many bytes. Caller-owned tensors only have their natural
 * alignment. */
#define ANABRANCH_BUFFER_ALIGNMENT 64

/* The result of a kernel. Any value but zero fails the call; the other tiles of
 * the launch may or may not have run. */
enum anabranch_kernel_status {
  ANABRANCH_KERNEL_OK = 0,
  /* A data-dependent index is outside its dimension. */
  ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE = 1,
  /* An integer division or remainder by zero. */
  ANABRANCH_KERNEL_DIVISION_BY_ZERO = 2,
  /* A frozen weight has integers beyond the range that it was compiled for. */
  ANABRANCH_KERNEL_WEIGHT_OUT_OF_RANGE = 3
};

/* Runs one tile of a launch.
 *
 * buffers  first the inputs, then the outputs, in the order of the kernel's
 *          signature; each points at the element with index zero.
 * sizes    in this order: every dynamic dimension of every input, every dynamic
 *          dimension of every output, then the index arguments.
 * scratch  anabranch_kernel_plan::scratch_bytes of memory that belongs to the
 *          calling worker while the call lasts. If the kernel has a setup, the
 *          contents are those that its setup or another tile of this launch
 *          left there; else they are undefined.
 * tile     0 <= tile < anabranch_kernel_plan::tiles. Tiles of one launch write
 *          disjoint bytes and may run at once, in any order. */
typedef int32_t (*anabranch_kernel_fn)(void *const *buffers,
                                       const int64_t *sizes, void *scratch,
                                       int64_t tile);

/* Computes into `scratch` what all tiles of a launch read. A worker calls it
 * before its first tile of the launch, and again after its scratch memory was
 * used for anything else. Its result is a status, as a tile's is. */
typedef int32_t (*anabranch_kernel_setup_fn)(void *const *buffers,
                                             const int64_t *sizes,
                                             void *scratch);

typedef struct anabranch_kernel_plan {
  int64_t tiles;         /* number of tiles; zero when there is nothing to do */
  int64_t scratch_bytes; /* for each worker */
} anabranch_kernel_plan;

/* Computes the grid and the scratch memory for these sizes. A pure function: it
 * depends on `sizes` only. */
typedef void (*anabranch_kernel_plan_fn)(const int64_t *sizes,
                                         anabranch_kernel_plan *plan);

/* The bytes [offset + i * pitch, offset + i * pitch + width) for
 * 0 <= i < count, from a buffer's pointer. */
typedef struct anabranch_strided_region {
  int64_t offset, width, pitch, count;
} anabranch_strided_region;

/* Computes, for every buffer of a launch in the order of `buffers`, a region
 * with all bytes that the tile reads (of an input) or writes (of an output). A
 * pure function. A kernel without it may touch all of every buffer in any
 * tile. */
typedef void (*anabranch_kernel_footprint_fn)(
    const int64_t *sizes, int64_t tile, anabranch_strided_region *regions);

/* Fills slots[n..] of the program's size table from slots[0..n), the sizes read
 * from the inputs. */
typedef void (*anabranch_sizes_fn)(int64_t *slots);

enum anabranch_fft_kind {
  ANABRANCH_FFT_COMPLEX = 0,
  /* Real rows to the first length / 2 + 1 elements of their transforms, and
   * such halves to the real rows of which they are the transforms. */
  ANABRANCH_FFT_REAL_TO_HALF = 1,
  ANABRANCH_FFT_HALF_TO_REAL = 2
};

/* What the results are divided by: nothing, the root of the length, or the
 * length. */
enum anabranch_fft_norm {
  ANABRANCH_FFT_NO_NORM = 0,
  ANABRANCH_FFT_BY_ROOT_OF_LENGTH = 1,
  ANABRANCH_FFT_BY_LENGTH = 2
};

/* Transforms of rows that a kernel has gathered. Planes and `work` start at
 * multiples of ANABRANCH_BUFFER_ALIGNMENT. The pitches, and the number of rows,
 * are such multiples in bytes: rows and elements that fill them up are read and
 * written without meaning. */
typedef struct anabranch_fft_job {
  int64_t kind, norm;
  int64_t inverse;       /* of complex rows; half to real is always inverse */
  int64_t element_bytes; /* 4: f32, 8: f64 */
  int64_t length, rows;
  int64_t across; /* neighbours in a row are a pitch apart, and rows side
                     by side; else rows are a pitch apart */
  int64_t from_pitch, to_pitch; /* in elements */
  const void *from[2]; /* real parts, imaginary parts; second null if real */
  void *to[2];
  void *work; /* ANABRANCH_FFT_WORK_BYTES(length) of memory */
} anabranch_fft_job;

/* Enough for any length. */
#define ANABRANCH_FFT_WORK_BYTES(length) (256 * (4 * (length) + 8))

typedef void (*anabranch_fft_fn)(const anabranch_fft_job *job);

#ifdef __cplusplus
}
#endif

#endif /* ANABRANCH_KERNELABI_H */
