/* Kernels in C for the runtime's tests.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "TestStamp.h"
#include "TestTiles.h"
#include "anabranch/KernelABI.h"

#define EXPORT __attribute__((visibility("default")))
#define TILE 16

static int64_t tilesFor(int64_t count) { return (count + TILE - 1) / TILE; }

/* sizes: count. Elements of tile `tile`. */
#define EACH(i)                                                                \
  for (int64_t i = tile * TILE,                                                \
               end_ = i + TILE < sizes[0] ? i + TILE : sizes[0];               \
       i < end_; ++i)

#define PLAIN_PLAN(name)                                                       \
  EXPORT void name##_plan(const int64_t *sizes, anabranch_kernel_plan *plan) { \
    plan->tiles = tilesFor(sizes[0]);                                          \
    plan->scratch_bytes = 0;                                                   \
  }

/* out = in + 1 */
EXPORT int32_t increment(void *const *buffers, const int64_t *sizes,
                         void *scratch, int64_t tile) {
  const float *in = buffers[0];
  float *out = buffers[1];
  EACH(i) out[i] = in[i] + 1;
  return ANABRANCH_KERNEL_OK;
}
PLAIN_PLAN(increment)

/* Elements of a tile, of every operand. */
static void footprintOfRows(const int64_t *sizes, int64_t tile, int operands,
                            anabranch_strided_region *regions) {
  int64_t begin = tile * TILE;
  int64_t end = begin + TILE < sizes[0] ? begin + TILE : sizes[0];
  for (int i = 0; i < operands; ++i) {
    anabranch_strided_region region = {begin * 4, (end - begin) * 4, 0, 1};
    regions[i] = region;
  }
}
EXPORT void increment_footprint(const int64_t *sizes, int64_t tile,
                                anabranch_strided_region *regions) {
  footprintOfRows(sizes, tile, 2, regions);
}

/* out = a + b */
EXPORT int32_t add(void *const *buffers, const int64_t *sizes, void *scratch,
                   int64_t tile) {
  const float *a = buffers[0], *b = buffers[1];
  float *out = buffers[2];
  EACH(i) out[i] = a[i] + b[i];
  return ANABRANCH_KERNEL_OK;
}
PLAIN_PLAN(add)
EXPORT void add_footprint(const int64_t *sizes, int64_t tile,
                          anabranch_strided_region *regions) {
  footprintOfRows(sizes, tile, 3, regions);
}

/* One tile, however long: out = 2 * in */
EXPORT int32_t twice(void *const *buffers, const int64_t *sizes, void *scratch,
                     int64_t tile) {
  const float *in = buffers[0];
  float *out = buffers[1];
  for (int64_t i = 0; i < sizes[0]; ++i)
    out[i] = 2 * in[i];
  return ANABRANCH_KERNEL_OK;
}
EXPORT void twice_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  plan->tiles = sizes[0] > 0;
  plan->scratch_bytes = 0;
}

/* out[i] = table[index[i]] over 8 rows of one element; indices are checked. */
EXPORT int32_t gather(void *const *buffers, const int64_t *sizes, void *scratch,
                      int64_t tile) {
  const float *table = buffers[0];
  const int64_t *index = buffers[1];
  float *out = buffers[2];
  EACH(i) {
    if (index[i] < 0 || index[i] >= 8)
      return ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE;
    out[i] = table[index[i]];
  }
  return ANABRANCH_KERNEL_OK;
}
PLAIN_PLAN(gather)

/* Reverses each tile through scratch memory. */
EXPORT int32_t reverse(void *const *buffers, const int64_t *sizes,
                       void *scratch, int64_t tile) {
  const float *in = buffers[0];
  float *out = buffers[1], *row = scratch;
  EACH(i) row[i - tile * TILE] = in[i];
  int64_t begin = tile * TILE;
  int64_t end = begin + TILE < sizes[0] ? begin + TILE : sizes[0];
  EACH(i) out[i] = row[end - 1 - i];
  return ANABRANCH_KERNEL_OK;
}
EXPORT void reverse_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  plan->tiles = tilesFor(sizes[0]);
  plan->scratch_bytes = TILE * sizeof(float);
}

/* Needs more scratch memory than any machine has. */
EXPORT int32_t greedy(void *const *buffers, const int64_t *sizes, void *scratch,
                      int64_t tile) {
  return ANABRANCH_KERNEL_OK;
}
EXPORT void greedy_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  plan->tiles = 1;
  plan->scratch_bytes = sizes[0] > 1000 ? (int64_t)1 << 60 : 0;
}

/* A command of a random program; sizes: tiles, number, inputs after the log. */
static int32_t stamp_launch(void *const *buffers, const int64_t *sizes,
                            int64_t tile) {
  const uint32_t *const *inputs = (const uint32_t *const *)(buffers + 1);
  return stamp(buffers[0], inputs, sizes[2], buffers[1 + sizes[2]], sizes[1],
               tile)
             ? ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE
             : ANABRANCH_KERNEL_OK;
}

/* Writes to scratch memory: what another launch's setup left is gone. */
EXPORT int32_t stamped(void *const *buffers, const int64_t *sizes,
                       void *scratch, int64_t tile) {
  ((int64_t *)scratch)[0] = -1;
  return stamp_launch(buffers, sizes, tile);
}
EXPORT void stamped_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  plan->tiles = sizes[0];
  plan->scratch_bytes = 2 * sizeof(int64_t);
}

/* The same with a setup, which writes the command's number and something that
 * differs from call to call. A tile fails where it does not find them. */
EXPORT int32_t settled_setup(void *const *buffers, const int64_t *sizes,
                             void *scratch) {
  int64_t *shared = scratch;
  shared[0] = sizes[1];
  shared[1] = ((stamp_header *)buffers[0])->stalls;
  return ANABRANCH_KERNEL_OK;
}
EXPORT int32_t settled(void *const *buffers, const int64_t *sizes,
                       void *scratch, int64_t tile) {
  const int64_t *shared = scratch;
  if (shared[0] != sizes[1] ||
      shared[1] != ((stamp_header *)buffers[0])->stalls)
    return ANABRANCH_KERNEL_DIVISION_BY_ZERO;
  return stamp_launch(buffers, sizes, tile);
}
EXPORT void settled_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  stamped_plan(sizes, plan);
}

/* A launch of a random super kernel; buffers: log, inputs, output. */
EXPORT int32_t tiled(void *const *buffers, const int64_t *sizes, void *scratch,
                     int64_t tile) {
  int64_t id = sizes[TILED_ID];
  tile_entry *entry = tile_entry_of(buffers[0], id, tile);
  entry->begin = stamp_ticket(buffers[0]);
  stamp_stall(buffers[0], id, tile);
  tile_compute((const uint32_t *const *)(buffers + 1),
               buffers[1 + sizes[TILED_INPUTS]], sizes, tile);
  entry->end = stamp_ticket(buffers[0]);
  return ((stamp_header *)buffers[0])->fails == id
             ? ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE
             : ANABRANCH_KERNEL_OK;
}
EXPORT void tiled_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  plan->tiles = sizes[TILED_TILES];
  plan->scratch_bytes = 0;
}
EXPORT void tiled_footprint(const int64_t *sizes, int64_t tile,
                            anabranch_strided_region *regions) {
  int64_t inputs = sizes[TILED_INPUTS], tiles = sizes[TILED_TILES];
  const anabranch_strided_region none = {0, 0, 0, 0};
  regions[0] = none;
  for (int64_t k = 0; k < inputs; ++k)
    regions[1 + k] = tile_part(sizes[TILED_KINDS + k], tile, tiles);
  regions[1 + inputs] = tile_part(sizes[TILED_OUTPUT], tile, tiles);
}

/* The same, and says nothing of what it touches. */
EXPORT int32_t blind(void *const *buffers, const int64_t *sizes, void *scratch,
                     int64_t tile) {
  return tiled(buffers, sizes, scratch, tile);
}
EXPORT void blind_plan(const int64_t *sizes, anabranch_kernel_plan *plan) {
  tiled_plan(sizes, plan);
}

/* slots: 0 = n; 1 = bytes of n floats, rounded up to 64. */
EXPORT void sizes(int64_t *slots) {
  slots[1] = (slots[0] * (int64_t)sizeof(float) + 63) / 64 * 64;
}
