//===- Keys.cpp - numbers as unsigned integers of the same order ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Keys.h"

#include <type_traits>

namespace anabranch::selection {

namespace {

/// Integers: a signed one has its sign bit turned.
template <typename T> struct IntegerKeys {
  using Stored = T;
  static constexpr uint64_t turned =
      std::is_signed<T>::value ? uint64_t(1) << 63 : 0;
  static uint64_t keyOf(T number) {
    return static_cast<uint64_t>(static_cast<int64_t>(number)) ^ turned;
  }
  static T numberOf(uint64_t key) { return static_cast<T>(key ^ turned); }
};

/// IEEE floats by their bits. `infinity` has all bits of the exponent.
template <typename Bits, Bits infinity> struct FloatKeys {
  using Stored = Bits;
  static constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  static constexpr Bits quiet = Bits(infinity | (infinity >> 1));
  static uint64_t keyOf(Bits bits) {
    Bits size = Bits(bits & Bits(~sign));
    if (size > infinity)
      return nanKey;
    // Zero has one key, whatever its sign.
    return bits & sign ? uint64_t(sign) - size : uint64_t(sign) + size;
  }
  static Bits numberOf(uint64_t key) {
    if (key == nanKey)
      return quiet;
    return key < sign ? Bits(sign | Bits(sign - key)) : Bits(key - sign);
  }
};

/// Calls `use` with the keys of a dtype. False if it has none.
template <typename Use> bool withKeys(DType dtype, Use use) {
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
    return use(IntegerKeys<uint8_t>()), true;
  case DType::I8:
    return use(IntegerKeys<int8_t>()), true;
  case DType::I16:
    return use(IntegerKeys<int16_t>()), true;
  case DType::I32:
    return use(IntegerKeys<int32_t>()), true;
  case DType::I64:
    return use(IntegerKeys<int64_t>()), true;
  case DType::F16:
    return use(FloatKeys<uint16_t, 0x7c00>()), true;
  case DType::BF16:
    return use(FloatKeys<uint16_t, 0x7f80>()), true;
  case DType::F32:
    return use(FloatKeys<uint32_t, 0x7f800000>()), true;
  case DType::F64:
    return use(FloatKeys<uint64_t, 0x7ff0000000000000>()), true;
  default:
    return false;
  }
}

} // namespace

bool hasKeys(DType dtype) {
  return withKeys(dtype, [](auto) {});
}

bool hasNan(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 ||
         dtype == DType::F64;
}

void writeKeys(const void *numbers, DType dtype, int64_t count, uint64_t *keys,
               int64_t step) {
  withKeys(dtype, [&](auto rule) {
    using Rule = decltype(rule);
    const auto *given = static_cast<const typename Rule::Stored *>(numbers);
    for (int64_t i = 0; i < count; ++i)
      keys[i * step] = Rule::keyOf(given[i]);
  });
}

void writePlaced(const void *numbers, DType dtype, int64_t count,
                 Placed *entries) {
  if (count)
    writeKeys(numbers, dtype, count, &entries->key, 2);
  for (int64_t i = 0; i < count; ++i)
    entries[i].place = i;
}

void writeNumbers(const uint64_t *keys, DType dtype, int64_t count,
                  void *numbers) {
  withKeys(dtype, [&](auto rule) {
    using Rule = decltype(rule);
    auto *made = static_cast<typename Rule::Stored *>(numbers);
    for (int64_t i = 0; i < count; ++i)
      made[i] = Rule::numberOf(keys[i]);
  });
}

} // namespace anabranch::selection
