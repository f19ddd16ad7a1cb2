//===- Sha256.cpp - hashes of a package's files ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Sha256.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace anabranch::package {

namespace {

alignas(64) constexpr uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

uint32_t loadBigEndian(const uint8_t *p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 |
         uint32_t(p[3]);
}

void hashBlocks(uint32_t *state, const uint8_t *data, size_t blocks) {
  static const auto hash =
      sha256HasNative() ? sha256BlocksNative : sha256BlocksPortable;
  hash(state, data, blocks);
}

} // namespace

void sha256BlocksPortable(uint32_t *state, const uint8_t *data, size_t blocks) {
  for (; blocks; --blocks, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
      w[i] = loadBigEndian(data + 4 * i);
    for (int i = 16; i < 64; ++i) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + w[i - 7] +
             (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
    }
    uint32_t s[8];
    std::copy_n(state, 8, s);
    for (int i = 0; i < 64; ++i) {
      uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
      uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      uint32_t t1 = s[7] + sum1 + choice + k[i] + w[i];
      uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
      uint32_t t2 = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      std::copy_backward(s, s + 7, s + 8);
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i)
      state[i] += s[i];
  }
}

#if defined(__x86_64__)

bool sha256HasNative() {
  unsigned a, b, c, d;
  bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29));
  return sha && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("ssse3");
}

__attribute__((target("sha,sse4.1,ssse3"))) void
sha256BlocksNative(uint32_t *state, const uint8_t *data, size_t blocks) {
  const __m128i swap =
      _mm_set_epi64x(0x0c0d0e0f08090a0bULL, 0x0405060700010203ULL);
  // The SHA instructions want the state as ABEF and CDGH.
  __m128i lo = _mm_loadu_si128(reinterpret_cast<const __m128i *>(state));
  __m128i hi = _mm_loadu_si128(reinterpret_cast<const __m128i *>(state + 4));
  lo = _mm_shuffle_epi32(lo, 0xB1);
  hi = _mm_shuffle_epi32(hi, 0x1B);
  __m128i abef = _mm_alignr_epi8(lo, hi, 8);
  __m128i cdgh = _mm_blend_epi16(hi, lo, 0xF0);
  for (; blocks; --blocks, data += 64) {
    const __m128i abefBefore = abef, cdghBefore = cdgh;
    __m128i m[4];
    for (int i = 0; i < 4; ++i)
      m[i] = _mm_shuffle_epi8(
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(data + 16 * i)),
          swap);
    for (int i = 0; i < 16; ++i) {
      __m128i words = _mm_add_epi32(
          m[i & 3], _mm_load_si128(reinterpret_cast<const __m128i *>(k) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0E));
      // The words 16 steps later replace the four words used up.
      __m128i next = _mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]);
      next = _mm_add_epi32(next,
                           _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4));
      m[i & 3] = _mm_sha256msg2_epu32(next, m[(i + 3) & 3]);
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  lo = _mm_shuffle_epi32(abef, 0x1B);
  hi = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state),
                   _mm_blend_epi16(lo, hi, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state + 4),
                   _mm_alignr_epi8(hi, lo, 8));
}

#else

bool sha256HasNative() { return false; }
void sha256BlocksNative(uint32_t *state, const uint8_t *data, size_t blocks) {
  sha256BlocksPortable(state, data, blocks);
}

#endif

Sha256::Sha256()
    : state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::update(const void *data, size_t size) {
  auto *bytes = static_cast<const uint8_t *>(data);
  total += size;
  if (pendingSize) {
    size_t taken = std::min(size, sizeof(pending) - pendingSize);
    std::copy_n(bytes, taken, pending + pendingSize);
    pendingSize += taken;
    bytes += taken;
    size -= taken;
    if (pendingSize < sizeof(pending))
      return;
    hashBlocks(state, pending, 1);
    pendingSize = 0;
  }
  hashBlocks(state, bytes, size / 64);
  pendingSize = size % 64;
  std::copy_n(bytes + size - pendingSize, pendingSize, pending);
}

std::string Sha256::finish() {
  uint64_t bits = total * 8;
  static const uint8_t padding[64] = {0x80};
  update(padding, 1 + (119 - pendingSize) % 64);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, 8);
  std::string hex;
  for (uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4)
      hex += "0123456789abcdef"[(word >> shift) & 15];
  return hex;
}

std::string Sha256::of(const void *data, size_t size) {
  Sha256 hash;
  hash.update(data, size);
  return hash.finish();
}

} // namespace anabranch::package
