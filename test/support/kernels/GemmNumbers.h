//===- GemmNumbers.h - operands of a GemmCase -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Numbers in the dtypes and layouts of a GemmCase. For tests only.

#ifndef ANABRANCH_SUPPORT_CODEGEN_GEMMNUMBERS_H
#define ANABRANCH_SUPPORT_CODEGEN_GEMMNUMBERS_H

#include "support/kernels/GemmCase.h"
#include "support/native/GuardedMemory.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace anabranch {
namespace kernels {

inline double read(const char *bytes, size_t i, const std::string &type) {
  if (type == "f64")
    return reinterpret_cast<const double *>(bytes)[i];
  if (type == "f32")
    return reinterpret_cast<const float *>(bytes)[i];
  if (type == "i32")
    return reinterpret_cast<const int32_t *>(bytes)[i];
  if (type == "i64")
    return double(reinterpret_cast<const int64_t *>(bytes)[i]);
  if (type == "f16")
    return static_cast<double>(reinterpret_cast<const _Float16 *>(bytes)[i]);
  uint32_t bits = uint32_t(reinterpret_cast<const uint16_t *>(bytes)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Numbers as bytes of a dtype, and their exact values.
struct Numbers {
  std::vector<char> bytes;
  std::vector<double> values;

  Numbers() = default;
  /// Numbers that are exact in every dtype. The largest bytes are among the
  /// first.
  Numbers(size_t count, const std::string &type, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> eighths(-16, 16);
    std::uniform_int_distribution<int> bytes(type == "u8" ? 0 : -128,
                                             type == "u8" ? 255 : 127);
    bool isInteger = type[0] == 'i' || type[0] == 'u';
    for (size_t i = 0; i < count; ++i) {
      double value = eighths(random) / 8.0;
      if (isInteger)
        value = i < 4 ? bytes.min() : bytes(random);
      append(type, value);
    }
  }
  /// Numbers around zero, of a floating type, with random digits.
  static Numbers reals(size_t count, const std::string &type, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    Numbers numbers;
    for (size_t i = 0; i < count; ++i)
      numbers.append(type, normal(random));
    return numbers;
  }

  void append(const std::string &type, double value) {
    char buffer[8];
    size_t size = 4;
    float single = static_cast<float>(value);
    if (type == "f64") {
      std::memcpy(buffer, &value, size = 8);
    } else if (type == "f32") {
      std::memcpy(buffer, &single, 4);
    } else if (type == "i64") {
      auto integer = static_cast<int64_t>(value);
      std::memcpy(buffer, &integer, size = 8);
    } else if (type[0] == 'i' || type[0] == 'u') {
      auto integer = static_cast<int32_t>(value);
      std::memcpy(buffer, &integer, size = type == "i32" ? 4 : 1);
    } else if (type == "bf16") {
      std::memcpy(buffer, reinterpret_cast<char *>(&single) + 2, size = 2);
    } else {
      _Float16 half = static_cast<_Float16>(value);
      std::memcpy(buffer, &half, size = 2);
    }
    bytes.insert(bytes.end(), buffer, buffer + size);
    values.push_back(type.back() == '8' ? value : read(buffer, 0, type));
  }
  /// Overwrites a number.
  void set(size_t i, const std::string &type, double value) {
    Numbers one;
    one.append(type, value);
    std::memcpy(&bytes[i * one.bytes.size()], one.bytes.data(),
                one.bytes.size());
    values[i] = one.values[0];
  }
};

/// A copy of bytes beside a page that nobody may access.
struct Guarded : native::GuardedMemory {
  explicit Guarded(const std::vector<char> &bytes, Side side = Side::End)
      : native::GuardedMemory(bytes.size(), side) {
    std::memcpy(data(), bytes.data(), size());
  }
};

inline size_t offset(const GemmCase &c, const std::string &letters, int64_t b,
                     int64_t m, int64_t n, int64_t k) {
  size_t at = 0;
  for (char letter : letters) {
    int64_t position = letter == 'b'   ? b
                       : letter == 'm' ? m
                       : letter == 'n' ? n
                                       : k;
    at = at * sizeOf(c, letter) + position;
  }
  return at;
}

/// The place of an element of the left operand.
inline size_t leftOffset(const GemmCase &c, int64_t b, int64_t m, int64_t k) {
  if (c.heads == 1)
    return offset(c, c.left, b, m, 0, k);
  int64_t depths = c.k / c.heads;
  return (k / depths * c.m + m) * depths + k % depths;
}

inline size_t count(const GemmCase &c, const std::string &letters) {
  size_t product = 1;
  for (char letter : letters)
    product *= sizeOf(c, letter);
  return product;
}

/// The right operand in its layout in memory.
inline std::vector<char> rightBytes(const GemmCase &c, const Numbers &right) {
  if (c.width == 0)
    return right.bytes;
  size_t bytes = right.bytes.size() / right.values.size();
  std::vector<char> packed(c.batch * c.panels() * c.words() * c.width *
                           c.kPack * bytes);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t n = 0; n < c.n; ++n)
      for (int64_t k = 0; k < c.k; ++k) {
        int64_t panel = b * c.panels() + n / c.width;
        int64_t row = panel * c.words() + k / c.kPack;
        int64_t at = (row * c.width + n % c.width) * c.kPack + k % c.kPack;
        std::memcpy(&packed[at * bytes],
                    &right.bytes[offset(c, c.right, b, 0, n, k) * bytes],
                    bytes);
      }
  return packed;
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_GEMMNUMBERS_H
