/* What a tile of a random super kernel reads, writes and notes: C and C++.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTTILES_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTTILES_H

#include "TestStamp.h"
#include "anabranch/KernelABI.h"

/* Tensors are blocks of words; a launch has no more tiles than this. */
enum { TILES_ROWS = 8, TILES_COLUMNS = 16, TILES_MOST = 16 };

/* Which part of a tensor a tile touches: its share of the words in a row, its
 * share of the columns, all, or that of its neighbours too. */
enum { PART_ROWS, PART_COLUMNS, PART_ALL, PART_NEAR, PART_KINDS };

/* Sizes of the kernel `tiled`: these, then the kind of each input's part. */
enum { TILED_TILES, TILED_ID, TILED_INPUTS, TILED_OUTPUT, TILED_KINDS };

/* Tickets of one tile, in the log after a stamp_header. */
typedef struct {
  int64_t begin, end;
} tile_entry;

static inline tile_entry *tile_entry_of(void *log, int64_t id, int64_t tile) {
  return (tile_entry *)((stamp_header *)log + 1) + id * TILES_MOST + tile;
}

static inline anabranch_strided_region tile_part(int64_t kind, int64_t tile,
                                                 int64_t tiles) {
  const int64_t words = TILES_ROWS * TILES_COLUMNS;
  anabranch_strided_region part = {0, words * 4, 0, 1};
  int64_t first = tile, last = tile + 1;
  if (kind == PART_COLUMNS) {
    part.offset = tile * TILES_COLUMNS / tiles * 4;
    part.width = (tile + 1) * TILES_COLUMNS / tiles * 4 - part.offset;
    part.pitch = (int64_t)TILES_COLUMNS * 4;
    part.count = TILES_ROWS;
    return part;
  }
  if (kind == PART_ALL)
    return part;
  if (kind == PART_NEAR) {
    first -= first > 0;
    last += last < tiles;
  }
  part.offset = first * words / tiles * 4;
  part.width = last * words / tiles * 4 - part.offset;
  return part;
}

static inline uint32_t tile_fold(const uint32_t *words,
                                 anabranch_strided_region part) {
  uint32_t value = 1;
  for (int64_t i = 0; i < part.count; ++i)
    for (int64_t b = 0; b < part.width; b += 4)
      value = stamp_mix(value, words[(part.offset + i * part.pitch + b) / 4]);
  return value;
}

/* Everything read decides every word written. */
static inline void tile_compute(const uint32_t *const *inputs, uint32_t *out,
                                const int64_t *sizes, int64_t tile) {
  uint32_t value = (uint32_t)sizes[TILED_ID];
  for (int64_t k = 0; k < sizes[TILED_INPUTS]; ++k)
    value = stamp_mix(
        value, tile_fold(inputs[k], tile_part(sizes[TILED_KINDS + k], tile,
                                              sizes[TILED_TILES])));
  anabranch_strided_region part =
      tile_part(sizes[TILED_OUTPUT], tile, sizes[TILED_TILES]);
  for (int64_t i = 0; i < part.count; ++i)
    for (int64_t b = 0; b < part.width; b += 4) {
      int64_t word = (part.offset + i * part.pitch + b) / 4;
      out[word] = stamp_mix(value, (uint32_t)word);
    }
}

#endif
