/* What a command of a random program computes and notes: for C and C++.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTSTAMP_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTSTAMP_H

#include <sched.h>
#include <stdint.h>
#include <unistd.h>

/* Elements of every tensor, and how many of them a tile computes. */
enum { STAMP_ELEMENTS = 128, STAMP_TILE = 2, STAMP_NAP = 150000 };

/* Tickets instead of times: if one command is done before another begins, so
 * are their tickets, however coarse the clock. Relaxed, so that the notes order
 * nothing by themselves and hide no race from the thread sanitizer. */
typedef struct {
  int64_t begin, end;   /* of the first tile, of the last tile */
  int64_t tiles;        /* that ran */
  int64_t inside, most; /* workers at once */
} stamp_entry;

/* The input `log` of a call: this, then an entry for each command. */
typedef struct {
  int64_t ticket;
  int64_t stalls; /* 0: nobody stalls; else the seed of who does. -1 - n: the
                   * first tile of command n takes a nap */
  int64_t fails;  /* the command that fails, or -1 */
} stamp_header;

enum {
  STAMP_HEADER_WORDS = sizeof(stamp_header) / sizeof(int64_t),
  STAMP_ENTRY_WORDS = sizeof(stamp_entry) / sizeof(int64_t)
};

static inline uint32_t stamp_mix(uint32_t a, uint32_t b) {
  uint32_t h = a * 2654435761u ^ (b + 2246822519u);
  h = (h ^ h >> 15) * 2246822519u;
  return h ^ h >> 13;
}

/* The elements of one tile. What a command overwrites is read at the same
 * place, everything else anywhere. */
static inline void stamp_tile(const uint32_t *const *inputs, int64_t count,
                              uint32_t *out, int64_t id, int64_t tile) {
  for (int64_t i = tile * STAMP_TILE; i < (tile + 1) * STAMP_TILE; ++i) {
    uint32_t value = stamp_mix((uint32_t)id, (uint32_t)i);
    for (int64_t k = 0; k < count; ++k) {
      int64_t at = inputs[k] == out ? i : (i * 7 + id) % STAMP_ELEMENTS;
      value = stamp_mix(value, inputs[k][at]);
    }
    out[i] = value;
  }
}

static inline int64_t stamp_least(int64_t *word, int64_t value) {
  int64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(word, &old, value, 1, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    ;
  return old;
}

static inline int64_t stamp_most(int64_t *word, int64_t value) {
  int64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(word, &old, value, 1, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    ;
  return old;
}

static inline stamp_entry *stamp_entry_of(void *log, int64_t id) {
  return (stamp_entry *)((stamp_header *)log + 1) + id;
}

static inline int64_t stamp_ticket(void *log) {
  stamp_header *header = (stamp_header *)log;
  return __atomic_fetch_add(&header->ticket, 1, __ATOMIC_RELAXED);
}

/* Some tiles give up their core, some lose it for a while. */
static inline void stamp_stall(void *log, int64_t id, int64_t tile) {
  int64_t seed = ((stamp_header *)log)->stalls;
  if (seed == -1 - id && tile == 0)
    usleep(STAMP_NAP);
  if (seed <= 0)
    return;
  uint32_t luck = stamp_mix((uint32_t)(seed + id), (uint32_t)tile);
  if (luck % 512 == 0)
    usleep(luck / 512 % 300);
  else if (luck % 16 == 0)
    sched_yield();
}

/* Nonzero where the log wants the command to fail. */
static inline int stamp(void *log, const uint32_t *const *inputs, int64_t count,
                        uint32_t *out, int64_t id, int64_t tile) {
  stamp_entry *entry = stamp_entry_of(log, id);
  int64_t inside = __atomic_add_fetch(&entry->inside, 1, __ATOMIC_RELAXED);
  stamp_most(&entry->most, inside);
  stamp_least(&entry->begin, stamp_ticket(log));
  stamp_stall(log, id, tile);
  stamp_tile(inputs, count, out, id, tile);
  stamp_most(&entry->end, stamp_ticket(log));
  __atomic_fetch_add(&entry->tiles, 1, __ATOMIC_RELAXED);
  __atomic_fetch_sub(&entry->inside, 1, __ATOMIC_RELAXED);
  return ((stamp_header *)log)->fails == id;
}

#endif
