//===- FloatVector.h - vectors of floats and their numbers ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PAGED_FLOATVECTOR_H
#define ANABRANCH_PAGED_FLOATVECTOR_H

#include <cstdint>
#include <cstring>
#include <utility>

namespace anabranch::paged {
namespace {

constexpr int width = ANABRANCH_PAGED_VECTOR_BYTES / sizeof(float);
using Floats __attribute__((vector_size(ANABRANCH_PAGED_VECTOR_BYTES))) = float;
using Words __attribute__((vector_size(ANABRANCH_PAGED_VECTOR_BYTES))) =
    uint32_t;
using Halves __attribute__((vector_size(ANABRANCH_PAGED_VECTOR_BYTES / 2))) =
    uint16_t;

/// The bits of a bfloat16.
struct BFloat {
  uint16_t bits;
};

inline Floats load(const float *from) {
  Floats vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
inline Floats load(const BFloat *from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  return Floats(__builtin_convertvector(halves, Words) << 16);
}

inline void store(float *to, Floats vector) {
  std::memcpy(to, &vector, sizeof vector);
}
/// Rounds to nearest, ties to even. NaN stays NaN.
inline void store(BFloat *to, Floats vector) {
  Words bits = Words(vector);
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  Words isNan = Words(vector != vector);
  Words chosen = (isNan & 0x7fc0) | (~isNan & rounded);
  Halves halves = __builtin_convertvector(chosen, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

inline Floats choose(Words which, Floats yes, Floats no) {
  return Floats((which & Words(yes)) | (~which & Words(no)));
}

inline Floats larger(Floats a, Floats b) { return choose(Words(a < b), b, a); }

/// The vector with neighbouring groups of `Group` lanes exchanged.
template <int Group, int... Lane>
inline Floats exchanged(Floats vector, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(vector, vector, (Lane ^ Group)...);
}
/// Joins all lanes by a function of two vectors, in log2(width) steps.
template <int Group = width / 2, typename Join>
inline float joined(Floats vector, Join join) {
  if constexpr (Group == 0)
    return vector[0];
  else
    return joined<Group / 2>(
        join(vector, exchanged<Group>(
                         vector, std::make_integer_sequence<int, width>())),
        join);
}
inline float sumOf(Floats vector) {
  return joined(vector, [](Floats a, Floats b) { return a + b; });
}
inline float largestOf(Floats vector) { return joined(vector, larger); }

/// e^x for x up to 0; the least normal number instead of less. NaN gives NaN.
inline Floats exponential(Floats x) {
  x = choose(Words(x < -87.0f), Floats{} - 87.0f, x);
  // Adding 1.5 * 2^23 rounds to an integer, which the sum's low bits then have.
  constexpr float magic = 12582912.0f, log2e = 1.44269504f;
  Floats sum = x * log2e + magic;
  Floats f = x * log2e - (sum - magic);
  // 2^f for f in [-0.5, 0.5], from its series.
  Floats power = Floats{} + 1.54035304e-4f;
  power = power * f + 1.33335581e-3f;
  power = power * f + 9.61812911e-3f;
  power = power * f + 5.55041087e-2f;
  power = power * f + 2.40226507e-1f;
  power = power * f + 6.93147181e-1f;
  power = power * f + 1.0f;
  return Floats(Words(power) + (Words(sum) << 23));
}

} // namespace
} // namespace anabranch::paged

#endif // ANABRANCH_PAGED_FLOATVECTOR_H
