//===- Tensor.cpp - names and sizes of element types ----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Tensor.h"

namespace anabranch {

namespace {
struct Row {
  const char *name;
  size_t bytes;
};
constexpr Row rows[dtypeCount] = {
    {"bool", 1},     {"u8", 1},     {"i8", 1},         {"i16", 2},
    {"i32", 4},      {"i64", 8},    {"f16", 2},        {"bf16", 2},
    {"f32", 4},      {"f64", 8},    {"u16", 2},        {"u32", 4},
    {"u64", 8},      {"c32", 4},    {"c64", 8},        {"c128", 16},
    {"f8e4m3fn", 1}, {"f8e5m2", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}};

bool known(DType dtype) {
  return static_cast<int>(dtype) >= 0 && static_cast<int>(dtype) < dtypeCount;
}
} // namespace

size_t itemSize(DType dtype) {
  return known(dtype) ? rows[static_cast<int>(dtype)].bytes : 0;
}

const char *name(DType dtype) {
  return known(dtype) ? rows[static_cast<int>(dtype)].name : "unknown";
}

} // namespace anabranch
