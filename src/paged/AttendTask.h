//===- AttendTask.h - one key head of one request ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The one file that a file for a width of vectors includes. It first sets
// ANABRANCH_PAGED_VECTOR_BYTES.
//
//   scores   q K: lanes are tokens. A key that is read serves several heads.
//   weights  their softmax, over all tokens of the request
//   output   weights V: lanes are places of the head
//
// The new token's key and value are read where the model left them, and written
// to the cache last: by then its lines are near.

#ifndef ANABRANCH_PAGED_ATTENDTASK_H
#define ANABRANCH_PAGED_ATTENDTASK_H

#include "paged/AttendCode.h"
#include "paged/FloatVector.h"

#include <algorithm>
#include <cmath>

namespace anabranch::paged {
namespace {

/// Some heads of one key head of one request. T is the cache's element.
template <typename T, int Heads> class Attend {
public:
  Attend(const PagedDecode &decode, int64_t request, int64_t keyHead,
         int64_t head, float *scratch)
      : decode(decode), request(request), keyHead(keyHead), head(head),
        size(decode.headSize), last(decode.lengths[request] - 1),
        begin(decode.window ? std::max<int64_t>(0, last + 1 - decode.window)
                            : 0),
        base(begin / decode.pageSize * decode.pageSize), query(scratch) {
    ScratchLayout layout(decode, last + 1 - base);
    weights = scratch + layout.query;
    pitch = layout.pitch;
  }

  void run() {
    scaleQuery();
    scorePages();
    scoreLast();
    for (int h = 0; h < Heads; ++h)
      inverse[h] = 1 / makeWeights(weights + h * pitch);
    int64_t place = 0;
    for (; place + mostVectors * width <= size; place += mostVectors * width)
      sumValues<mostVectors>(place);
    for (; place < size; place += width)
      sumValues<1>(place);
  }

private:
  /// Vectors of tokens, or of places of a head, that are summed at once: with
  /// all heads they fill the registers.
  static constexpr int mostVectors =
      (width == 16 ? 16 : 8) / mostHeads * (Heads <= mostHeads / 2 ? 2 : 1);

  const PagedDecode &decode;
  int64_t request, keyHead, head, size;
  int64_t last;  ///< the new token
  int64_t begin; ///< the first token of the window
  int64_t base;  ///< the first token of that one's page
  float *query;  ///< [Heads][head size], scaled
  float *weights;
  int64_t pitch;
  float inverse[Heads];

  /// The tokens of a page to which the request attends, but the last one.
  struct Part {
    int64_t first, end; ///< in the page
    int64_t token;      ///< the page's first token
    int64_t offset;     ///< of the page's key head, in elements
    int64_t next;       ///< the offset that is read after this one
  };
  template <typename Visit> void forEachPart(Visit visit) const {
    int64_t size = decode.pageSize, next = offsetOf(request, keyHead, base);
    for (int64_t token = base; token < last; token += size) {
      int64_t here = next;
      next = token + size < last ? offsetOf(request, keyHead, token + size)
                                 : offsetAfter();
      visit(Part{std::max<int64_t>(begin - token, 0),
                 std::min(last - token, size), token, here, next});
    }
  }

  int64_t offsetOf(int64_t ofRequest, int64_t ofHead, int64_t token) const {
    int64_t page =
        decode.table[ofRequest * decode.tableStep + token / decode.pageSize];
    return page * decode.pageStep + ofHead * decode.headStep;
  }

  /// The offset with which the next task begins.
  int64_t offsetAfter() const {
    if (keyHead + 1 < decode.keyHeads)
      return offsetOf(request, keyHead + 1, base);
    if (request + 1 == decode.requests)
      return offsetOf(request, keyHead, base);
    int64_t length = decode.lengths[request + 1];
    int64_t first =
        decode.window ? std::max<int64_t>(0, length - decode.window) : 0;
    return offsetOf(request + 1, 0, first);
  }

  /// Has the processor fetch some vectors. Pages lie apart, and its own guesses
  /// end where a page does.
  template <int Vectors> static void fetch(const T *from) {
    constexpr int line = 64 / sizeof(T);
    for (int i = 0; i < Vectors * width; i += line)
      __builtin_prefetch(from + i);
  }

  void scaleQuery() {
    const T *from = static_cast<const T *>(decode.query) +
                    request * decode.queryStep + head * size;
    for (int64_t i = 0; i < Heads * size; i += width)
      store(query + i, load(from + i) * decode.scale);
  }

  void scorePages() {
    forEachPart([&](const Part &part) {
      const T *keys = static_cast<const T *>(decode.keys) + part.offset;
      int64_t ahead = part.next - part.offset;
      float *scores = weights + part.token - base;
      int64_t token = part.first / width * width;
      while (token < part.end) {
        int64_t vectors = (part.end - token + width - 1) / width;
        token += scoreSome<mostVectors>(vectors, keys, scores, token, ahead);
      }
    });
  }

  /// Scores as many vectors of tokens as there are, up to `Most`.
  template <int Most>
  int64_t scoreSome(int64_t vectors, const T *keys, float *scores,
                    int64_t token, int64_t ahead) const {
    if constexpr (Most > 1)
      if (vectors < Most)
        return scoreSome<Most - 1>(vectors, keys, scores, token, ahead);
    return score<Most>(keys, scores, token, ahead);
  }

  /// Scores some vectors of tokens of a page. The tokens after the last one
  /// have no meaning.
  template <int Vectors>
  int64_t score(const T *keys, float *scores, int64_t token,
                int64_t ahead) const {
    Floats sums[Heads][Vectors] = {};
    const T *from = keys + token;
    for (int64_t place = 0; place < size; ++place, from += decode.pageSize) {
      fetch<Vectors>(from + ahead);
      Floats key[Vectors];
      for (int v = 0; v < Vectors; ++v)
        key[v] = load(from + v * width);
      for (int h = 0; h < Heads; ++h)
        for (int v = 0; v < Vectors; ++v)
          sums[h][v] += key[v] * query[h * size + place];
    }
    for (int h = 0; h < Heads; ++h)
      for (int v = 0; v < Vectors; ++v)
        store(scores + h * pitch + token + v * width, sums[h][v]);
    return Vectors * width;
  }

  void scoreLast() {
    const T *key = static_cast<const T *>(decode.key) +
                   request * decode.keyStep + keyHead * size;
    Floats sums[Heads] = {};
    for (int64_t place = 0; place < size; place += width) {
      Floats part = load(key + place);
      for (int h = 0; h < Heads; ++h)
        sums[h] += part * load(query + h * size + place);
    }
    for (int h = 0; h < Heads; ++h)
      weights[h * pitch + last - base] = sumOf(sums[h]);
  }

  /// Makes the exponentials of one head's scores, and returns their sum.
  float makeWeights(float *scores) const {
    int64_t count = last + 1 - base;
    int64_t whole = (count + width - 1) / width * width;
    std::fill(scores, scores + begin - base, -INFINITY);
    std::fill(scores + count, scores + whole, -INFINITY);
    Floats most = load(scores);
    for (int64_t token = width; token < whole; token += width)
      most = larger(most, load(scores + token));
    float largest = largestOf(most);
    Floats sums = {};
    for (int64_t token = 0; token < whole; token += width) {
      Floats weight = exponential(load(scores + token) - largest);
      store(scores + token, weight);
      sums += weight;
    }
    return sumOf(sums);
  }

  /// Sums the values of some vectors of places over all tokens.
  template <int Vectors> void sumValues(int64_t place) {
    Floats sums[Heads][Vectors] = {};
    auto add = [&](const T *from, const float *weight, int64_t ahead) {
      fetch<Vectors>(from + ahead);
      Floats value[Vectors];
      for (int v = 0; v < Vectors; ++v)
        value[v] = load(from + v * width);
      for (int h = 0; h < Heads; ++h)
        for (int v = 0; v < Vectors; ++v)
          sums[h][v] += value[v] * weight[h * pitch];
    };
    forEachPart([&](const Part &part) {
      const T *values =
          static_cast<const T *>(decode.values) + part.offset + place;
      const float *weight = weights + part.token - base;
      for (int64_t token = part.first; token < part.end; ++token)
        add(values + token * size, weight + token, part.next - part.offset);
    });
    const T *value = static_cast<const T *>(decode.value) +
                     request * decode.valueStep + keyHead * size;
    add(value + place, weights + last - base, 0);
    T *output = static_cast<T *>(decode.output) +
                (request * decode.heads + head) * size + place;
    for (int h = 0; h < Heads; ++h)
      for (int v = 0; v < Vectors; ++v)
        store(output + h * size + v * width, sums[h][v] * inverse[h]);
  }
};

/// Writes the key and the value of a request's new token to the cache.
template <typename T>
void writeToken(const PagedDecode &decode, int64_t request, int64_t keyHead) {
  int64_t size = decode.headSize, slot = decode.slots[request];
  int64_t place = slot % decode.pageSize;
  int64_t offset =
      slot / decode.pageSize * decode.pageStep + keyHead * decode.headStep;
  const T *key = static_cast<const T *>(decode.key) + request * decode.keyStep +
                 keyHead * size;
  const T *value = static_cast<const T *>(decode.value) +
                   request * decode.valueStep + keyHead * size;
  T *keys = static_cast<T *>(decode.keys) + offset + place;
  T *values = static_cast<T *>(decode.values) + offset + place * size;
  for (int64_t i = 0; i < size; ++i)
    keys[i * decode.pageSize] = key[i];
  std::copy(value, value + size, values);
}

/// Runs so many heads from `head` on, up to `Most`.
template <typename T, int Most>
void runHeads(int64_t count, const PagedDecode &decode, int64_t request,
              int64_t keyHead, int64_t head, float *scratch) {
  if constexpr (Most > 1)
    if (count < Most)
      return runHeads<T, Most - 1>(count, decode, request, keyHead, head,
                                   scratch);
  Attend<T, Most>(decode, request, keyHead, head, scratch).run();
}

template <typename T>
void runTask(const PagedDecode &decode, int64_t request, int64_t keyHead,
             float *scratch) {
  int64_t shared = decode.heads / decode.keyHeads;
  for (int64_t first = 0; first < shared; first += mostHeads)
    runHeads<T, mostHeads>(shared - first, decode, request, keyHead,
                           keyHead * shared + first, scratch);
  writeToken<T>(decode, request, keyHead);
}

const AttendCode code{runTask<BFloat>, runTask<float>};

} // namespace
} // namespace anabranch::paged

#endif // ANABRANCH_PAGED_ATTENDTASK_H
